"""Actions: the host's handlers by name, with what a worker must know to run them.

    @action("permits.record", timeout=2, retry={"max_attempts": 3})
    async def record(ctx: ActionContext, case: str, row: dict[str, str]) -> dict[str, str]: ...

Parameters are the keys of the node's resolved ``input``; pydantic checks and converts them by
their annotations. A parameter named ``ctx`` receives the context.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from adapter.errors import Conflict, InvalidInput
from adapter.execution.signatures import CONTEXT, arguments_of, bind
from adapter.graph.document import RetryPolicy

DEFAULT_TIMEOUT = timedelta(seconds=2)
"""How long an attempt may last unless its action or node says otherwise."""

MAX_NAME = 100

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_F = TypeVar("_F", bound=Callable[..., Any])
_TIMEDELTA = TypeAdapter(timedelta)


@dataclass(frozen=True, slots=True)
class Action:
    """A handler and how it is run.

    Attributes:
        name: What ``config.action`` of a node names.
        function: A plain or an async function.
        timeout: How long one attempt may last.
        retry: How often it is repeated, unless the node has a policy of its own.
        takes_context: Whether it has a parameter ``ctx``.
        arguments: The model that the resolved input must fit.
    """

    name: str
    function: Callable[..., Any]
    timeout: timedelta
    retry: RetryPolicy | None
    takes_context: bool
    is_async: bool
    arguments: type[BaseModel]

    def bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Checks and converts the input to keyword arguments.

        Raises:
            StepError: ``invalid_input``: the input does not fit the parameters; not retryable.
        """
        # A copy: values are shared with the record in memory, and with every instance of the graph.
        return bind(self.name, self.arguments, orjson.loads(orjson.dumps(values)))


@dataclass(slots=True)
class Registry:
    """Actions by name; a process usually has one, hosts with several Almanacs make their own."""

    actions: dict[str, Action] = field(default_factory=dict)

    def action(
        self,
        name: str,
        *,
        timeout: timedelta | float | str | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
    ) -> Callable[[_F], _F]:
        """Registers a handler under ``name``; use it as a decorator.

        Args:
            name: Dotted, lower case by custom: ``permits.record``. At most 100 characters.
            timeout: One attempt's time: seconds, a timedelta or ISO 8601 (``PT2S``).
            retry: ``{"max_attempts": 5, "backoff": "exponential", "initial": "PT1S", ...}``.

        Raises:
            InvalidInput: The name, time-out, policy or function cannot be used.
            Conflict: Another function is registered under that name.
        """
        _check_name(name)

        def register(function: _F) -> _F:
            self.add(make_action(name, function, timeout=timeout, retry=retry))
            return function

        return register

    def add(self, action: Action) -> None:
        """Adds an action; the same function again is fine.

        Raises:
            Conflict: Another function has that name.
        """
        known = self.actions.get(action.name)
        if known is not None and not _same(known.function, action.function):
            raise Conflict(
                f"action {action.name!r} is registered twice: {_origin(known.function)} and"
                f" {_origin(action.function)}; give one of them another name"
            )
        self.actions[action.name] = action

    def __contains__(self, name: object) -> bool:
        return name in self.actions

    def __iter__(self) -> Iterator[str]:
        return iter(self.actions)


def make_action(
    name: str,
    function: Callable[..., Any],
    *,
    timeout: timedelta | float | str | None = None,
    retry: RetryPolicy | Mapping[str, Any] | None = None,
) -> Action:
    """Reads a function's signature into an ``Action``.

    Raises:
        InvalidInput: The name, time-out, policy or function cannot be used.
    """
    _check_name(name)
    if not callable(function):
        raise InvalidInput(f"action {name!r}: {function!r:.200} is no function")
    return Action(
        name=name,
        function=function,
        timeout=_timeout(name, timeout),
        retry=_retry(name, retry),
        takes_context=CONTEXT in inspect.signature(function).parameters,
        is_async=_is_async(function),
        arguments=arguments_of(name, function),
    )


def _check_name(name: Any) -> None:
    if callable(name):
        raise InvalidInput(f'an action has a name: write @action("...") above {_origin(name)}')
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"action name {name!r:.200}: use 1 to {MAX_NAME} of a-z, A-Z, 0-9, dots, dashes and"
            " underscores, the first a letter or digit"
        )


def _timeout(name: str, value: timedelta | float | str | None) -> timedelta:
    if value is None:
        return DEFAULT_TIMEOUT
    try:
        timeout = _TIMEDELTA.validate_python(value)
    except ValidationError as error:
        raise InvalidInput(f"action {name!r}: timeout {value!r} is no duration") from error
    if not timedelta(0) < timeout <= timedelta(days=1):
        raise InvalidInput(f"action {name!r}: timeout {value!r} must be above 0 and at most a day")
    return timeout


def _retry(name: str, value: RetryPolicy | Mapping[str, Any] | None) -> RetryPolicy | None:
    if value is None or isinstance(value, RetryPolicy):
        return value
    try:
        return RetryPolicy.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(f"action {name!r}: retry {dict(value)!r}: {error}") from error


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two functions come from one definition: run twice, or in a module loaded again."""
    if one is other or getattr(one, "__code__", one) is getattr(other, "__code__", other):
        return True
    return _origin(one) == _origin(other) and "<" not in _origin(one)


def _origin(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"


default_registry = Registry()
"""Where ``adapter.action`` registers."""

action = default_registry.action
