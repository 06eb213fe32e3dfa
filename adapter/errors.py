"""Every error that Almanac raises on purpose, with the code that names it everywhere.

    AlmanacError
    ├── InvalidInput            the caller must change what was sent
    │   ├── InvalidDocument     a graph document with findings
    │   ├── InvalidValue        a value that cannot be kept as JSON
    │   └── ExpressionError     an expression that cannot be compiled
    ├── NotSupported            well-formed, but this version cannot do it
    ├── NotFound                nothing carries that id or key
    ├── Conflict                the record is not in the state that the caller expects
    ├── Unavailable             a server could not be reached in time; try again
    ├── Misconfigured           the settings and the database disagree
    └── StepError               raised by handlers: fails the step with a code of their own

The same string ``code`` stands in the CLI, the HTTP problem type, Temporal's
``ApplicationError.type`` and the ``failure_code`` / ``error_code`` columns.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class AlmanacError(Exception):
    """The root of the tree: a stable code, a sentence that helps, and the facts behind it.

    Args:
        message: What happened, with which id, and what to do next.
        code: Overrides the class's code where one class covers several causes.
        details: Facts a program may want, JSON values only.
    """

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = MappingProxyType(details)
        if code is not None:
            self.code = code  # type: ignore[misc]

    def as_json(self) -> dict[str, Any]:
        """The error as one JSON object: code, message and details."""
        return {"code": self.code, "message": self.message, "details": dict(self.details)}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.code, dict(self.details)))


def _rebuild(
    cls: type[AlmanacError], message: str, code: str, details: dict[str, Any]
) -> AlmanacError:
    return cls(message, code=code, **details)


class InvalidInput(AlmanacError):
    """The caller must change what was sent; nothing was written."""

    code = "invalid_input"
    http_status = 422
    exit_code = 2


class InvalidDocument(InvalidInput):
    """A graph document was refused; ``details["findings"]`` lists every finding."""

    code = "invalid_document"


class InvalidValue(InvalidInput):
    """A value cannot be kept as canonical JSON."""

    code = "invalid_value"


class ExpressionError(InvalidInput):
    """An expression cannot be compiled."""

    code = "invalid_expression"


class NotSupported(AlmanacError):
    """Well-formed, but this version of Almanac cannot do it."""

    code = "not_supported"
    http_status = 501
    exit_code = 2


class NotFound(AlmanacError):
    """Nothing carries that id or key."""

    code = "not_found"
    http_status = 404
    exit_code = 3


class Conflict(AlmanacError):
    """The record is not in the state that the caller expects; nothing was changed."""

    code = "conflict"
    http_status = 409
    exit_code = 4


class Unavailable(AlmanacError):
    """A server could not be reached in time; trying again may help."""

    code = "unavailable"
    http_status = 503
    exit_code = 5
    retryable = True


class Misconfigured(AlmanacError):
    """The settings and the database disagree, or a setting is missing."""

    code = "misconfigured"
    http_status = 500
    exit_code = 6


class StepError(AlmanacError):
    """Raised by a handler to fail its step with a code of its own.

    Args:
        code: Written to ``error_code``; at most 64 characters.
        message: For operators; written to ``error_message``.
        retryable: False stops further attempts at once.
    """

    code = "step_failed"

    def __init__(self, code: str, message: str, *, retryable: bool = True, **details: Any) -> None:
        super().__init__(message, code=code, **details)
        self.retryable = retryable  # type: ignore[misc]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_step, (self.code, self.message, self.retryable, dict(self.details)))


def _rebuild_step(code: str, message: str, retryable: bool, details: dict[str, Any]) -> StepError:
    return StepError(code, message, retryable=retryable, **details)
