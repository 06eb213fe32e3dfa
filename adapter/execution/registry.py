"""Actions: the host's handlers by name, with what a worker must know to run them.

    @action("permits.record", timeout=2, retry={"max_attempts": 3})
    async def record(ctx: ActionContext, case: str, row: dict[str, str]) -> dict[str, str]: ...

Parameters are the keys of the node's resolved ``input``; pydantic checks and converts them by
their annotations. A parameter named ``ctx`` receives the context.

    @action("films.encode", queue="gpu", timeout="PT3H", heartbeat=20)
    def encode(ctx: ActionContext, film: str) -> dict[str, str]: ...

An action with a queue, a heartbeat or a time-out above two seconds is not run in the turn but by
an activity of its own (``adapter.execution.queued``).
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from adapter.errors import Conflict, InvalidInput
from adapter.execution.signatures import CONTEXT, arguments_of, bind, parameters_of
from adapter.graph.document import RetryPolicy

if TYPE_CHECKING:
    from adapter.graph.arguments import Parameters

LOGGER = logging.getLogger("almanac.worker")

DEFAULT_TIMEOUT = timedelta(seconds=2)
"""How long an attempt may last unless its action or node says otherwise."""

QUEUED_TIMEOUT = timedelta(hours=1)
"""The same for steps that a queue or a heartbeat takes out of the turn."""

MAX_NAME = 100

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_QUEUE = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)

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
        queue: The task queue whose workers run it; None for any worker.
        heartbeat: How often it says that it is alive; None when it need not.
        declares_timeout: Whether ``timeout`` was given, and is not a default.
        transactional: Whether it writes through ``ctx.connection``, and its step's end with it.
    """

    name: str
    function: Callable[..., Any]
    timeout: timedelta
    retry: RetryPolicy | None
    takes_context: bool
    is_async: bool
    arguments: type[BaseModel]
    queue: str | None = None
    heartbeat: timedelta | None = None
    declares_timeout: bool = True
    transactional: bool = False

    def time_for(self, node: timedelta | None, *, queued: bool) -> timedelta:
        """How long one attempt may last.

        Args:
            node: What the node says.
            queued: Whether the node asks for a queue or a heartbeat.
        """
        if node is not None:
            return node
        return QUEUED_TIMEOUT if queued and not self.declares_timeout else self.timeout

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
    missed: set[str] = field(default_factory=set, repr=False, compare=False)

    def action(
        self,
        name: str,
        *,
        timeout: timedelta | float | str | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        queue: str | None = None,
        heartbeat: timedelta | float | str | None = None,
        transactional: bool = False,
    ) -> Callable[[_F], _F]:
        """Registers a handler under ``name``; use it as a decorator.

        Args:
            name: Dotted, lower case by custom: ``permits.record``. At most 100 characters.
            timeout: One attempt's time: seconds, a timedelta or ISO 8601 (``PT2S``). By default two
                seconds, an hour with a queue or a heartbeat; above two seconds the step is queued.
            retry: ``{"max_attempts": 5, "backoff": "exponential", "initial": "PT1S", ...}``.
            queue: The task queue whose workers run it, where not any worker can.
            heartbeat: How often the handler says that it is alive, given as ``timeout`` is. One
                that has called ``ctx.heartbeat()`` and then is silent for twice as long has hung.
            transactional: Whether it writes through ``ctx.connection``, a transaction of its own
                in Almanac's database whose last statement records the step: both or neither.

        Raises:
            InvalidInput: The name, an option or the function cannot be used.
            Conflict: Another function is registered under that name.
        """
        _check_name(name)

        def register(function: _F) -> _F:
            self.add(
                make_action(
                    name,
                    function,
                    timeout=timeout,
                    retry=retry,
                    queue=queue,
                    heartbeat=heartbeat,
                    transactional=transactional,
                )
            )
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
                f" {_origin(action.function)}; give one of them another name",
                code="duplicate_action",
                action=action.name,
            )
        self.actions[action.name] = action

    @property
    def queues(self) -> frozenset[str]:
        """The task queues that its actions name."""
        return frozenset(a.queue for a in self.actions.values() if a.queue is not None)

    def parameters(self) -> dict[str, Parameters]:
        """What the handler of each action takes, by the action's name."""
        return {name: parameters_of(one.arguments) for name, one in self.actions.items()}

    def miss(self, name: str) -> None:
        """Says, once for each name, that a step waits since there is no handler for its action."""
        if name not in self.missed:
            self.missed.add(name)
            LOGGER.warning(
                "no handler for action %r here: its steps wait for a worker that has it", name
            )

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
    queue: str | None = None,
    heartbeat: timedelta | float | str | None = None,
    transactional: bool = False,
) -> Action:
    """Reads a function's signature into an ``Action``; its options are those of the decorator.

    Raises:
        InvalidInput: The name, an option or the function cannot be used.
    """
    _check_name(name)
    if not callable(function):
        raise InvalidInput(f"action {name!r}: {function!r:.200} is no function")
    takes_context = CONTEXT in inspect.signature(function).parameters
    if transactional and not takes_context:
        raise InvalidInput(
            f"action {name!r} is transactional: give it a parameter {CONTEXT!r}, and write through"
            f" {CONTEXT}.connection"
        )
    return Action(
        name=name,
        function=function,
        timeout=(
            (DEFAULT_TIMEOUT if queue is None and heartbeat is None else QUEUED_TIMEOUT)
            if timeout is None
            else _duration(name, "timeout", timeout)
        ),
        retry=_retry(name, retry),
        takes_context=takes_context,
        is_async=_is_async(function),
        arguments=arguments_of(name, function),
        queue=_queue(name, queue),
        heartbeat=None if heartbeat is None else _heartbeat(name, heartbeat),
        declares_timeout=timeout is not None,
        transactional=transactional,
    )


def _check_name(name: Any) -> None:
    if callable(name):
        raise InvalidInput(f'an action has a name: write @action("...") above {_origin(name)}')
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"action name {name!r:.200}: use 1 to {MAX_NAME} of a-z, A-Z, 0-9, dots, dashes and"
            " underscores, the first a letter or digit"
        )


def _duration(name: str, option: str, value: Any) -> timedelta:
    try:
        duration = _TIMEDELTA.validate_python(value)
    except ValidationError as error:
        raise InvalidInput(f"action {name!r}: {option} {value!r} is no duration") from error
    if not timedelta(0) < duration <= _DAY:
        raise InvalidInput(f"action {name!r}: {option} {value!r} must be above 0 and at most a day")
    return duration


def _heartbeat(name: str, value: Any) -> timedelta:
    heartbeat = _duration(name, "heartbeat", value)
    if heartbeat < _SECOND:
        raise InvalidInput(f"action {name!r}: heartbeat {value!r} must be at least a second")
    return heartbeat


def _queue(name: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _QUEUE.fullmatch(value)):
        return value
    raise InvalidInput(
        f"action {name!r}: queue {value!r:.200}: use a lower-case letter, then at most 63 of"
        " a-z, 0-9, dots, dashes and underscores"
    )


def _retry(name: str, value: RetryPolicy | Mapping[str, Any] | None) -> RetryPolicy | None:
    if value is None:
        return None
    try:
        policy = value if isinstance(value, RetryPolicy) else RetryPolicy.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(f"action {name!r}: retry {dict(value)!r}: {error}") from error
    if policy.flaw:
        raise InvalidInput(f"action {name!r}: retry: {policy.flaw}; give a 'max' that is longer")
    return policy


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
