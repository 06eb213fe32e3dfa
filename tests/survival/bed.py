"""A test bed: worker processes on real servers, killed by their ids, watched through the rows."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row
from ulid import ULID

from adapter.client.almanac import Almanac
from adapter.execution.registry import Registry
from adapter.settings import Settings
from tests.driving import programs
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
HANDLERS = "tests.survival.handlers"
PATIENCE = 60.0

Row = dict[str, Any]

ENDED = ("completed", "failed", "cancelled")


@dataclass(slots=True)
class WorkerProcess:
    """One worker process."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def name(self) -> str:
        """What its row of ``workflow_workers`` is called."""
        return f"{socket.gethostname()}:{self.process.pid}"

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Ends it as a machine's crash would."""
        self.process.kill()
        self.process.wait()

    def kill_before_poke(self) -> None:
        """Ends an odd one between the commit of a claim and its poke."""
        self.process.send_signal(signal.SIGUSR1)

    def stall(self) -> None:
        """Stops it where it is, as a machine that is suspended."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets it go on."""
        self.process.send_signal(signal.SIGCONT)

    @property
    def stands_still(self) -> bool:
        """Whether it has been stopped and not gone on."""
        state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def stop(self) -> None:
        """Asks it to stop, and waits."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log.read_text()


@dataclass(slots=True)
class Bed:
    """Workers of one database and one task queue.

    Attributes:
        directory: Where the workers run.
        more: More settings of the workers, as environment variables without their prefix.
    """

    settings: Settings
    directory: Path
    almanac: Almanac
    more: dict[str, str] = field(default_factory=dict)
    workers: list[WorkerProcess] = field(default_factory=list)

    def start(self, count: int = 1, *, odd: str | None = None) -> list[WorkerProcess]:
        """Starts workers and returns when each has given a sign of life.

        Args:
            count: How many.
            odd: What is odd about them; see ``tests.survival.odd_worker``.
        """
        started = [self.launch(odd) for _ in range(count)]
        self.up(*started)
        return started

    def launch(self, odd: str | None = None) -> WorkerProcess:
        """Starts a worker and does not wait for it."""
        how = programs.almanac()
        if odd is not None:
            how = [sys.executable, "-m", "tests.survival.odd_worker", odd]
        log = self.directory / f"worker{len(self.workers)}.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [*how, "worker", "--import", HANDLERS],
                cwd=self.directory,
                env=self._environment(),
                stdout=written,
                stderr=written,
            )
        worker = WorkerProcess(process, log)
        self.workers.append(worker)
        return worker

    def up(self, *workers: WorkerProcess) -> None:
        """Waits until these workers live, as their rows say."""
        names = [worker.name for worker in workers]

        def has() -> None:
            assert self.value(
                "SELECT count(*) FROM workflow_workers WHERE name = ANY (%s)"
                " AND seen_at > clock_timestamp() - interval '3 s'",
                names,
            ) == len(names), [worker.log.read_text()[-2000:] for worker in workers]

        eventually(has, PATIENCE)

    @property
    def living(self) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.lives]

    @property
    def working(self) -> list[WorkerProcess]:
        """Those that have given a sign of life within two seconds."""
        rows = self.rows(
            "SELECT name FROM workflow_workers WHERE seen_at > clock_timestamp() - interval '2 s'"
        )
        seen = {row["name"] for row in rows}
        return [worker for worker in self.living if worker.name in seen]

    def publish(self, *documents: dict[str, Any]) -> None:
        for one in documents:
            self.almanac.publish(one, check_actions=False)

    def rows(self, query: str, *arguments: Any) -> list[Row]:
        """What a query gives, over a connection of its own: it outlives restarted servers."""
        with psycopg.connect(
            self.settings.database_url or "", autocommit=True, row_factory=dict_row
        ) as connection:
            return connection.execute(query.encode(), arguments or None).fetchall()

    def value(self, query: str, *arguments: Any) -> Any:
        """The first column of the first row."""
        return next(iter(self.rows(query, *arguments)[0].values()))

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.settings.database_url or "", autocommit=True) as connection:
            connection.execute(statement.encode())

    def until(self, query: str, *arguments: Any, deadline: float = PATIENCE) -> Any:
        """Waits until a query's first value is true, and returns it."""

        def holds() -> Any:
            value = self.value(query, *arguments)
            assert value, (query, arguments)
            return value

        return eventually(holds, deadline)

    def reaches(self, ulid: str, status: str, *, node: str | None = None) -> None:
        """Waits for the status of an instance, or of a node's latest step run."""
        if node is None:
            self.until("SELECT status = %s FROM workflow_instances WHERE ulid = %s", status, ulid)
            return
        self.until(
            "SELECT coalesce((array_agg(s.status ORDER BY s.id DESC))[1] = %s, false)"
            " FROM workflow_step_runs s JOIN workflow_instances i ON i.id = s.instance_id"
            " WHERE i.ulid = %s AND s.node_id = %s",
            status,
            ulid,
            node,
        )

    def all_end(self, deadline: float, *, key: str | None = None) -> None:
        """Waits until no instance is left unfinished and no row unapplied."""

        def none_left() -> None:
            left = self.rows(LEFT, key)
            assert not left, (len(left), left[:5])

        eventually(none_left, deadline)

    def statuses(self, key: str | None = None) -> dict[str, int]:
        """How many instances have each status."""
        rows = self.rows(
            "SELECT i.status, count(*) AS n FROM workflow_instances i JOIN workflow_definitions d"
            " ON d.id = i.definition_id WHERE d.key = coalesce(%s, d.key) GROUP BY 1",
            key,
        )
        return {row["status"]: row["n"] for row in rows}

    def effects(self, word: str) -> list[str]:
        """The keys of the effects that handlers wrote down under a word."""
        written = self.directory / "effects"
        lines = written.read_text().splitlines() if written.exists() else []
        return [line.split()[1] for line in lines if line.startswith(f"{word} ")]

    def hit(self, killed: Sequence[WorkerProcess]) -> int:
        """How many of these workers had steps in flight, as the rows say."""
        return int(self.value(HIT, [worker.name for worker in killed]))

    def at_work(self, worker: WorkerProcess) -> bool:
        """Whether a worker has steps in flight just now, as the rows say."""
        return bool(self.value(AT_WORK, worker.name))

    def go(self) -> None:
        """Lets handlers go on that are held."""
        (self.directory / "go").touch()

    def close(self) -> None:
        for worker in self.living:
            worker.kill()
        self.almanac.close()

    def _environment(self) -> dict[str, str]:
        named = {
            "DATABASE_URL": self.settings.database_url or "",
            "TEMPORAL_ADDRESS": self.settings.temporal_address or "",
            "TASK_QUEUE": self.settings.task_queue,
            **self.more,
        }
        return {
            **{name: value for name, value in os.environ.items() if name[:8] != "ALMANAC_"},
            **{f"ALMANAC_{name}": value for name, value in named.items()},
            "PYTHONPATH": str(ROOT),
            **programs.environment(),
        }


LEFT = """
SELECT d.key, i.ulid, i.status, i.current_node_id, i.updated_at, clock_timestamp() AS now,
  (SELECT count(*) FROM workflow_inbox b WHERE b.instance_id = i.id AND b.applied_at IS NULL) AS
    unapplied,
  (SELECT json_agg(json_build_array(s.id, s.node_id, s.attempt, s.status, s.lease_until))
    FROM workflow_step_runs s WHERE s.instance_id = i.id AND s.finished_at IS NULL) AS open
FROM workflow_instances i JOIN workflow_definitions d ON d.id = i.definition_id
WHERE d.key = coalesce(%s, d.key) AND (i.ended_at IS NULL OR EXISTS (
  SELECT FROM workflow_inbox b WHERE b.instance_id = i.id AND b.applied_at IS NULL))
ORDER BY i.id"""

HIT = """
SELECT count(DISTINCT w.id) FROM workflow_journal l
JOIN workflow_journal s ON s.instance_id = l.instance_id AND s.step_run_id = l.step_run_id
JOIN workflow_workers w ON w.id = s.data ->> 'worker'
WHERE l.kind = 'step_lost' AND s.kind = 'step_started' AND w.name = ANY (%s)"""

AT_WORK = """
SELECT EXISTS (SELECT FROM workflow_step_runs r
JOIN workflow_journal s ON s.instance_id = r.instance_id AND s.step_run_id = r.id
JOIN workflow_workers w ON w.id = s.data ->> 'worker'
WHERE r.status = 'running' AND s.kind = 'step_started' AND w.name = %s)"""

BOOKED = "CREATE TABLE booked (id bigserial PRIMARY KEY, key text NOT NULL, pid text NOT NULL)"


@contextmanager
def open_bed(database_url: str, temporal_address: str, directory: Path) -> Iterator[Bed]:
    """A bed without workers on a migrated database."""
    settings = Settings(
        database_url=database_url, temporal_address=temporal_address, task_queue=str(ULID())
    )
    bed = Bed(
        settings,
        directory,
        Almanac(settings, registry=Registry()),
        # No lease can be shorter; and what is found by sweeping is found soon.
        {"WORKER__LEASE": "PT5S", "WORKER__SWEEP_INTERVAL": "PT5S"},
    )
    bed.execute(BOOKED)
    try:
        yield bed
    finally:
        bed.close()
