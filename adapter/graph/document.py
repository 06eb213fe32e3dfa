"""The shape of a graph document, ``roundly.workflows.graph/v1``.

These models say which fields exist and what one field may hold. What fields mean to one another
(edges, reachability, expressions) is checked in ``adapter.graph.validation``; the ``config`` of a
node has a model of its own in ``adapter.graph.nodes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from adapter.graph.durations import parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

SCHEMA = "roundly.workflows.graph/v1"
NODE_ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
OUTCOME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"
"""Outcomes that a document or a handler makes up; a decision may also compute other texts."""
KEY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$"
MAX_NODES = 2_000
MAX_EDGES = 10_000


class Part(BaseModel):
    """Base of every part of a document: frozen, strict about types, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError as error:
        raise PydanticCustomError(
            "invalid_duration", "{problem}", {"problem": str(error)}
        ) from None
    return text


def _positive(text: str) -> str:
    if not parse_duration(text):
        raise PydanticCustomError("invalid_duration", "it must be longer than zero")
    return text


def _condition(value: Any) -> Any:
    if not isinstance(value, dict | str):
        raise PydanticCustomError(
            "invalid_condition", "a condition is an object or a CEL text, not this"
        )
    return value


def _supported_schema(value: str) -> str:
    if value == SCHEMA:
        return value
    if value.startswith(SCHEMA.rpartition("v")[0]):
        raise PydanticCustomError(
            "not_supported", "this version reads {known} only", {"known": SCHEMA}
        )
    raise PydanticCustomError("invalid_field", "must be {known}", {"known": SCHEMA})


DurationText = Annotated[
    str,
    AfterValidator(_duration),
    Field(json_schema_extra={"format": "duration", "examples": ["PT5M"]}),
]
"""An ISO 8601 duration, kept as written."""

PositiveDuration = Annotated[DurationText, AfterValidator(_positive)]
"""The same, longer than zero."""

ConditionJson = Annotated[Any, AfterValidator(_condition), WithJsonSchema({"title": "Condition"})]
"""A condition as it stands in the document; what is inside is checked when it is compiled."""

SchemaName = Annotated[
    str,
    AfterValidator(_supported_schema),
    WithJsonSchema({"const": SCHEMA}),
]
NodeId = Annotated[str, Field(pattern=NODE_ID_PATTERN)]
Outcome = Annotated[str, Field(pattern=OUTCOME_PATTERN)]
Key = Annotated[str, Field(pattern=KEY_PATTERN, max_length=100)]


def _event_key(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that are not printable, so no event can have that key")
    return text


def _signal_name(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that are not printable, so no signal can be named so")
    return text


EventKey = Annotated[str, AfterValidator(_event_key), Field(min_length=1, max_length=191)]
"""The key of an event: what ``emit`` takes."""

SignalName = Annotated[str, AfterValidator(_signal_name), Field(min_length=1, max_length=191)]
"""The name of a signal."""


class RetryPolicy(Part):
    """How often a failed step is tried again, and how long it waits in between.

    After failed attempt *n* the wait is ``initial`` (constant), ``initial * n`` (linear) or
    ``initial * factor^(n-1)`` (exponential), at most ``max``. ``jitter`` shortens it by up to that
    share at random, so that steps that failed together do not come back together.
    """

    max_attempts: int = Field(ge=1, le=100, description="attempts in all, the first one included")
    backoff: Literal["constant", "linear", "exponential"] = "exponential"
    initial: DurationText = "PT1S"
    max: DurationText = "PT5M"
    factor: float = Field(2, ge=1, le=10, strict=False, allow_inf_nan=False)
    jitter: float = Field(0, ge=0, le=1, strict=False, allow_inf_nan=False)

    @property
    def flaw(self) -> str | None:
        """Why it cannot mean what it says; not asked of what is published already."""
        if parse_duration(self.initial) <= parse_duration(self.max):
            return None
        return f"the first wait, {self.initial}, is longer than the longest one, {self.max}"

    def delay(self, attempt: int) -> timedelta:
        """The wait after failed attempt ``attempt`` (1 = the first), without jitter."""
        initial = parse_duration(self.initial)
        longest = parse_duration(self.max)
        if self.backoff == "constant" or not initial:
            return min(initial, longest)
        try:
            times = attempt if self.backoff == "linear" else self.factor ** (attempt - 1)
            return min(initial * times, longest)
        except OverflowError:
            return longest


class GraphLimits(Part):
    """Bounds of one instance; they may only lower those of the settings."""

    max_steps: int | None = Field(None, ge=1, le=99_999, description="step runs of one instance")
    max_items: int | None = Field(None, ge=1, le=100_000, description="items of one node")
    max_depth: int | None = Field(
        None, ge=0, le=100, description="instances above one that start_workflow starts"
    )
    max_started: int | None = Field(
        None, ge=0, le=100_000, description="instances that one instance starts"
    )


class GraphSettings(Part):
    """Settings of every instance of this graph."""

    actor_mode: Literal["system", "starter", "owner"] = Field(
        "starter",
        description="on whose behalf handlers act; the system where there is no starter",
    )
    limits: GraphLimits = GraphLimits()


class Node(Part):
    """One node; ``config`` has the shape of its type."""

    id: NodeId
    type: str = Field(min_length=1, max_length=64)
    name: str | None = Field(None, min_length=1, max_length=200)
    config: dict[str, Any] = Field(default_factory=dict)
    retry: RetryPolicy | None = None
    timeout: PositiveDuration | None = Field(None, description="of one attempt")
    escalations: list[Any] | None = None
    compensate: dict[str, Any] | None = None


class Edge(Part):
    """One edge: taken on an outcome (``on``), under a condition (``when``), or else (plain)."""

    from_: NodeId = Field(alias="from")
    to: NodeId
    on: str | None = Field(None, min_length=1, max_length=32)
    when: ConditionJson | None = None


class GraphHeader(Part):
    """Everything in a document but its nodes and edges."""

    schema_: SchemaName = Field(alias="schema")
    key: Key
    name: str = Field(min_length=1, max_length=200)
    description: str | None = Field(None, max_length=10_000)
    subject: Key | None = Field(None, description="registry key of the subject's type")
    settings: GraphSettings = GraphSettings()


class GraphDocument(GraphHeader):
    """A whole document."""

    nodes: list[Node] = Field(min_length=1, max_length=MAX_NODES)
    edges: list[Edge] = Field(default_factory=list, max_length=MAX_EDGES)
