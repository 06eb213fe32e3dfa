"""``almanac resume``: lets a paused instance go on."""

import typer

from adapter.cli.opening import AsJson
from adapter.cli.sending import Sender, Ulid, Wait, send

NAME = "resume"


def command(
    ctx: typer.Context,
    ulid: Ulid,
    sender: Sender = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Lets a paused instance go on; what fell due or came in meanwhile is acted on then.

    With --wait the command ends with 4 when the instance refuses it, and with 5 when it has not
    got to it in time.

        almanac resume 01JZ8X0V5M6T3C2R9Q4K7W1N8B
        almanac resume 01JZ8X0V5M6T3C2R9Q4K7W1N8B --wait 10
    """
    send(
        ctx,
        lambda almanac, by: almanac.resume(ulid, sender=by),
        sender=sender,
        wait=wait,
        as_json=as_json,
    )
