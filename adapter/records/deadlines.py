"""A client that gives up: connections that do not wait for ever for a server that says nothing.

The server's own ``statement_timeout`` ends what takes too long, but a server that is frozen, or
whose host has vanished, ends nothing and may keep its sockets open. So each exchange has a limit
here, too. A connection that has reached it is closed, since what comes after is unknown.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Generator

    from sqlalchemy import Engine

R = TypeVar("R")

GRACE: Final = 5.0
"""Seconds that the client waits longer than the server may take."""

_UNITS: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIMEOUT: Final = re.compile(r"statement_timeout\s*=\s*'?(\d+)\s*(ms|s|min|h)?")


class PatientConnection(psycopg.Connection[Any]):
    """A connection whose patience has an end; None waits for ever."""

    patience: float | None = None

    def wait(self, gen: Generator[Any, Any, R], *arguments: Any, **options: Any) -> R:
        """Runs one exchange with the server.

        Raises:
            psycopg.OperationalError: The server did not answer in time.
        """
        if self.patience is None:
            return super().wait(gen, *arguments, **options)
        return super().wait(self._limited(gen, self.patience), *arguments, **options)

    def _limited(self, gen: Generator[Any, Any, R], seconds: float) -> Generator[Any, Any, R]:
        """The same exchange; psycopg hands control over every 0.1 s while nothing comes."""
        until = monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if monotonic() > until and not ready:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server said nothing for {seconds:g} s; the connection was closed"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            value: R = end.value
            return value


def limit_waiting(database: Engine, options: str) -> None:
    """Makes the engine's connections give up a little later than the server would.

    Args:
        database: An engine over psycopg.
        options: The ``options`` of its connections; a ``statement_timeout`` in it counts, and 0
            there waits for ever here, too.
    """
    found = _TIMEOUT.search(options)
    seconds = float(found[1]) * _UNITS[found[2] or ""] if found else 0.0

    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> PatientConnection:
        made = PatientConnection.connect(*arguments, **parameters)
        made.patience = seconds + GRACE if seconds else None
        return made

    event.listen(database, "do_connect", connect)
