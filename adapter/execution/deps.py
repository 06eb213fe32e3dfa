"""What turns share within one process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapter.execution.cache import FoldCache
from adapter.execution.graphs import Graphs
from adapter.execution.transactions import Transactions
from adapter.interpreter.env import Policy
from adapter.records.append import Appender
from adapter.records.awaited import Awaited
from adapter.records.effects import Effects
from adapter.records.keys import Keys, keys_for
from adapter.records.leases import Leases
from adapter.records.load import Loader
from adapter.records.look import Looker
from adapter.records.progress import Progress
from adapter.records.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adapter.execution.registry import Action, Registry
    from adapter.execution.runner import HandlerRunner
    from adapter.settings import Settings


@dataclass(slots=True)
class TurnDeps:
    """The process's connections, handlers and caches.

    Attributes:
        pool: An asyncpg pool; a turn holds one connection.
        worker: This process's id, 26 characters.
        new_token: Draws the token of a turn, 26 characters.
        policies: What the decider may know of ``registry``.
        progress: What handlers of queued steps tell.
        effects: Claims on what is to happen once.
        transactions: The connections of transactional handlers.
        step_runner: Where handlers of queued steps run: apart from those of turns, which are short.
        suspects: Held by the queued step that this process runs of those that have killed workers.
        nudge: Called when rows were written that a relay should see at once.
        hand_out: Called with the ulid, a queued step and its queue when that becomes due in the
            midst of a turn: has it run at once, if that is possible, and says whether it is.
    """

    settings: Settings
    pool: Any
    worker: str
    registry: Registry
    runner: HandlerRunner
    loader: Loader
    looker: Looker
    awaited: Awaited
    appender: Appender
    workers: Workers
    leases: Leases
    graphs: Graphs
    step_keys: Keys
    wait_keys: Keys
    child_keys: Keys
    cache: FoldCache
    new_token: Callable[[], str]
    policies: Mapping[str, Policy]
    progress: Progress
    effects: Effects
    transactions: Transactions
    step_runner: HandlerRunner
    suspects: threading.Lock = field(default_factory=threading.Lock)
    nudge: Callable[[], None] = lambda: None
    hand_out: Callable[[str, str, str], Awaitable[bool]] | None = None


def turn_deps(
    settings: Settings,
    pool: Any,
    *,
    worker: str,
    registry: Registry,
    runner: HandlerRunner,
    new_token: Callable[[], str],
    step_runner: HandlerRunner | None = None,
) -> TurnDeps:
    """Puts the parts together for one process; queued steps run beside turns by default."""
    transactions = Transactions(settings)
    for one in {runner, step_runner or runner}:
        one.at_end(transactions.close, transactions.leave)
    return TurnDeps(
        settings=settings,
        pool=pool,
        worker=worker,
        registry=registry,
        runner=runner,
        loader=Loader(settings),
        looker=Looker(settings),
        awaited=Awaited(settings),
        appender=Appender(settings),
        workers=Workers(settings),
        leases=Leases(settings),
        graphs=Graphs(settings),
        step_keys=keys_for(settings, "step_runs"),
        wait_keys=keys_for(settings, "waits"),
        child_keys=keys_for(settings, "instances"),
        cache=FoldCache(settings.worker.cache_instances),
        new_token=new_token,
        policies={name: _policy(action) for name, action in registry.actions.items()},
        progress=Progress(settings),
        effects=Effects(settings),
        transactions=transactions,
        step_runner=step_runner or runner,
    )


def _policy(action: Action) -> Policy:
    return Policy(
        action.retry, action.timeout.total_seconds(), action.queue, action.heartbeat is not None
    )
