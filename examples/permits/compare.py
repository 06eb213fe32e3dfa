"""What the tables say about a replay, held against what the log says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from adapter.settings import TableNames
    from examples.permits.cases import Follows


@dataclass(frozen=True, slots=True)
class Run:
    """The instances of one replay: those of a definition that carry the run's mark."""

    definition: int | str
    mark: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair of activities that the log and the tables count differently.

    Attributes:
        before: None where ``after`` begins a case.
        after: None where ``before`` ends a case.
    """

    before: str | None
    after: str | None
    in_log: int
    in_tables: int


_FOLLOWS = """
WITH done AS (
  SELECT step.node_id AS node,
         lag(step.node_id) OVER in_case AS before,
         lead(step.node_id) OVER in_case AS after
  FROM {instances} AS instance
  JOIN {step_runs} AS step ON step.instance_id = instance.id
  WHERE instance.definition_id = %(definition)s
    AND instance.trigger_payload ->> 'run' = %(mark)s
    AND step.node_type = 'action'
    AND step.status = 'succeeded'
  WINDOW in_case AS (PARTITION BY step.instance_id ORDER BY step.finished_at, step.id)
)
SELECT before, node, count(*) FROM done GROUP BY before, node
UNION ALL
SELECT node, NULL, count(*) FROM done WHERE after IS NULL GROUP BY node
"""


def follows_in_tables(
    connection: psycopg.Connection[Any], tables: TableNames, run: Run, nodes: Mapping[str, str]
) -> Follows:
    """The directly-follows counts of a run, computed in SQL from its finished action steps.

    Args:
        connection: Any connection to the database.
        tables: What the tables are called.
        run: Whose step runs count.
        nodes: The node id of each activity.
    """
    names: dict[str | None, str | None] = {node: activity for activity, node in nodes.items()}
    names[None] = None
    query = _FOLLOWS.format(instances=tables.instances, step_runs=tables.step_runs)
    found = connection.execute(
        query.encode(), {"definition": run.definition, "mark": run.mark}
    ).fetchall()
    return Counter({(names[before], names[after]): count for before, after, count in found})


def differences(in_log: Follows, in_tables: Follows) -> list[Difference]:
    """The pairs whose counts differ, the largest difference first."""
    found = [
        Difference(*pair, in_log[pair], in_tables[pair])
        for pair in in_log.keys() | in_tables.keys()
        if in_log[pair] != in_tables[pair]
    ]
    return sorted(
        found, key=lambda d: (-abs(d.in_log - d.in_tables), d.before or "", d.after or "")
    )
