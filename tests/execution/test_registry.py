from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import Field

import adapter
from adapter.errors import Conflict, InvalidInput, StepError
from adapter.execution.registry import DEFAULT_TIMEOUT, Registry, default_registry
from adapter.graph.document import RetryPolicy

if TYPE_CHECKING:
    from decimal import Decimal as Missing

    from adapter.execution.context import ActionContext


def greet(name: str, times: int = 1) -> str:
    return f"hello {name}" * times


def test_a_decorator_returns_the_function_as_it_was() -> None:
    registry = Registry()
    assert registry.action("greet")(greet) is greet
    assert registry.actions["greet"].function is greet


def test_registries_know_nothing_of_each_other() -> None:
    one, other = Registry(), Registry()
    one.action("greet")(greet)
    other.action("greet")(lambda: "another")
    assert list(one) == ["greet"]
    assert one.actions["greet"].function is greet
    assert "greet" not in Registry()
    assert "greet" not in default_registry


def test_the_exported_decorator_registers_in_the_default_registry() -> None:
    name = "tests.registry.exported"
    adapter.action(name)(greet)
    try:
        assert default_registry.actions[name].function is greet
    finally:
        del default_registry.actions[name]


def test_another_function_under_a_name_that_is_taken_is_refused_and_changes_nothing() -> None:
    registry = Registry()
    registry.action("greet")(greet)
    twice = r"action 'greet' is registered twice: .*greet and"
    with pytest.raises(Conflict, match=twice) as refused:
        registry.action("greet")(lambda name: name)
    assert refused.value.code == "duplicate_action"
    assert registry.actions["greet"].function is greet


def test_two_lambdas_of_one_place_are_two_functions() -> None:
    registry = Registry()
    registry.action("pick")(lambda: 1)
    with pytest.raises(Conflict):
        registry.action("pick")(lambda: 2)


def test_a_definition_that_is_run_again_may_register_again() -> None:
    registry = Registry()

    def set_up() -> None:
        @registry.action("inner")
        def inner() -> None: ...

    set_up()
    set_up()
    registry.action("greet")(greet)
    registry.action("greet")(greet)
    assert list(registry) == ["inner", "greet"]


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a/b", "_a", ".a", "-a", "é", "a\n", "a" * 101, None, 7, "a\0"]
)
def test_names_that_a_document_could_not_use_are_refused_when_the_decorator_is_made(
    name: Any,
) -> None:
    with pytest.raises(InvalidInput, match="action name"):
        Registry().action(name)


def test_a_decorator_without_a_name_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match=r'write @action\("\.\.\."\) above .*greet'):
        Registry().action(greet)  # type: ignore[arg-type]


def test_only_functions_can_be_registered() -> None:
    with pytest.raises(InvalidInput, match="is no function"):
        Registry().action("seven")(7)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(3, 3), (0.25, 0.25), ("PT2M", 120), (timedelta(seconds=7), 7)]
)
def test_a_timeout_is_given_as_seconds_duration_or_text(timeout: Any, seconds: float) -> None:
    registry = Registry()
    registry.action("greet", timeout=timeout)(greet)
    assert registry.actions["greet"].timeout == timedelta(seconds=seconds)


def test_without_a_timeout_an_attempt_has_two_seconds() -> None:
    registry = Registry()
    registry.action("greet")(greet)
    assert registry.actions["greet"].timeout == DEFAULT_TIMEOUT == timedelta(seconds=2)


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), float("inf"), "P2D", 86_401, []])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        Registry().action("greet", timeout=timeout)(greet)


@pytest.mark.parametrize(
    "retry",
    [
        {},
        {"max_attempts": 0},
        {"max_attempts": 2, "tries": 3},
        {"max_attempts": 101},
        {"max_attempts": 2, "initial": "PT2S", "max": "PT1S"},
        RetryPolicy(max_attempts=2, initial="PT1H"),
    ],
)
def test_a_retry_policy_that_cannot_be_used_is_refused(retry: Any) -> None:
    with pytest.raises(InvalidInput, match="retry"):
        Registry().action("greet", retry=retry)(greet)


def test_parameters_that_cannot_be_given_by_name_are_refused() -> None:
    def positional(a: int, /) -> None: ...
    def starred(*rows: int) -> None: ...
    def context_first(ctx: Any, /) -> None: ...

    for function in (positional, starred, context_first):
        with pytest.raises(InvalidInput, match="cannot be given by name"):
            Registry().action("refused")(function)


def test_annotations_that_mean_nothing_at_run_time_are_refused_with_a_remedy() -> None:
    def record(row: Missing) -> None: ...

    with pytest.raises(InvalidInput, match=r"'Missing' is not defined; .* must be imported"):
        Registry().action("record")(record)


def test_types_of_the_context_and_of_the_result_may_be_known_to_type_checkers_only() -> None:
    registry = Registry()

    @registry.action("record")
    def record(ctx: ActionContext, row: int) -> Missing:
        raise NotImplementedError

    assert registry.actions["record"].takes_context
    assert registry.actions["record"].bind({"row": "7"}) == {"row": 7}


def test_input_is_converted_by_annotations_and_defaults_fill_in() -> None:
    registry = Registry()
    registry.action("greet")(greet)
    bind = registry.actions["greet"].bind
    assert bind({"name": "Ada", "times": "2"}) == {"name": "Ada", "times": 2}
    assert bind({"name": "Ada"}) == {"name": "Ada", "times": 1}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "name"),
        ({"name": "Ada", "tmies": 2}, "tmies"),
        ({"name": "Ada", "times": "x"}, "times"),
    ],
)
def test_input_that_does_not_fit_names_each_parameter(values: Any, named: str) -> None:
    registry = Registry()
    registry.action("greet")(greet)
    with pytest.raises(StepError, match=rf"does not fit action 'greet': {named}: ") as error:
        registry.actions["greet"].bind(values)
    assert (error.value.code, error.value.retryable) == ("invalid_input", False)


def test_keyword_parameters_take_what_has_no_parameter_of_its_own() -> None:
    registry = Registry()

    @registry.action("open")
    def open_(a: int, **rest: Any) -> None: ...
    @registry.action("all")
    def everything(**rest: Any) -> None: ...

    assert registry.actions["open"].bind({"a": "1", "b": [2]}) == {"a": 1, "b": [2]}
    assert registry.actions["all"].bind({"a": "1", "p0": 2}) == {"a": "1", "p0": 2}


def test_a_default_may_be_one_of_pydantics_fields() -> None:
    registry = Registry()

    @registry.action("wait")
    def wait(days: int = Field(default=3, ge=1), kinds: list[str] = Field(default_factory=list)):  # type: ignore[no-untyped-def]  # noqa: B008
        ...

    bind = registry.actions["wait"].bind
    assert bind({}) == {"days": 3, "kinds": []}
    with pytest.raises(StepError, match="days: Input should be greater than or equal to 1"):
        bind({"days": 0})


def test_a_default_is_nobody_elses_to_change() -> None:
    registry = Registry()

    @registry.action("mark")
    def mark(rows: list[int] = []) -> None: ...  # noqa: B006

    bind = registry.actions["mark"].bind
    bind({})["rows"].append(1)
    assert bind({}) == {"rows": []}


@pytest.mark.parametrize("name", ["json", "copy", "schema", "model_config", "_row", "model_fields"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def handler({name}): return {name}", scope)
    registry = Registry()
    registry.action("named")(scope["handler"])
    assert registry.actions["named"].bind({name: 1}) == {name: 1}


class Greeter:
    async def __call__(self, name: str) -> str:
        return name

    def method(self, name: str) -> str:
        return name

    @classmethod
    def of_class(cls, name: str) -> str:
        return name


@functools.wraps(greet)
def wrapped(*args: Any, **kwargs: Any) -> str:
    return greet(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (Greeter(), True),
        (Greeter().method, False),
        (Greeter.of_class, False),
        (functools.partial(greet, times=3), False),
        (wrapped, False),
    ],
)
def test_whatever_can_be_called_by_name_can_be_a_handler(function: Any, is_async: bool) -> None:
    registry = Registry()
    registry.action("greet")(function)
    action = registry.actions["greet"]
    assert action.is_async is is_async
    assert action.bind({"name": "Ada"})["name"] == "Ada"
    assert set(action.bind({"name": "Ada"})) <= {"name", "times"}


def test_a_validator_that_breaks_is_an_input_that_does_not_fit() -> None:
    class Broken:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            from pydantic_core import core_schema

            def refuse(value: Any) -> Any:
                raise KeyError(value)

            return core_schema.no_info_plain_validator_function(refuse)

    scope: dict[str, Any] = {"Broken": Broken}
    exec("def handler(row: Broken): return row", scope)
    registry = Registry()
    registry.action("broken")(scope["handler"])
    with pytest.raises(StepError, match="KeyError") as error:
        registry.actions["broken"].bind({"row": 1})
    assert error.value.code == "invalid_input"


def test_an_action_may_name_a_queue_and_a_heartbeat() -> None:
    registry = Registry()
    registry.action("greet", queue="gpu", heartbeat="PT20S")(greet)
    action = registry.actions["greet"]
    assert (action.queue, action.heartbeat) == ("gpu", timedelta(seconds=20))
    assert registry.queues == {"gpu"}


@pytest.mark.parametrize(
    ("options", "queued", "seconds"),
    [
        ({}, False, 2),
        ({}, True, 3600),
        ({"timeout": 5}, True, 5),
        ({"queue": "gpu"}, False, 3600),
        ({"heartbeat": 5}, False, 3600),
        ({"queue": "gpu", "timeout": 5}, False, 5),
    ],
)
def test_a_queued_attempt_without_a_timeout_of_its_own_has_an_hour(
    options: dict[str, Any], queued: bool, seconds: float
) -> None:
    registry = Registry()
    registry.action("greet", **options)(greet)
    action = registry.actions["greet"]
    assert action.time_for(None, queued=queued).total_seconds() == seconds
    assert action.time_for(timedelta(seconds=9), queued=queued).total_seconds() == 9


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "GPU"},
        {"queue": ""},
        {"queue": 7},
        {"queue": "q" * 65},
        {"heartbeat": 0.5},
        {"heartbeat": "soon"},
    ],
)
def test_queues_and_heartbeats_that_cannot_be_used_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"action 'greet': (queue|heartbeat)"):
        Registry().action("greet", **options)(greet)
