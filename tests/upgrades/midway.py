"""Instances in the midst of things: how they get there, and their rows, to be loaded elsewhere."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from tests.upgrades.stage import Gate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection

    from adapter.settings import Settings
    from tests.upgrades.stage import Stage

Rows = dict[str, list[dict[str, Any]]]

FIRST_XID = 10
"""Transaction ids are the server's own: they are counted from here, in their order."""


async def midway(stage: Stage) -> Rows:
    """Brings an instance of each kind into the midst of things, and reads the rows of all."""
    stage.long, stage.brief, stage.willing = Gate(), Gate(), False
    ulids = {}
    for scene in ("event", "signals", "parallel", "items", "rounds", "paused", "queued", "told"):
        ulids[scene] = await stage.start(f"mid-{scene}", {"scene": scene})
    for scene in ("child", "failed"):
        ulids[scene] = await stage.start(f"mid-{scene}", {"scene": scene})
    for scene in ("event", "parallel", "items", "rounds", "paused", "signals", "told"):
        await stage.shows(ulids[scene], "w")
    await stage.tell("signal", ulids["rounds"], "next", {})
    await stage.shows(ulids["rounds"], "w", visit=2)
    for name in ("two", "kept"):
        await stage.tell("signal", ulids["signals"], name, {"name": name})
    await stage.tell("pause", ulids["paused"])
    await stage.shows(ulids["parallel"], "d", "succeeded")
    await stage.shows(ulids["parallel"], "s", "scheduled")
    await stage.shows(ulids["items"], "w", visit=2)
    await stage.shows(ulids["child"], "c")
    await stage.has(ulids["failed"], "failed")
    await stage.long.reached()
    for scene in ("back-off", "delay"):
        ulids[scene] = await stage.start(f"mid-{scene}", {"scene": scene})
    await stage.shows(ulids["back-off"], "a", "retrying")
    await stage.shows(ulids["delay"], "d")
    ulids["inline"] = await stage.start("mid-inline", {"scene": "inline"})
    await stage.brief.reached()
    rows = await asyncio.to_thread(_read, stage, ulids)
    stage.brief.opened.set()
    stage.long.opened.set()
    statuses = {row["node_id"]: row["status"] for row in rows["step_runs"]}
    assert statuses["a"] == "running", "the handler of mid-inline has ended too early"
    return rows


def _read(stage: Stage, ulids: Mapping[str, str]) -> Rows:
    """Reads all rows, with those of commands that no worker will have seen."""
    almanac, settings = stage.almanac, stage.system.settings
    with almanac.transaction() as connection:
        almanac.start("mid-pending", {"scene": "pending"}, connection=connection)
        almanac.signal(ulids["told"], "next", {"n": 1}, connection=connection)
        almanac.signal(ulids["paused"], "unasked", connection=connection)
        rows = read_rows(connection, settings)
        connection.rollback()
    kept = {row["id"] for row in rows["instances"] if _is_ours(row)}
    kept |= {row["id"] for row in rows["instances"] if row["parent_instance_id"] in kept}
    for table in ("step_runs", "waits", "journal", "inbox"):
        rows[table] = [row for row in rows[table] if row["instance_id"] in kept]
    rows["instances"] = [row for row in rows["instances"] if row["id"] in kept]
    used = {row["version_id"] for row in rows["instances"]}
    rows["versions"] = [row for row in rows["versions"] if row["id"] in used]
    owning = {row["definition_id"] for row in rows["versions"]}
    rows["definitions"] = [row for row in rows["definitions"] if row["id"] in owning]
    alive = {row["data"].get("worker") for row in rows["journal"]}
    rows["workers"] = [row for row in rows["workers"] if row["id"] in alive]
    for row in rows["workers"]:
        row["name"], row["details"] = "recorder:1", {}
    _renumber(rows)
    return {
        table: [{name: value for name, value in row.items() if value is not None} for row in found]
        for table, found in rows.items()
        if found
    }


def _is_ours(row: Mapping[str, Any]) -> bool:
    return isinstance(row["trigger_payload"], dict) and "scene" in row["trigger_payload"]


def _renumber(rows: Rows) -> None:
    """Counts transaction ids from ``FIRST_XID``, so that no server has yet to come to them."""
    starts = [row["data"] for row in rows["journal"] if row["data"].get("snapshot")]
    starts += [row["payload"] for row in rows["inbox"] if row["kind"] == "start"]
    numbers = {int(row["xid"]) for row in rows["events"]}
    for start in starts:
        numbers |= {int(part) for part in _numbers(start["snapshot"])}
    ranks = {number: rank for rank, number in enumerate(sorted(numbers), start=FIRST_XID)}
    for row in rows["events"]:
        row["xid"] = str(ranks[int(row["xid"])])
    for start in starts:
        xmin, xmax, others = start["snapshot"].split(":")
        renumbered = [str(ranks[int(number)]) for number in others.split(",") if number]
        start["snapshot"] = f"{ranks[int(xmin)]}:{ranks[int(xmax)]}:{','.join(renumbered)}"


def _numbers(snapshot: str) -> list[str]:
    return [part for part in snapshot.replace(",", ":").split(":") if part]


def read_rows(
    connection: Connection, settings: Settings, tables: Collection[str] | None = None
) -> Rows:
    """All rows of these tables or of all, by the tables' names in the settings."""
    rows: Rows = {}
    for table, name in settings.tables.model_dump().items():
        if tables is None or table in tables:
            found = connection.execute(text(f"SELECT to_jsonb(t)::text FROM {name} t"))
            rows[table] = [json.loads(row) for (row,) in found]
    return rows


def load_rows(connection: Connection, settings: Settings, rows: Mapping[str, Any]) -> None:
    """Puts rows into empty tables, in those columns that a table has already.

    Args:
        connection: In a transaction; triggers and foreign keys are left aside in it.
        settings: Name the tables.
        rows: By the tables' names in the settings; tables that are not there are left out.
    """
    connection.execute(text("SET LOCAL session_replication_role = replica"))
    for table, name in settings.tables.model_dump().items():
        found = rows.get(table)
        columns = _columns(connection, name) if found else ()
        if not found or not columns:
            continue
        given = {column for row in found for column in row}
        chosen = ", ".join(f'"{column}"' for column in columns if column in given)
        connection.execute(
            text(
                f"INSERT INTO {name} ({chosen}) SELECT {chosen}"
                f" FROM jsonb_populate_recordset(NULL::{name}, cast(:rows AS jsonb))"
            ),
            {"rows": json.dumps(found)},
        )
        sequence = f"pg_get_serial_sequence('{name}', 'id')"
        if "id" in columns and connection.scalar(text(f"SELECT {sequence} IS NOT NULL")):
            connection.execute(
                text(f"SELECT setval({sequence}, (SELECT max(id) FROM {name}) + 1000)")
            )


def _columns(connection: Connection, name: str) -> list[str]:
    found = connection.execute(
        text(
            "SELECT column_name FROM information_schema.columns WHERE table_name = :name"
            " AND table_schema = current_schema() AND is_generated = 'NEVER'"
            " ORDER BY ordinal_position"
        ),
        {"name": name},
    )
    return [column for (column,) in found]
