"""What Almanac leaves behind: commits and rows in its tables, events in Temporal's history.

Commits are told by the times that appends stamp: one append, one commit, one time. An append can
carry the end of a step and the beginning of the next, so that a chain of N steps takes N + 1: the
first one belongs to the start, and is not counted. A turn that has used up its stretch ends without
beginning a step, which costs one more; instances that one turn brought to their end show the rest.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Protocol

from adapter.engine.names import workflow_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from temporalio.client import Client

    from benchmarks.loads import Load

SAMPLE: Final = 10
"""Executions of each load that Temporal is asked about."""

_TABLES: Final = """
WITH counted AS (
  SELECT i.id, coalesce(s.steps, 0) AS steps, coalesce(s.runs, 0) AS runs, j.entries, j.commits,
    j.turns
  FROM workflow_instances i
  LEFT JOIN (SELECT instance_id, count(*) AS runs,
    count(*) FILTER (WHERE node_type = 'action') AS steps
    FROM workflow_step_runs GROUP BY instance_id) s ON s.instance_id = i.id
  JOIN (SELECT instance_id, count(*) AS entries, count(DISTINCT at) AS commits,
    count(DISTINCT writer) AS turns
    FROM workflow_journal GROUP BY instance_id) j ON j.instance_id = i.id
)
SELECT count(*) AS instances, sum(steps) AS steps, sum(runs) AS runs, sum(entries) AS entries,
  sum(turns) AS turns, sum(commits - 1) AS commits,
  sum(commits - 1) FILTER (WHERE turns = 1) AS unbroken_commits,
  sum(steps) FILTER (WHERE turns = 1) AS unbroken_steps,
  (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relkind = 'r'
   AND c.relname LIKE 'workflow%') AS bytes
FROM counted
"""


class Asked(Protocol):
    """Whoever can fetch one row of a query."""

    async def fetch(self, query: str, *arguments: Any) -> Any:
        """One row."""
        ...


async def tables(asked: Asked) -> dict[str, float | None]:
    """What the tables hold per step and per instance, over all that was run.

    ``commits_per_step_in_one_stretch`` counts only the instances that a single turn brought to
    their end; None when there is none.
    """
    row = dict(await asked.fetch(_TABLES))
    instances, steps = max(row["instances"], 1), max(int(row["steps"] or 0), 1)
    unbroken = int(row["unbroken_steps"] or 0)
    return {
        "commits_per_step": round(int(row["commits"] or 0) / steps, 3),
        "commits_per_step_in_one_stretch": (
            round(int(row["unbroken_commits"]) / unbroken, 3) if unbroken else None
        ),
        "turns_per_instance": round(int(row["turns"] or 0) / instances, 2),
        "journal_rows_per_step": round(int(row["entries"] or 0) / steps, 2),
        # beside steps and entries: the instance itself and the inbox row that started it
        "rows_per_instance": round(
            int((row["entries"] or 0) + (row["runs"] or 0)) / instances + 2, 1
        ),
        "kb_per_instance": round(int(row["bytes"]) / 1024 / instances, 1),
    }


async def history(
    client: Client, executions: Mapping[Load, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """What Temporal keeps of some executions of each load: history events and bytes.

    Args:
        client: Connected to the namespace.
        executions: By load, the ulids of instances that have ended.
    """
    return {load.name: await _of_load(client, load, ulids) for load, ulids in executions.items()}


async def _of_load(client: Client, load: Load, ulids: Iterable[str]) -> dict[str, float]:
    events: list[int] = []
    sizes: list[int] = []
    for ulid in ulids:
        described = await client.get_workflow_handle(workflow_id(ulid)).describe()
        events.append(described.history_length)
        sizes.append(described.raw_description.workflow_execution_info.history_size_bytes)
    return {
        "executions": len(events),
        "history_events_per_instance": round(fmean(events), 1),
        "history_events_per_step": round(fmean(events) / load.steps, 3),
        "history_bytes_per_instance": round(fmean(sizes)),
        "history_bytes_per_step": round(fmean(sizes) / load.steps, 1),
    }


def described(extra: Mapping[str, Any]) -> list[str]:
    """The same for people, a line each."""
    if not extra:
        return []
    unbroken = extra["commits_per_step_in_one_stretch"]
    within = "" if unbroken is None else f", {unbroken:.3f} within a stretch"
    lines = [
        f"Almanac's tables: {extra['commits_per_step']:.3f} commits per step{within};"
        f" {extra['journal_rows_per_step']:.2f} journal rows per step;"
        f" {extra['rows_per_instance']:.1f} rows, {extra['kb_per_instance']:.1f} KB"
        f" and {extra['turns_per_instance']:.2f} turns per instance"
    ]
    lines += [
        f"Almanac's history in Temporal, {load}: {of['history_events_per_step']:.3f} events and"
        f" {of['history_bytes_per_step']:.0f} bytes per step;"
        f" {of['history_events_per_instance']:.1f} events and"
        f" {of['history_bytes_per_instance']:.0f} bytes per instance"
        f" ({of['executions']} executions)"
        for load, of in extra.get("temporal", {}).items()
    ]
    return lines
