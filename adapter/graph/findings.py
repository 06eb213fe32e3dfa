"""Findings: what validation reports, and the catalogue of everything that it can report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from adapter.graph.pointers import pointer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a document, or looks wrong.

    Attributes:
        pointer: JSON pointer to the place; empty for the document as a whole.
        code: Stable; one of CODES.
        message: What is wrong there.
        remedy: What to do about it.
        severity: A document with an ``error`` is refused; a ``warning`` is only told.
    """

    pointer: str
    code: str
    message: str
    remedy: str
    severity: Severity = "error"

    def as_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the catalogue: what a code means, and the usual remedy."""

    severity: Severity
    meaning: str
    remedy: str


def find(
    code: str, path: Iterable[str | int], message: str, *, remedy: str | None = None
) -> Finding:
    """A finding with the severity, and unless one is given the remedy, of its code."""
    row = CODES[code]
    return Finding(pointer_of(path), code, message, remedy or row.remedy, row.severity)


CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        # the text
        "invalid_json": Code(
            "error", "the text is not JSON", "correct the text at the line and column given"
        ),
        "duplicate_key": Code(
            "error", "an object has the same key twice", "keep one of the two entries"
        ),
        "not_an_object": Code("error", "the document is not an object", "send one JSON object"),
        "document_too_large": Code(
            "error",
            "the document is larger than max_graph_bytes",
            "split the graph, or move large constants into handlers",
        ),
        "too_deep": Code(
            "error", "a value is nested more than 64 levels deep", "flatten the value"
        ),
        "invalid_value": Code(
            "error",
            "a value that cannot be kept as canonical JSON",
            "use text without NUL and lone surrogates, and numbers within 2^53 - 1",
        ),
        # the shape
        "missing_field": Code("error", "a required field is missing", "add the field"),
        "unknown_field": Code("error", "a field that does not exist there", "remove the field"),
        "invalid_field": Code(
            "error", "a field holds something that it cannot hold", "give a value that it takes"
        ),
        "invalid_duration": Code(
            "error",
            "not an ISO 8601 duration of weeks, days, hours, minutes and seconds",
            'write it like "PT30S", "PT1H30M" or "P2D"',
        ),
        "invalid_time": Code(
            "error",
            "not an RFC 3339 time with an offset",
            'write it like "2030-01-31T09:00:00Z"',
        ),
        "field_not_allowed": Code(
            "error", "a field that its neighbours do not allow", "leave the field out"
        ),
        "not_supported": Code(
            "error",
            "well-formed and documented, but this version cannot run it",
            "do without it, or use a version that supports it",
        ),
        # nodes
        "unknown_node_type": Code(
            "error", "no node type has that name", "use one of the documented node types"
        ),
        "no_trigger": Code(
            "error", "no node of type trigger", "add one node of type trigger: it begins the graph"
        ),
        "second_trigger": Code(
            "error", "more than one node of type trigger", "keep one trigger; publish another graph"
        ),
        "duplicate_node_id": Code("error", "two nodes have the same id", "rename one of the two"),
        "retry_not_allowed": Code(
            "error", "retry on a node that is never tried again", "remove 'retry'"
        ),
        "timeout_not_allowed": Code(
            "error", "timeout on a node that calls no handler", "remove 'timeout'"
        ),
        "unknown_action": Code(
            "error",
            "no handler is registered for the action",
            "register the action, or correct its name",
        ),
        "unknown_argument": Code(
            "error",
            "the handler of the action has no such parameter",
            "rename or remove the argument",
        ),
        "suspect_argument": Code(
            "warning",
            "the handler takes any argument, but has a parameter of nearly that name",
            "rename the argument, if that parameter was meant",
        ),
        "missing_argument": Code(
            "error",
            "the handler of the action needs an argument that is not given",
            "add it to 'input'",
        ),
        "retry_max_below_initial": Code(
            "error",
            "the longest wait between attempts is shorter than the first one",
            "give a 'max' of at least 'initial' (without one it is PT5M)",
        ),
        "delay_time": Code(
            "error", "a delay needs exactly one of 'for' and 'until'", "give one of the two"
        ),
        "nothing_to_wait_for": Code(
            "error",
            "a wait has neither an event, nor a signal, nor a time",
            "give 'event', 'signal', 'signals', 'timeout' or 'until'",
        ),
        "several_to_wait_for": Code(
            "error",
            "a wait has more than one of 'event', 'signal' and 'signals'",
            "keep one; use a parallel with 'join': 'any' to wait for different things",
        ),
        "repeat_condition": Code(
            "error",
            "a repeat needs exactly one of 'while' and 'until'",
            "give one of the two",
        ),
        "not_a_list": Code(
            "error",
            "a template for a list can never give one",
            "give a list, or one expression that gives a list",
        ),
        "quorum_too_large": Code(
            "error",
            "a quorum larger than the number of parts",
            "give at most the number of parts",
        ),
        "outcome_not_text": Code(
            "error",
            "the outcome of a decision can never be a text",
            "let the expression give a text, a number, true or false",
        ),
        "limit_too_high": Code(
            "error",
            "a limit above that of the settings",
            "lower it: a graph may only lower the limits",
        ),
        # expressions
        "invalid_expression": Code(
            "error",
            "an expression that cannot be compiled",
            "correct the expression; docs/graph-format.md describes the language",
        ),
        "unknown_name": Code(
            "error",
            "an expression or field uses an unknown name or function",
            "use trigger, steps, state, subject, instance or item, and the functions of CEL",
        ),
        "expression_too_costly": Code(
            "error",
            "an expression that is too long or may take too long",
            "shorten it, nest fewer loops, or compute the value in a handler",
        ),
        "expression_not_supported": Code(
            "error",
            "correct CEL that this project does not run",
            "see the limits in docs/graph-format.md",
        ),
        "invalid_condition": Code(
            "error",
            "not a condition",
            "use all, any, not, a comparison of field, op and value, or a CEL text",
        ),
        "unknown_step": Code(
            "error", "an expression reads the step of an unknown node", "correct the node's id"
        ),
        "name_not_available": Code(
            "error",
            "a name that has no value at that place",
            "use a name that has a value there",
        ),
        "step_never_before": Code(
            "warning",
            "an expression reads a step that cannot have run by then",
            "read a step on a path that leads here",
        ),
        "step_not_visible": Code(
            "warning",
            "an expression reads a step of a for_each's body from outside of it",
            "read 'results' in the output of the for_each",
        ),
        "integer_division": Code(
            "warning",
            "division by an integer literal: of two integers, 7 / 2 is 3",
            "divide by a fraction, such as 2.0, to keep the rest",
        ),
        # edges
        "unknown_node": Code(
            "error", "an edge or a body names an unknown node", "correct the id, or add the node"
        ),
        "edge_into_trigger": Code(
            "error", "an edge leads into the trigger", "lead it to the node after the trigger"
        ),
        "edge_from_end": Code(
            "error", "an edge leaves an end node", "remove the edge, or use another node type"
        ),
        "on_and_when": Code(
            "error",
            "an edge has both 'on' and 'when'",
            "use one; a decision node behind the edge can test the other",
        ),
        "duplicate_on": Code(
            "error",
            "two edges of a node have the same 'on'",
            "keep one; for a choice between them add a decision node",
        ),
        "second_plain_edge": Code(
            "error",
            "two edges of a node have neither 'on' nor 'when'",
            "keep one, or give the other a condition",
        ),
        "impossible_outcome": Code(
            "error",
            "an edge names an outcome that its node never has",
            "use an outcome that the node can have",
        ),
        "condition_after_plain": Code(
            "warning",
            "a condition stands after the plain edge, but is tested before it",
            "put the plain edge last",
        ),
        # bodies
        "region_shared": Code(
            "error",
            "a node belongs to two bodies",
            "give each body nodes of its own; what both need to do comes after their owner",
        ),
        "edge_leaves_region": Code(
            "error",
            "an edge leads out of a body",
            "let the line end there; what comes next follows an edge of the body's owner",
        ),
        "edge_into_region": Code(
            "error",
            "an edge leads into a body from outside",
            "remove the edge: the owner begins its bodies by itself",
        ),
        "owner_in_region": Code(
            "error",
            "a node belongs to its own body",
            "let the line end there: its owner goes on by itself",
        ),
        "trigger_in_region": Code(
            "error", "a body begins with the trigger", "let it begin with another node"
        ),
        "nested_too_deep": Code(
            "error",
            "a body stands in more than 32 others",
            "start another definition from the inside with start_workflow",
        ),
        # the whole
        "decision_without_edges": Code(
            "error", "a decision from which no edge leaves", "add its edges"
        ),
        "no_default_edge": Code(
            "warning",
            "a decision may find no edge to take, which fails the instance",
            "add an edge without 'on' and 'when'",
        ),
        "unreachable_node": Code(
            "warning", "no path leads from the trigger to the node", "add an edge, or remove it"
        ),
        "endless_loop": Code(
            "error",
            "a loop of decisions only: nothing changes in it, so it can never end",
            "put a node that acts or waits into the loop",
        ),
        "unbounded_loop": Code(
            "warning",
            "a loop in which nothing waits, and that only the general limit of steps bounds",
            "set settings.limits.max_steps to what a run may need, or use a repeat",
        ),
    }
)
