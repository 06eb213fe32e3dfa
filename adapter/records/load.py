"""The load: one statement, one snapshot of everything that a turn decides on.

Instance, journal beyond what the caller has folded, unapplied inbox rows and the database's clock
come from one statement. In two, a command could be read before the entry that applied it and be
applied twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from adapter.errors import AlmanacError, NotFound
from adapter.interpreter.entries import KINDS, Entry
from adapter.interpreter.env import Facts
from adapter.interpreter.events import Arrived
from adapter.interpreter.version import CURRENT
from adapter.records.writers import is_step_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from adapter.interpreter.state import Key
    from adapter.records.connection import Connection
    from adapter.settings import Settings

MAX_INBOX = 500
"""Inbox rows that one load brings; what is left comes with the next."""


class NewerJournal(AlmanacError):
    """The journal holds entries of a newer interpreter; another worker must take the instance."""

    code = "newer_journal"


class BrokenJournal(AlmanacError):
    """The journal has a gap or ends before the instance's lock_version; doctor can tell more."""

    code = "broken_journal"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One snapshot of an instance.

    Attributes:
        seq: The instance's ``lock_version``, equal to the last journal seq of the snapshot.
        since: The seq that ``entries`` follow; 0 when they hold the whole fold.
        entries: Journal entries after ``since``, in order.
        inbox: Unapplied inbox rows by id, at most ``MAX_INBOX``.
        now: The database's clock.
        writer: Who wrote the last entry; None when there is none.
        writers: Who wrote ``entries``.
    """

    id: Key
    version: Key
    owner_scope: str
    status: str
    seq: int
    since: int
    entries: list[Entry]
    inbox: list[Arrived]
    facts: Facts
    actor: Mapping[str, Any]
    now: datetime
    writer: str | None
    writers: frozenset[str] = frozenset()

    def others(self, writer: str) -> bool:
        """Whether a turn other than ``writer`` has written one of the entries."""
        return any(one != writer and not is_step_token(one) for one in self.writers)


class Loader:
    """Loads instances for one set of table names."""

    def __init__(self, settings: Settings) -> None:
        names = settings.tables
        self._names = names
        self._text_key = settings.primary_key_type != "bigint"
        # Two texts, so that the common load of a cached instance never looks for a snapshot.
        snapshot = (
            f"j.seq >= coalesce((SELECT max(s.seq) FROM {names.journal} s"
            " WHERE s.instance_id = i.id AND s.kind = 'snapshot'), 0)"
        )
        self._some = self._text("j.seq >= $2")
        self._all = self._text(f"j.seq > $2 AND {snapshot}")

    async def load(
        self, connection: Connection, ulid: str, since: int = 0, writer: str | None = None
    ) -> Loaded:
        """Reads one instance as it stands now.

        Args:
            connection: Outside a transaction.
            ulid: The instance's public id.
            since: The seq that the caller has folded already.
            writer: Who wrote that entry, as far as the caller knows. If it is another's, the record
                was restored and has taken another path: everything is loaded then.

        Raises:
            NotFound: No instance has that ulid.
            NewerJournal: A newer interpreter wrote to it.
            BrokenJournal: The journal does not fit the instance's row.
        """
        rows = await connection.fetch(self._some if since else self._all, ulid, since)
        if not rows:
            raise NotFound(f"no instance has the ulid {ulid!r}; was it pruned?", ulid=ulid)
        head = rows[0]
        instance = orjson.loads(head["data"])
        entries: list[Entry] = []
        journal = sorted((r for r in rows if r["part"] == "j"), key=lambda r: r["seq"])
        newest = journal[-1]["writer"] if journal else None
        if since:
            known = journal.pop(0) if journal else None
            if known is None or (writer is not None and known["writer"] != writer):
                return await self.load(connection, ulid)
        expected = since
        for row in journal:
            if row["version"] > CURRENT or row["kind"] not in KINDS:
                raise NewerJournal(
                    f"instance {ulid}: entry {row['seq']} ({row['kind']}) was written by"
                    f" interpreter {row['version']}, this worker has {CURRENT}; upgrade it",
                    ulid=ulid,
                )
            if not entries and row["kind"] == "snapshot" and since == 0:
                expected = row["seq"] - 1
            expected += 1
            if row["seq"] != expected:
                raise BrokenJournal(f"instance {ulid}: entry {expected} is missing", ulid=ulid)
            entries.append(
                Entry(row["kind"], row["node"], self._key(row["step"]), orjson.loads(row["data"]))
            )
        if expected != head["seq"]:
            raise BrokenJournal(
                f"instance {ulid}: lock_version is {head['seq']}, the journal ends at {expected}",
                ulid=ulid,
            )
        return Loaded(
            id=self._key(head["id"]) or 0,
            version=self._key(head["step"]) or 0,
            owner_scope=instance["owner_scope"],
            status=head["kind"],
            seq=head["seq"],
            since=expected - len(entries),
            entries=entries,
            inbox=self._arrived(rows),
            facts=_facts(ulid, instance),
            actor=instance["actor"],
            now=head["at"],
            writer=newest,
            writers=frozenset(row["writer"] for row in journal),
        )

    def _arrived(self, rows: Iterable[Any]) -> list[Arrived]:
        inbox: list[Arrived] = []
        for row in rows:
            if row["part"] == "b":
                payload = None if row["data"] is None else orjson.loads(row["data"])
                key = self._key(row["id"])
                inbox.append(Arrived(key or 0, row["kind"], payload, self._key(row["step"])))
        return sorted(inbox, key=lambda arrived: arrived.id)

    async def outputs(self, connection: Connection, steps: frozenset[Key]) -> dict[Key, Any]:
        """The outputs of finished step runs, by id; they never change, so any snapshot will do."""
        return await self._column(connection, "output", steps)

    async def inputs(self, connection: Connection, steps: frozenset[Key]) -> dict[Key, Any]:
        """The resolved configs of step runs, by id; one that was cut comes from the journal."""
        found = await self._column(connection, "input", steps)
        cut = [
            key
            for key, value in found.items()
            if isinstance(value, dict) and value.get("cut") is True
        ]
        if cut:
            rows = await connection.fetch(
                f"SELECT j.step_run_id, j.data -> 'config' AS config FROM {self._names.journal} j"
                f" JOIN {self._names.step_runs} s"
                " ON s.id = j.step_run_id AND s.instance_id = j.instance_id"
                " WHERE s.id = ANY ($1) AND j.kind IN ('step_started', 'scope_opened')"
                " AND j.data ? 'config'",
                cut,
            )
            for row in rows:
                key = self._key(row["step_run_id"])
                if key is not None:
                    found[key] = orjson.loads(row["config"])
        return found

    async def payloads(self, connection: Connection, rows: frozenset[Key]) -> dict[Key, Any]:
        """The payloads of inbox rows, by id; they never change."""
        found = await connection.fetch(
            f"SELECT id, payload FROM {self._names.inbox} WHERE id = ANY ($1)", list(rows)
        )
        return {self._key(r["id"]) or 0: orjson.loads(r["payload"] or "null") for r in found}

    async def _column(
        self, connection: Connection, column: str, steps: frozenset[Key]
    ) -> dict[Key, Any]:
        rows = await connection.fetch(
            f"SELECT id, {column} AS value FROM {self._names.step_runs} WHERE id = ANY ($1)",
            list(steps),
        )
        found: dict[Key, Any] = dict.fromkeys(steps)
        for row in rows:
            key = self._key(row["id"])
            if key is not None and row["value"] is not None:
                found[key] = orjson.loads(row["value"])
        return found

    def _key(self, value: Any) -> Key | None:
        return str(value) if self._text_key and value is not None else value

    def _text(self, journal: str) -> str:
        n = self._names
        return f"""
WITH i AS (
  SELECT t.*, d.key AS definition_key FROM {n.instances} t
  JOIN {n.definitions} d ON d.id = t.definition_id WHERE t.ulid = $1
)
SELECT 'i' AS part, i.id, i.lock_version AS seq, i.status AS kind, NULL AS node,
       i.version_id AS step, clock_timestamp() AS at, 0 AS version,
       jsonb_build_object(
         'key', i.definition_key, 'depth', i.depth, 'trigger', i.trigger_payload,
         'owner_scope', coalesce(i.owner_type || ':' || i.owner_id, '*'),
         'subject', CASE WHEN i.subject_type IS NULL THEN NULL ELSE jsonb_build_object(
            'type', i.subject_type, 'id', i.subject_id, 'key', i.subject_key) END,
         'actor', jsonb_build_object(
            'mode', i.actor_mode,
            'starter', CASE WHEN i.starter_type IS NULL THEN NULL ELSE
               jsonb_build_object('type', i.starter_type, 'id', i.starter_id) END,
            'owner', CASE WHEN i.owner_type IS NULL THEN NULL ELSE
               jsonb_build_object('type', i.owner_type, 'id', i.owner_id) END)) AS data,
       NULL AS writer
FROM i
UNION ALL
SELECT 'j', NULL, j.seq, j.kind, j.node_id, j.step_run_id, j.at, j.interpreter,
       CASE WHEN j.seq > $2 THEN j.data END, j.writer
FROM i JOIN {n.journal} j ON j.instance_id = i.id WHERE {journal}
UNION ALL
SELECT 'b', b.id, 0, b.kind, NULL, b.event_id, b.created_at, 0, b.payload, NULL
FROM i CROSS JOIN LATERAL (
  SELECT * FROM {n.inbox} u WHERE u.instance_id = i.id AND u.applied_at IS NULL
  ORDER BY u.id LIMIT {MAX_INBOX}) b
"""


def _facts(ulid: str, instance: Mapping[str, Any]) -> Facts:
    return Facts(
        ulid=ulid,
        trigger=instance["trigger"],
        subject=instance["subject"],
        instance={"id": ulid, "key": instance["key"]},
        depth=instance["depth"],
    )
