"""What a replay runs on: servers, a migrated database and workers."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from adapter import Almanac
from adapter.cli.failures import invalid_settings
from adapter.errors import InvalidInput
from adapter.settings import Settings
from examples.permits import actions as actions  # registers permits.record
from examples.permits.derive import step_runs
from examples.permits.surroundings import ending, other_workers, sources
from examples.permits.workers import Worker, workers
from temporal_workflows.dev.stack import VARIABLES, Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from examples.permits.cases import Cases
    from temporal_workflows.dev.stack import Piece

MAX_STEPS = 99_999
MAX_GRAPH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that runs while cases are replayed."""

    almanac: Almanac
    settings: Settings
    workers: list[Worker]
    say: Callable[[str], object]

    def check(self) -> None:
        """Raises ``Unavailable`` if a worker has ended: there is no use in waiting then."""
        for worker in self.workers:
            worker.check()

    def advice(self) -> str:
        """What may help when no case moves."""
        if self.workers:
            return self.workers[0].last_words()
        return "Does a worker run that has the action permits.record?"


@contextmanager
def stage(
    cases: Cases,
    *,
    database_url: str | None = None,
    temporal_address: str | None = None,
    embedded: bool = False,
    worker_count: int = 1,
    say: Callable[[str], object] = lambda _: None,
) -> Iterator[Stage]:
    """Starts what is missing, for as long as the context is open.

    Servers are those that are named here, else those of ``ALMANAC_*`` (unless ``embedded``), else
    embedded ones, whose data go when they stop; so these spare themselves the fsync. The database
    is migrated. It says which servers it uses and, when it is over, what becomes of the data.

    Raises:
        InvalidInput: The log does not fit into what an instance may be.
    """
    named: dict[Piece, str | None] = {"postgres": database_url, "temporal": temporal_address}
    environ = {} if embedded else dict(os.environ)
    environ |= {VARIABLES[piece]: at for piece, at in named.items() if at}
    servers = Stack.from_environment("postgres", "temporal", durable=False, environ=environ)
    with ExitStack() as running:
        for sentence in sources(servers, named):
            say(sentence)
        running.enter_context(servers)
        settings = settings_for(servers.environment(), cases)
        almanac = running.enter_context(Almanac(settings))
        say("migrating the database")
        almanac.migrate()
        environment = {
            **servers.environment(),
            "ALMANAC_LIMITS__MAX_STEPS": str(settings.limits.max_steps),
        }
        if worker_count and (others := other_workers(settings)):
            say(others)
        say(f"starting {worker_count} worker{'' if worker_count == 1 else 's'}")
        started = running.enter_context(workers(worker_count, environment))
        running.callback(say, ending(servers, settings))
        yield Stage(almanac, settings, started, say)


def settings_for(environment: Mapping[str, str], cases: Cases) -> Settings:
    """The settings of a replay: the environment's, with limits that the log fits in.

    Raises:
        InvalidInput: A case is longer than an instance may be.
        Misconfigured: A setting cannot be used.
    """
    name, size = cases.longest()
    steps = step_runs(size)
    if steps > MAX_STEPS:
        raise InvalidInput(
            f"Case {name!r:.80} has {size:,} rows, which take {steps:,} steps; an instance may "
            f"take {MAX_STEPS:,}. Leave the case out of the log, or split it."
        )
    try:
        settings = Settings(
            database_url=environment["ALMANAC_DATABASE_URL"],
            temporal_address=environment["ALMANAC_TEMPORAL_ADDRESS"],
            temporal_namespace=environment["ALMANAC_TEMPORAL_NAMESPACE"],
        )
    except ValidationError as error:
        raise invalid_settings(error) from None
    limits = settings.limits.model_copy(
        update={
            "max_steps": max(settings.limits.max_steps, steps),
            "max_graph_bytes": MAX_GRAPH_BYTES,
        }
    )
    return settings.model_copy(update={"limits": limits})
