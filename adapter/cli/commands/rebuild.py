"""``almanac rebuild``: executions for unfinished instances, from the record alone."""

from typing import TYPE_CHECKING, Annotated

import typer

from adapter.cli.failures import usage
from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import plain, print_json, stderr, stdout
from adapter.cli.progress import counting

if TYPE_CHECKING:
    from adapter.services.rebuilding import Rebuilt

NAME = "rebuild"

INCOMPLETE = 5
"""The exit code when Temporal did not take some."""


def command(
    ctx: typer.Context,
    ulids: Annotated[
        list[str] | None, typer.Argument(metavar="[ULID]...", help="The instances.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All unfinished ones without an open execution.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Gives unfinished instances executions in Temporal again, whatever became of theirs.

    For after Temporal has lost its data, or executions were terminated. All that an instance has
    done stands in the record: no step that has succeeded is repeated, and to run it again does no
    harm. Ends with 5 when Temporal did not take all.

        almanac rebuild 01JZ8X0V5M6T3C2R9Q4K7W1N8B
        almanac rebuild --all
    """
    if every == bool(ulids):
        raise usage("name instances, or give --all")
    with open_almanac(ctx) as almanac:
        if every:
            with counting("looked at") as progress:
                done = almanac.rebuild_all(progress)
        else:
            with stderr().status("Rebuilding"):
                done = almanac.rebuild(*(ulids or ()))
    if as_json:
        print_json(done.as_json())
    else:
        _print(done, every=every)
    if done.refused:
        raise typer.Exit(INCOMPLETE)


def _print(done: "Rebuilt", *, every: bool) -> None:
    stdout().print(f"poked {done.poked} of {done.unfinished} unfinished instances")
    if every:
        stdout().print(f"{done.open} had one already")
    for ulid in done.ended:
        stderr().print(f"{ulid} has ended and needs none")
    for one in done.refused[:5]:
        stderr().print(f"{one.ulid} was not taken: {plain(one.reason)}", style="red")
    if len(done.refused) > 5:
        stderr().print(f"and {len(done.refused) - 5} more; run it again", style="red")
