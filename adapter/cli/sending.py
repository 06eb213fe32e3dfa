"""What the commands to instances share: they send one row, and may wait for what becomes of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapter.cli.inputs import read_reference, read_wait
from adapter.cli.opening import open_almanac
from adapter.cli.output import plain, print_json, stderr, stdout

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.client.almanac import Almanac
    from adapter.services.applying import Applied
    from adapter.services.commanding import Receipt
    from adapter.services.morphs import Ref

Ulid = Annotated[str, typer.Argument(metavar="ULID", help="The instance.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="For people; kept in the inbox.")]
Sender = Annotated[
    str | None, typer.Option(metavar="TYPE:ID", help="Who sends it; kept in the inbox.")
]
Wait = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Wait until the instance has done or refused it."),
]


def send(
    ctx: typer.Context,
    command: Callable[[Almanac, Ref | None], Receipt],
    *,
    sender: str | None,
    wait: float | None,
    as_json: bool,
    look: Callable[[Almanac], dict[str, Any]] | None = None,
) -> None:
    """Sends a command and prints the id of its row; with ``wait`` also what became of it.

    Args:
        ctx: This call.
        command: Sends it, given the sender.
        sender: ``TYPE:ID``.
        wait: How many seconds to wait; None does not wait.
        as_json: The receipt or, after waiting, the result as one JSON object.
        look: What to find out just before it is sent. It goes with the receipt; a ``note`` is for
            people, who are told it.

    Raises:
        InvalidInput: ``invalid_timeout``, ``invalid_reference``; nothing was sent.
        Conflict: It was refused; the code is the reason.
        Unavailable: ``wait_timeout``.
    """
    read_wait(wait)
    with open_almanac(ctx) as almanac:
        by = read_reference(sender, "sender", almanac.settings.key_type)
        seen = {} if look is None else look(almanac)
        note = seen.pop("note", None)
        receipt = command(almanac, by)
        if not as_json:
            stdout().print(receipt.id)
            sys.stdout.flush()
        if wait is None:
            if as_json:
                print_json({**receipt.as_json(), **seen})
            else:
                told = f"written; see what becomes of it: almanac inbox {receipt.ulid}"
                stderr().print(told, soft_wrap=True)
                if note is not None:
                    stderr().print(plain(note), markup=False, soft_wrap=True)
            return
        with stderr().status(f"Waiting for {receipt.ulid}"):
            result = almanac.wait_applied(receipt, wait)
    _tell(result, as_json=as_json)


def _tell(result: Applied, *, as_json: bool) -> None:
    if (error := result.as_error()) is not None:
        raise error
    if as_json:
        print_json(result.as_json())
    elif result.kept:
        stderr().print(
            f"done: it is kept, no step has taken it yet; see it with: almanac show {result.ulid}",
            soft_wrap=True,
        )
    else:
        stderr().print("done")
