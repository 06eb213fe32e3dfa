"""Where the time of a turn goes, measured around the product's own functions.

Nothing of the product is changed: inside this process some of its functions are wrapped by ones
that read the clock before and after. What runs on the turn's own timeline adds up; the way to the
handler thread and back is told by the moments at which a call was submitted, began and reported.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import adapter.execution.instance as instance_module
import temporal_workflows.activities as activities_module
from adapter.execution.calls import Calls
from adapter.execution.graphs import Graphs
from adapter.execution.held import Held
from adapter.execution.runner import HandlerRunner
from adapter.records.append import Appender
from adapter.records.keys import BigintKeys
from adapter.records.load import Loader
from adapter.records.look import Looker
from adapter.records.workers import Workers
from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUND_TRIP: Final = "append: round trip"
STATEMENT: Final = "append: building the statement"
DECIDE: Final = "deciding"
PROJECT: Final = "projecting"
HAND_OVER: Final = "to the handler thread"
HANDLER: Final = "the handler"
HAND_BACK: Final = "back from the handler thread"
CONNECTION: Final = "waiting for a connection"
LOAD: Final = "load"
OTHER: Final = "other statements"
PARTS: Final = (
    ROUND_TRIP,
    STATEMENT,
    DECIDE,
    PROJECT,
    HAND_OVER,
    HANDLER,
    HAND_BACK,
    CONNECTION,
    LOAD,
    OTHER,
)
_QUERIES: Final = ("fetch", "fetchrow", "fetchval", "execute")

clock = time.monotonic  # what the product stamps the beginning of a call with


@dataclass(slots=True)
class Life:
    """The moments of one instance, by the monotonic clock; ``ended_at`` by the wall clock."""

    called: float = 0.0
    started: float = 0.0
    known: float = 0.0
    turns: list[tuple[float, float]] = field(default_factory=list)
    first_append: float | None = None
    ended_at: float = 0.0


@dataclass(slots=True)
class Ledger:
    """What was measured since the last :meth:`clear`.

    Attributes:
        seconds: By part of a turn, over all instances.
        appends: How many were made.
        lives: By ulid.
    """

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    appends: int = 0
    lives: defaultdict[str, Life] = field(default_factory=lambda: defaultdict(Life))
    reported: dict[Any, float] = field(default_factory=dict)

    def clear(self) -> None:
        """Begins anew."""
        self.seconds.clear()
        self.lives.clear()
        self.reported.clear()
        self.appends = 0


@contextlib.contextmanager
def measured(ledger: Ledger) -> Iterator[None]:
    """Has turns of this process measured for the length of the block.

    Raises:
        BenchmarkError: The product has no such function any more; this module must follow it.
    """
    with contextlib.ExitStack() as undo:

        def around(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
            original = getattr(owner, name, None)
            if original is None:
                raise BenchmarkError(f"{owner.__name__}.{name} is gone: adapt benchmarks/seams.py")
            setattr(owner, name, functools.wraps(original)(wrap(original)))
            undo.callback(setattr, owner, name, original)

        around(activities_module, "take_turn", functools.partial(_turns, ledger))
        around(Appender, "append", functools.partial(_appends, ledger))
        around(HandlerRunner, "submit", functools.partial(_submits, ledger))
        around(Calls, "results", functools.partial(_results, ledger))
        around(instance_module, "decide", functools.partial(_plain, ledger, DECIDE))
        around(instance_module, "project", functools.partial(_plain, ledger, PROJECT))
        around(Held, "acquire", functools.partial(_awaited, ledger, CONNECTION))
        around(Loader, "load", functools.partial(_awaited, ledger, LOAD))
        for owner, name in (
            (Loader, "outputs"),
            (Loader, "inputs"),
            (Looker, "look"),
            (Graphs, "get"),
            (Workers, "gone"),
            (BigintKeys, "reserve"),
        ):
            around(owner, name, functools.partial(_awaited, ledger, OTHER))
        yield


_ULID: ContextVar[str] = ContextVar("ulid")


def _plain(ledger: Ledger, part: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = clock()
        try:
            return original(*args, **kwargs)
        finally:
            ledger.seconds[part] += clock() - began

    return timed


def _awaited(ledger: Ledger, part: str, original: Callable[..., Any]) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> Any:
        began = clock()
        try:
            return await original(*args, **kwargs)
        finally:
            ledger.seconds[part] += clock() - began

    return timed


def _turns(ledger: Ledger, original: Callable[..., Any]) -> Callable[..., Any]:
    async def timed(deps: Any, ulid: str, *args: Any, **kwargs: Any) -> Any:
        _ULID.set(ulid)
        began = clock()
        try:
            return await original(deps, ulid, *args, **kwargs)
        finally:
            ledger.lives[ulid].turns.append((began, clock()))

    return timed


def _appends(ledger: Ledger, original: Callable[..., Any]) -> Callable[..., Any]:
    async def timed(self: Any, connection: Any, **kwargs: Any) -> Any:
        life = ledger.lives[_ULID.get()]
        watched = _Watched(connection)
        began = clock()
        if life.first_append is None:
            life.first_append = began
        try:
            return await original(self, watched, **kwargs)
        finally:
            ledger.appends += 1
            ledger.seconds[ROUND_TRIP] += watched.seconds
            ledger.seconds[STATEMENT] += clock() - began - watched.seconds
            life.ended_at = time.time()

    return timed


def _submits(ledger: Ledger, original: Callable[..., Any]) -> Callable[..., Any]:
    def timed(self: Any, call: Any) -> None:
        submitted = clock()
        report = call.report

        def reported(finished: Any) -> None:  # on the handler thread
            now = clock()
            began = now if call.began is None else call.began
            ledger.seconds[HAND_OVER] += began - submitted
            ledger.seconds[HANDLER] += now - began
            ledger.reported[finished.step] = now
            report(finished)

        call.report = reported
        original(self, call)

    return timed


def _results(ledger: Ledger, original: Callable[..., Any]) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> Any:
        results = await original(*args, **kwargs)
        now = clock()
        for finished in results:
            if (at := ledger.reported.pop(finished.step, None)) is not None:
                ledger.seconds[HAND_BACK] += now - at
        return results

    return timed


class _Watched:
    """A connection whose queries are timed."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        return functools.partial(self._timed, found) if name in _QUERIES else found

    async def _timed(self, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        began = clock()
        try:
            return await query(*args, **kwargs)
        finally:
            self.seconds += clock() - began
