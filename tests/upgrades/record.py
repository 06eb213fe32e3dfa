"""Records a version: ``python -m tests.upgrades.record 1.2.0`` in a checkout of it, once.

Plays all scenes on embedded servers, and writes the histories of their executions, the journals of
their instances, and the rows of instances in the midst of things, to tests/data. What identifies
the machine is left out; nothing else is changed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import orjson

from adapter.interpreter.apply import apply
from adapter.interpreter.entries import Entry
from adapter.interpreter.snapshots import as_json
from adapter.interpreter.state import State
from adapter.records.migrating import upgrade
from adapter.records.pooling import make_pool
from adapter.settings import Settings
from temporal_workflows.contracts import workflow_id
from temporal_workflows.dev import temporal
from temporal_workflows.dev.stack import Stack
from temporal_workflows.exiting import leave
from tests.upgrades.documents import ALL, MIDWAY
from tests.upgrades.midway import midway
from tests.upgrades.recorded import HISTORIES, JOURNALS, RECORDS
from tests.upgrades.scenes import ABOUT_TEMPORAL, SCENES
from tests.upgrades.stage import Stage, open_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SUGGESTED = "limit.historyCount.suggestContinueAsNew=35"
"""Events of a run after which the server suggests to continue as new; 4096 is its own choice."""

LEFT_OUT = frozenset(
    {"identity", "requestId", "taskId", "workerVersion", "historySizeBytes", "deploymentOptions"}
    | {"workerDeploymentVersion", "inheritedBuildId", "workerInstanceKey", "workerControlTaskQueue"}
    | {"stackTrace", "meteringMetadata", "searchAttributes"}
)
"""Fields of events that name processes or places, or count; a replay does not read them."""


async def main(name: str) -> None:
    """Records everything under the name of a version."""
    settings = (*temporal.SETTINGS, SUGGESTED, 'history.workflowIdReuseMinimalInterval="0s"')
    with patch.object(temporal, "SETTINGS", settings), _servers() as (url, address):
        async with open_stage(url, address) as stage:
            await stage.publish(*ALL)
            for scene, play in SCENES.items():
                ulid = await play(stage)
                await _write_histories(stage, HISTORIES / name, scene, ulid)
                if scene not in ABOUT_TEMPORAL:
                    await _write_journal(stage, JOURNALS / name / f"{scene}.json", ulid)
                print(f"played {scene}")
            await stage.publish(*MIDWAY)
            rows = await midway(stage)
    RECORDS.mkdir(parents=True, exist_ok=True)
    _write(RECORDS / f"{name}.json", _tables(rows))


@contextmanager
def _servers() -> Iterator[tuple[str, str]]:
    """Embedded ones, whatever the environment names: they are given settings of their own."""
    with Stack("postgres", "temporal", durable=False) as stack:
        upgrade(stack.database_url, Settings())
        yield stack.database_url, stack.temporal_address


async def _write_histories(stage: Stage, directory: Path, scene: str, ulid: str) -> None:
    for number, run in enumerate(await stage.runs(ulid), start=1):
        handle = stage.system.client.get_workflow_handle(workflow_id(ulid), run_id=run)
        history = json.loads((await handle.fetch_history()).to_json())
        events = [_without(event) for event in history["events"]]
        body = ",\n".join(orjson.dumps(event).decode() for event in events)
        _write(directory / f"{scene}-{number}.json", f'{{"events": [\n{body}\n]}}\n')


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("kind") == "TASK_QUEUE_KIND_STICKY":
            value = {**value, "name": "sticky"}
        return {k: _without(v) for k, v in value.items() if k not in LEFT_OUT}
    return [_without(one) for one in value] if isinstance(value, list) else value


async def _write_journal(stage: Stage, path: Path, ulid: str) -> None:
    pool = await make_pool(stage.system.settings, 1)
    try:
        document = await pool.fetchval(
            "SELECT v.graph FROM workflow_instances i JOIN workflow_versions v"
            " ON v.id = i.version_id WHERE i.ulid = $1",
            ulid,
        )
        rows = await pool.fetch(
            "SELECT interpreter, kind, node_id, step_run_id, data FROM workflow_journal j"
            " JOIN workflow_instances i ON i.id = j.instance_id WHERE i.ulid = $1 ORDER BY seq",
            ulid,
        )
    finally:
        await pool.close()
    entries = [(*tuple(row)[:4], orjson.loads(row["data"])) for row in rows]
    lines = ",\n".join(orjson.dumps(entry).decode() for entry in entries)
    states = orjson.dumps(_states(entries), option=orjson.OPT_NON_STR_KEYS).decode()
    graph = orjson.dumps(orjson.loads(document)).decode()
    text = f'{{"document": {graph},\n"entries": [\n{lines}\n],\n"states": {states}}}\n'
    _write(path, text)


def _states(entries: Iterable[tuple[Any, ...]]) -> dict[int, dict[str, Any]]:
    """Where most was under way, and the end."""
    state, states = State(), {}
    for _, kind, node, step, data in entries:
        state = apply(state, Entry(kind, node, step, data))
        states[state.seq] = as_json(state)

    def under_way(seq: int) -> int:
        parts = ("steps", "waits", "scopes", "lines", "signals", "frozen", "families")
        return len(orjson.dumps([states[seq].get(part) for part in parts]))

    return {seq: states[seq] for seq in sorted({max(states, key=under_way), max(states)})}


def _tables(tables: dict[str, list[dict[str, Any]]]) -> str:
    parts = []
    for name, rows in tables.items():
        lines = ",\n".join(orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() for row in rows)
        parts.append(f'"{name}": [\n{lines}\n]')
    return "{" + ",\n".join(parts) + "}\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades.record", description=__doc__)
    parser.add_argument("version", nargs="?", default=version("temporal-almanac"))
    chosen = parser.parse_args().version
    if (HISTORIES / chosen).exists():
        print(f"{chosen} is recorded: what was recorded never changes", file=sys.stderr)
        leave(1)
    asyncio.run(main(chosen))
    leave(0)
