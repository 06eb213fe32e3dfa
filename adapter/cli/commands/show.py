"""``almanac show``: one instance with its timeline and the reasons for its way."""

from typing import Annotated

import typer

from adapter.cli.failures import ENDED_BADLY
from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import stderr
from adapter.cli.timeline import print_instance

NAME = "show"


def command(
    ctx: typer.Context,
    ulid: Annotated[str, typer.Argument(metavar="ULID", help="The instance.")],
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Wait for its end first.")
    ] = None,
    most: Annotated[
        int,
        typer.Option(
            min=1,
            max=100_000,
            help="Step runs, waits, edges, children and effects: the newest ones.",
        ),
    ] = 1_000,
    why: Annotated[
        bool,
        typer.Option("--why", help="Tell of each condition that was tested what it compared."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Shows an instance: every step run, why each edge was taken, and what it waits for now.

    Branches and items stand below the node that owns them, instances below the step that started
    them; of many, the first and the failed ones are drawn, and the JSON has them all. Where a line
    comes to a node again, `visit` counts; where a step was tried again, `attempt`. Commands
    that it has not got to are listed, and signals that it keeps until a step waits for them.

    With --wait the command ends with 7 when the instance failed or was cancelled, and with 5 when
    it has not ended in time.

        almanac show 01JZ8X0V5M6T3C2R9Q4K7W1N8B
        almanac show 01JZ8X0V5M6T3C2R9Q4K7W1N8B --wait 30 --json
        almanac show 01JZ8X0V5M6T3C2R9Q4K7W1N8B --why
    """
    with open_almanac(ctx) as almanac:
        if wait is not None:
            with stderr().status(f"Waiting for {ulid}"):
                view = almanac.wait(ulid, timeout=wait, most=most)
        else:
            view = almanac.show(ulid, most=most)
        choices = almanac.explain(ulid, most=most) if why else None
    print_instance(view, as_json=as_json, choices=choices)
    if wait is not None:
        raise typer.Exit(0 if view.status == "completed" else ENDED_BADLY)
