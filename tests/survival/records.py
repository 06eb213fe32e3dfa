"""What must hold of the rows after any disturbance, and how two runs are compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.workflow.checks import check_record
from tests.workflow.recorded import read

if TYPE_CHECKING:
    from tests.survival.bed import Bed
    from tests.workflow.recorded import Recorded, Row

NOT_ONE = {
    "a step run succeeded twice": """
        SELECT instance_id, node_id, visit FROM workflow_step_runs WHERE status = 'succeeded'
        GROUP BY 1, 2, 3 HAVING count(*) > 1""",
    "a visit has no number": """
        SELECT instance_id, node_id FROM workflow_step_runs GROUP BY 1, 2
        HAVING max(visit) <> count(DISTINCT visit)""",
    "an event was not matched": "SELECT id FROM workflow_events WHERE matched_at IS NULL",
    "an event was consumed twice": """
        SELECT instance_id, data -> 'event' FROM workflow_journal
        WHERE kind = 'wait_fired' AND data -> 'event' <> 'null'
        GROUP BY 1, 2 HAVING count(*) > 1""",
    "time went backwards": """
        SELECT instance_id, seq FROM (SELECT instance_id, seq, at, lag(at) OVER (
          PARTITION BY instance_id ORDER BY seq) AS before FROM workflow_journal) j
        WHERE at < before""",
    "a row was applied twice": """
        SELECT instance_id, data ->> 'inbox' FROM workflow_journal WHERE data ? 'inbox'
        GROUP BY 1, 2 HAVING count(*) > 1""",
    "a transaction is booked twice": "SELECT key FROM booked GROUP BY 1 HAVING count(*) > 1",
    "a transaction is booked whose step did not succeed": """
        SELECT key FROM booked b WHERE NOT EXISTS (SELECT FROM workflow_step_runs s
          WHERE s.idempotency_key = b.key AND s.status = 'succeeded')""",
    "a step succeeded without its transaction": """
        SELECT s.idempotency_key FROM workflow_step_runs s
        WHERE s.status = 'succeeded' AND s.node_id LIKE 'book%'
          AND NOT EXISTS (SELECT FROM booked b WHERE b.key = s.idempotency_key)""",
}

WHENEVER = frozenset(
    {"step_scheduled", "step_lost", "snapshot", "signal_received", "inbox_applied"}
)
"""Entries of which there are more or fewer, as it comes: where turns end, and what came before its
wait."""


def assert_sound(bed: Bed) -> dict[str, Recorded]:
    """Asserts what holds of every record in which all instances have ended; returns it."""
    found = {what: bed.rows(query) for what, query in NOT_ONE.items()}
    assert {what: rows[:3] for what, rows in found.items() if rows} == {}
    recorded: dict[str, Recorded] = asyncio.run(read(bed))  # type: ignore[arg-type]
    for one in recorded.values():
        check_record(one)
    return recorded


def comparable(recorded: Recorded) -> dict[str, Counter[Any]]:
    """All rows of an instance, but for times, ids, tokens, and attempts marked lost.

    Attempts are counted without the lost ones. An event's row is in the inbox only if it came after
    its wait.
    """
    steps = {row["id"]: row for row in recorded.steps}
    numbers = _numbers(recorded)

    def place(step: Any) -> tuple[Any, ...]:
        return (steps[step]["node_id"], steps[step]["visit"], numbers[step])

    return {
        "instance": Counter([_chosen(recorded.instance, OF_INSTANCES)]),
        "steps": Counter((*place(key), _chosen(steps[key], OF_STEPS)) for key in numbers),
        "waits": Counter(
            (*place(row["step_run_id"]), _chosen(row, OF_WAITS)) for row in recorded.waits
        ),
        "inbox": Counter(
            (row["kind"], str(row["result"])) for row in recorded.inbox if row["kind"] != "event"
        ),
        "journal": Counter(
            (row["kind"], *(place(row["step_run_id"]) if row["step_run_id"] else ()))
            for row in recorded.journal
            if row["kind"] not in WHENEVER and row["step_run_id"] in {None, *numbers}
        ),
    }


OF_INSTANCES = (
    *("status", "current_node_id", "steps_count", "depth", "failure_code", "failed_node_id"),
    *("definition_id", "version_id", "trigger_type", "actor_mode"),
)
OF_STEPS = ("node_type", "status", "outcome", "error_code", "input", "output", "resume_signal")
OF_WAITS = ("kind", "event_key", "match", "condition", "outcome", "status", "payload")


def _chosen(row: Row, names: tuple[str, ...]) -> str:
    return str({name: row[name] for name in names})


def _numbers(recorded: Recorded) -> dict[Any, int]:
    """The numbers of attempts, lost ones left out."""
    counted: Counter[tuple[str, int]] = Counter()
    numbers = {}
    for row in sorted(recorded.steps, key=lambda row: (row["visit"], row["attempt"])):
        if row["status"] != "lost":
            visit = (row["node_id"], row["visit"])
            counted[visit] += 1
            numbers[row["id"]] = counted[visit]
    return numbers
