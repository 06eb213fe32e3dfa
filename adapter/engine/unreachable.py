"""Why Temporal cannot be reached, in a few words: its client tells how its parts are called."""

from __future__ import annotations

import re
from typing import Final

from temporalio.service import RPCError

NO_ANSWER: Final = (RPCError, OSError, RuntimeError)
"""What the client raises without an answer; RuntimeError where a lazy one cannot connect."""

_REASONS: Final = (
    (r"refused", "the connection was refused; nothing listens there"),
    (r"dns error|lookup address|name or service", "the name of the host is not known"),
    (r"invalid target url|invalid uri|invalid url|relative url", "it is no address like host:port"),
    (r"certificate|tls|handshake|ssl", "TLS could not be agreed on"),
    (r"unreachable|no route", "there is no way to that host"),
    (r"timed? ?out|deadline", "it did not answer in time"),
    (
        r"connection closed|broken pipe|reset|frame|protocol|http",
        "it does not speak Temporal's protocol",
    ),
    (r"permission|unauthenticated|unauthorized", "it does not let this client in"),
)


def reason_of(error: BaseException) -> str:
    """Returns why a call to Temporal failed.

    Args:
        error: Whatever its client raised.
    """
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    told = str(error)
    if isinstance(error, RPCError):
        return f"{error.status.name.lower().replace('_', ' ')}: {error.message}"[:200]
    for pattern, reason in _REASONS:
        if re.search(pattern, told, re.IGNORECASE):
            return reason
    return "it did not answer"
