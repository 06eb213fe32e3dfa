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
from adapter.interpreter.messages import clean

MAX_CODE = 64
"""Characters of ``error_code``."""

_NAME = re.compile(OUTCOME_PATTERN)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Returned by a handler that names the edge to take: ``return Outcome("approved", {...})``.

    Attributes:
        name: Like an edge's ``on``: a letter, then letters, digits, dashes, underscores; 32 in all.
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
    name: Any = value.name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "failure":
        raise StepError(
            "invalid_output",
            f"node {node!r} named the outcome {value.name!r:.80}; raise an error to fail, or use a"
            " letter followed by letters, digits, dashes or underscores, at most 32 in all",
            retryable=False,
        )
    return value.name, value.output


def accept_output(node: str, value: Any, max_bytes: int) -> Any:
    """Returns the output as canonical JSON: a copy, since the handler may go on changing its own.

    Args:
        node: The node, for the message.
        value: What the handler returned; pydantic models are dumped.
        max_bytes: The limit of its JSON text (``limits.max_output_bytes``).

    Raises:
        StepError: ``invalid_output`` or ``output_too_large``; neither is retried.
    """
    try:
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json")
        encoded = orjson.dumps(canonical(value))
    except Exception as error:
        reason = error.message if isinstance(error, InvalidValue) else _described(error)
        raise StepError(
            "invalid_output",
            f"node {node!r} returned what cannot be kept as JSON: {reason}",
            retryable=False,
        ) from error
    if len(encoded) > max_bytes:
        raise StepError(
            "output_too_large",
            f"node {node!r} returned {len(encoded)} bytes, the limit is {max_bytes}; store it"
            " elsewhere and return a reference",
            retryable=False,
        )
    return orjson.loads(encoded)


def as_failure(error: BaseException) -> Failure:
    """What an exception of a handler becomes in the record; never fails itself."""
    if isinstance(error, StepError):
        code = clean(_text(error, "code"))[:MAX_CODE] or StepError.code
        return Failure(code, clean(_text(error, "message")), _retryable(error))
    return Failure(StepError.code, clean(_described(error)), retryable=True)


# An exception's own methods are the host's code: they may raise anything, SystemExit included.


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except BaseException:
        return f"{type(error).__name__}: its message cannot be read"


def _text(error: StepError, attribute: str) -> str:
    try:
        return str(getattr(error, attribute, ""))
    except BaseException:
        return ""


def _retryable(error: StepError) -> bool:
    try:
        return bool(getattr(error, "retryable", True))
    except BaseException:
        return True
