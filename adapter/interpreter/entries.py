"""The vocabulary of the journal: every kind of decision, and what its ``data`` holds.

An entry is a decision that has been taken: expressions, zones, jitter and random numbers are in
it as values, so folding it evaluates nothing. ``data`` goes into ``workflow_journal.data``;
``row`` holds what only the documented row keeps (outputs, inputs, messages): the journal never
copies those.

Times in ``data`` are RFC 3339 text in UTC. ``edge`` is ``{"to", "by", "index"}``: the node that is
entered next, why (``outcome``, ``condition``, ``plain``; ``none`` when no edge was taken), and the
edge's place in the document's ``edges``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .state import EMPTY, Key

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTED: Final = "started"
"""The instance begins. data: inbox, snapshot (of the start), after (event id) or null."""

STEP_SCHEDULED: Final = "step_scheduled"
"""A step run exists that nobody runs yet; with ``due_at`` it waits for its back-off, with ``queue``
it is run by an activity of that task queue ("" for the default one)."""

STEP_STARTED: Final = "step_started"
"""A writer runs the step. data: token, worker; with ``new`` also what step_scheduled holds."""

STEP_PASSED: Final = "step_passed"
"""A node that takes no time was entered and left. data: outcome, edge, set (new variables), started
(how many instances). row: output, children."""

STEP_SUCCEEDED: Final = "step_succeeded"
"""The handler returned. data: outcome, edge. row: output."""

STEP_FAILED: Final = "step_failed"
"""The attempt failed. data: code, retryable, final; outcome, edge when final. row: message."""

STEP_LOST: Final = "step_lost"
"""The attempt's worker is gone. data: counted (against max_lost), final; then as step_failed."""

WAIT_OPENED: Final = "wait_opened"
"""A step waits. data: wait, kind, due_at, outcome; event, match; signals, correlation; instances,
children, started (how many of them now), family (earlier step runs that have started the others);
and what step_scheduled holds. row: condition, children."""

WAIT_FIRED: Final = "wait_fired"
"""What the step waited for came. data: wait, event or signal, outcome, edge, orphans. row: output,
resume_signal."""

WAIT_TIMED_OUT: Final = "wait_timed_out"
"""The wait's time came first. data: wait, outcome, edge; orphans (steps of children let go)."""

WAIT_ADVANCED: Final = "wait_advanced"
"""A part of what a wait needs has come. data: wait, and signal + name, or child + status."""

WAIT_FAILED: Final = "wait_failed"
"""What a wait needs cannot come any more. data: wait, orphans; then as a final step_failed."""

SCOPE_OPENED: Final = "scope_opened"
"""A structure node was entered. data: scope (kind), total, config (the items), and what
step_scheduled holds; with ``again`` the node is entered again after a retry."""

LINE_ENDED: Final = "line_ended"
"""A branch, item or iteration ended. data: line, outcome, size; code and position on failure.
row: message."""

SCOPE_CLOSED: Final = "scope_closed"
"""A structure node joined its lines. data: scope (key), outcome, edge, steps and waits (cancelled
with it), orphans, code. row: output, message."""

SIGNAL_RECEIVED: Final = "signal_received"
"""A signal came and is kept until a wait takes it. data: inbox, name, correlation."""

PAUSED: Final = "paused"
"""Nothing further begins. data: inbox."""

RESUMED: Final = "resumed"
"""Goes on after a pause. data: inbox."""

RETRIED: Final = "retried"
"""A failed instance goes on where it failed. data: inbox."""

INBOX_APPLIED: Final = "inbox_applied"
"""An inbox row was taken note of. data: inbox, kind, result {"status", "reason"}."""

COMPLETED: Final = "completed"
"""The instance ended as it should. data: node."""

FAILED: Final = "failed"
"""The instance failed. data: code, node; position and line, if it can be retried; scopes (step runs
of the structure nodes that failed with it). row: message."""

CANCELLED: Final = "cancelled"
"""The instance was cancelled. data: node; inbox, reason, code when somebody asked for it."""

SNAPSHOT: Final = "snapshot"
"""The state so far, without outputs. data: ``snapshots.as_json(state)``."""

KINDS: Final = frozenset(
    {
        STARTED,
        STEP_SCHEDULED,
        STEP_STARTED,
        STEP_PASSED,
        STEP_SUCCEEDED,
        STEP_FAILED,
        STEP_LOST,
        WAIT_OPENED,
        WAIT_FIRED,
        WAIT_TIMED_OUT,
        WAIT_ADVANCED,
        WAIT_FAILED,
        SCOPE_OPENED,
        LINE_ENDED,
        SCOPE_CLOSED,
        SIGNAL_RECEIVED,
        PAUSED,
        RESUMED,
        RETRIED,
        INBOX_APPLIED,
        COMPLETED,
        FAILED,
        CANCELLED,
        SNAPSHOT,
    }
)

SUCCESS: Final = "success"
FAILURE: Final = "failure"
"""The two outcomes that every node can have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision: a row of the journal, and the part of it that only a documented row keeps."""

    kind: str
    node: str | None = None
    step: Key | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    row: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
