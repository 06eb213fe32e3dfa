"""``almanac cancel``: ends an instance before it has come to its end."""

import typer

from adapter.cli.opening import AsJson
from adapter.cli.sending import Reason, Sender, Ulid, Wait, send

NAME = "cancel"


def command(
    ctx: typer.Context,
    ulid: Ulid,
    reason: Reason = None,
    sender: Sender = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Cancels an instance and the ones that it waits for.

    A step that runs is asked to stop. An instance that no worker has begun can be cancelled, too.
    With --wait the command ends with 4 when the instance refuses it because it has ended before,
    and with 5 when it has not got to it in time.

        almanac cancel 01JZ8X0V5M6T3C2R9Q4K7W1N8B --reason withdrawn
        almanac cancel 01JZ8X0V5M6T3C2R9Q4K7W1N8B --sender user:3 --wait 10
    """
    send(
        ctx,
        lambda almanac, by: almanac.cancel(ulid, reason, sender=by),
        sender=sender,
        wait=wait,
        as_json=as_json,
    )
