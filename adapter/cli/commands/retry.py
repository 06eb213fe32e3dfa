"""``almanac retry``: tries a failed instance again."""

import typer

from adapter.cli.opening import AsJson
from adapter.cli.sending import Sender, Ulid, Wait, send

NAME = "retry"


def command(
    ctx: typer.Context,
    ulid: Ulid,
    sender: Sender = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Tries a failed instance again, from the step that failed; what succeeded is not repeated.

    Of parallel branches and items only the failed ones are tried. With --wait the command ends
    with 4 when the instance refuses it, and with 5 when it has not got to it in time; see with
    `almanac show ULID --wait SECONDS` how the new attempt ends.

        almanac retry 01JZ8X0V5M6T3C2R9Q4K7W1N8B
        almanac retry 01JZ8X0V5M6T3C2R9Q4K7W1N8B --wait 10
    """
    send(
        ctx,
        lambda almanac, by: almanac.retry(ulid, sender=by),
        sender=sender,
        wait=wait,
        as_json=as_json,
    )
