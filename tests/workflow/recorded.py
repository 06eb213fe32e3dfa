"""Everything that stands in the record about instances, read in one snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson

from adapter.interpreter.apply import fold
from adapter.interpreter.state import State
from adapter.records.load import Loader

if TYPE_CHECKING:
    from tests.workflow.system import System

Row = dict[str, Any]


@dataclass(slots=True)
class Recorded:
    """Everything that the record says about one instance at its end."""

    instance: Row
    steps: list[Row]
    waits: list[Row]
    journal: list[Row]
    inbox: list[Row]
    state: State


async def read(system: System, ulids: list[str] | None = None) -> dict[str, Recorded]:
    """All that the record says about instances, or about all of them."""
    names = system.settings.tables
    connection = await asyncpg.connect(system.settings.database_url)
    snapshot = connection.transaction(isolation="repeatable_read", readonly=True)
    await snapshot.start()
    try:
        chosen = "" if ulids is None else " WHERE i.ulid = ANY ($1)"
        arguments = [] if ulids is None else [ulids]
        instances = await connection.fetch(
            f"SELECT i.* FROM {names.instances} i{chosen} ORDER BY i.id", *arguments
        )
        loader = Loader(system.settings)
        found: dict[str, Recorded] = {}
        keyed: dict[Any, Recorded] = {}
        for row in instances:
            loaded = await loader.load(connection, row["ulid"])
            recorded = Recorded(
                dict(row), [], [], [], [], fold(loaded.entries, State(seq=loaded.since))
            )
            found[row["ulid"]] = keyed[row["id"]] = recorded
        for table, order in (
            ("step_runs", "id"),
            ("waits", "id"),
            ("journal", "seq"),
            ("inbox", "id"),
        ):
            for row in await connection.fetch(
                f"SELECT * FROM {getattr(names, table)} WHERE instance_id = ANY ($1)"
                f" ORDER BY {order}",
                list(keyed),
            ):
                part = "steps" if table == "step_runs" else table
                getattr(keyed[row["instance_id"]], part).append(_decoded(row))
    finally:
        await connection.close()
    return found


_JSON = frozenset({"data", "input", "output", "payload", "result"})


def _decoded(row: asyncpg.Record) -> Row:
    return {
        name: orjson.loads(value) if name in _JSON and isinstance(value, str) else value
        for name, value in row.items()
    }
