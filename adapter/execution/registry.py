"""Actions: the host's handlers by name, with what a worker must know to run them.

    @action("permits.record", timeout=2, retry={"max_attempts": 3})
    async def record(ctx: ActionContext, case: str, row: dict[str, str]) -> dict[str, str]: ...

Parameters are the keys of the node's resolved ``input``; pydantic checks and converts them by
their annotations. A parameter named ``ctx`` receives the context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from adapter.errors import Conflict, InvalidInput, StepError
from adapter.graph.document import RetryPolicy

DEFAULT_TIMEOUT = timedelta(seconds=2)
"""How long an attempt may last unless its action or node says otherwise."""

MAX_NAME = 100

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
        arguments: The model that the resolved input must fit; None takes any mapping.
    """

    name: str
    function: Callable[..., Any]
    timeout: timedelta
    retry: RetryPolicy | None
    takes_context: bool
    is_async: bool
    arguments: type[BaseModel] | None
    simple: frozenset[str] | None = None

    def bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Checks and converts the input to keyword arguments.

        Raises:
            StepError: ``invalid_input``: the input does not fit the parameters; not retryable.
        """
        if self.arguments is None:
            return dict(values)
        try:
            model = self.arguments.model_validate(values)
        except ValidationError as error:
            parts = [
                f"{'.'.join(str(p) for p in e['loc']) or 'input'}: {e['msg']}"
                for e in error.errors(include_url=False, include_context=False)
            ]
            raise StepError(
                "invalid_input",
                f"the input does not fit action {self.name!r}: {'; '.join(parts)}",
                retryable=False,
            ) from error
        return {name: getattr(model, name) for name in type(model).model_fields}


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
        if known is not None and _origin(known.function) != _origin(action.function):
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
    if not name or len(name) > MAX_NAME or not all(c.isalnum() or c in "._-" for c in name):
        raise InvalidInput(
            f"action name {name!r}: use 1 to {MAX_NAME} letters, digits, dots, dashes, underscores"
        )
    parameters = inspect.signature(function).parameters
    return Action(
        name=name,
        function=function,
        timeout=_timeout(name, timeout),
        retry=_retry(name, retry),
        takes_context="ctx" in parameters,
        is_async=inspect.iscoroutinefunction(function),
        arguments=_arguments(name, function, parameters),
    )


def _arguments(
    name: str, function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> type[BaseModel] | None:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    extra = "forbid"
    for parameter in parameters.values():
        if parameter.name == "ctx":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidInput(
                f"action {name!r}: parameter {parameter.name!r} cannot be given by name; inputs are"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    if extra == "allow" and not fields:
        return None
    config = ConfigDict(extra=cast("Any", extra), arbitrary_types_allowed=True)
    return create_model(f"{function.__name__}_input", __config__=config, **fields)


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


def _origin(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"


default_registry = Registry()
"""Where ``adapter.action`` registers."""

action = default_registry.action
