"""The door for handler results: what comes out of a handler becomes canonical JSON or a failure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel

from adapter.errors import InvalidValue, StepError
from adapter.graph.canonical import canonical
from adapter.graph.document import OUTCOME_PATTERN
from adapter.interpreter.events import Failure

MAX_MESSAGE = 4_000
"""Characters of an error message that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Returned by a handler that names the edge to take: ``return Outcome("approved", {...})``.

    Attributes:
        name: Like an edge's ``on``: a letter, then letters, digits, dashes, underscores; at most 32.
        output: What is kept as the step's output.
    """

    name: str
    output: Any = None


def split_outcome(node: str, value: Any) -> tuple[str, Any]:
    """The outcome and the output that a handler's return value stands for.

    Raises:
        StepError: ``invalid_output``: the outcome has no usable name.
    """
    if not isinstance(value, Outcome):
        return "success", value
    if not re.fullmatch(OUTCOME_PATTERN, value.name) or value.name == "failure":
        raise StepError(
            "invalid_output",
            f"node {node!r} named the outcome {value.name!r:.80}; raise an error to fail, or use a"
            " letter followed by letters, digits, dashes or underscores, at most 32 in all",
            retryable=False,
        )
    return value.name, value.output


def accept_output(node: str, value: Any, max_bytes: int) -> Any:
    """Returns the output as canonical JSON.

    Args:
        node: The node, for the message.
        value: What the handler returned; pydantic models are dumped.
        max_bytes: The limit of its JSON text (``limits.max_output_bytes``).

    Raises:
        StepError: ``invalid_output`` or ``output_too_large``; neither is retried.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    try:
        value = canonical(value)
    except InvalidValue as error:
        raise StepError(
            "invalid_output",
            f"node {node!r} returned what cannot be kept as JSON: {error.message}",
            retryable=False,
        ) from error
    size = len(orjson.dumps(value)) if value is not None else 0
    if size > max_bytes:
        raise StepError(
            "output_too_large",
            f"node {node!r} returned {size} bytes, the limit is {max_bytes}; store it elsewhere and"
            " return a reference",
            retryable=False,
        )
    return value


def as_failure(error: BaseException) -> Failure:
    """What an exception of a handler becomes in the record."""
    if isinstance(error, StepError):
        return Failure(error.code[:64], clean(error.message), error.retryable)
    return Failure("step_failed", clean(f"{type(error).__name__}: {error}"), retryable=True)


def clean(text: str) -> str:
    """A message that a text column takes: no NUL, no lone surrogates, bounded."""
    kept = text.replace("\x00", "\\0")[:MAX_MESSAGE]
    return kept.encode("utf-8", "backslashreplace").decode("utf-8")
