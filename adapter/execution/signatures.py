"""What a handler takes: its parameters as a model that the input of a step must fit."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo

from adapter.errors import InvalidInput, StepError
from adapter.graph.arguments import Parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONTEXT: Final = "ctx"
"""The parameter that receives the context instead of a part of the input."""


def arguments_of(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    """Reads the parameters of a handler, except the context, into a model.

    The fields have names of their own and the parameters' names as aliases, so that a parameter
    may be called ``json`` or ``_row``, which a model's own field may not.

    Args:
        name: The action's name, for messages.
        function: A plain or an async function.

    Raises:
        InvalidInput: A parameter cannot be given by name, or its annotation cannot be used.
    """
    fields: dict[str, Any] = {}
    extra: Literal["allow", "forbid"] = "forbid"
    parameters = inspect.signature(function).parameters
    hints = _hints(name, function, parameters)
    for place, parameter in enumerate(parameters.values()):
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidInput(
                f"action {name!r}: parameter {parameter.name!r} cannot be given by name; inputs are"
            )
        if parameter.name == CONTEXT:
            continue
        fields[f"p{place}"] = _field(parameter, hints.get(parameter.name, Any))
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True)
    try:
        return create_model("Input", __config__=config, **fields)
    except PydanticUserError as error:
        raise InvalidInput(f"action {name!r}: its annotations cannot be used: {error}") from error


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    default: Any = parameter.default
    if isinstance(default, FieldInfo):
        return (Annotated[hint, default], Field(alias=parameter.name))
    return (hint, Field(... if default is parameter.empty else default, alias=parameter.name))


def parameters_of(model: type[BaseModel]) -> Parameters:
    """What a handler takes, as validation asks for it.

    Args:
        model: From ``arguments_of``.
    """
    named = {str(f.alias or name): f.is_required() for name, f in model.model_fields.items()}
    return Parameters(named, open=model.model_config.get("extra") == "allow")


def bind(name: str, model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Checks an input and converts it to keyword arguments.

    Args:
        name: The action's name, for messages.
        model: From ``arguments_of``.
        values: The resolved input.

    Raises:
        StepError: ``invalid_input``: the input does not fit the parameters; not retryable.
    """
    try:
        bound = model.model_validate(values)
    except ValidationError as error:
        problem = "; ".join(
            f"{'.'.join(str(part) for part in e['loc']) or 'input'}: {e['msg']}"
            for e in error.errors(include_url=False, include_context=False, include_input=False)
        )
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        named = {f.alias or n: getattr(bound, n) for n, f in model.model_fields.items()}
        return {**(bound.model_extra or {}), **named}
    raise StepError(
        "invalid_input", f"the input does not fit action {name!r}: {problem}", retryable=False
    )


def _hints(
    name: str, function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """The annotations of the parameters; what the context's name stands for is nobody's business.

    It is often imported for type checkers only, as are the types of results.
    """
    written = {
        parameter.name: parameter.annotation
        for parameter in parameters.values()
        if parameter.name != CONTEXT and parameter.annotation is not parameter.empty
    }
    holder = SimpleNamespace(__annotations__=written)
    try:
        return get_type_hints(holder, globalns=_globals(function), include_extras=True)
    except NameError as error:
        raise InvalidInput(
            f"action {name!r}: {error}; what the annotations of its parameters name must be"
            " imported when it runs, at the top of its module"
        ) from error


def _globals(function: Any) -> dict[str, Any]:
    """Where a function's annotations were written: its module, also through wrappers."""
    while (inner := getattr(function, "__wrapped__", getattr(function, "func", None))) is not None:
        function = inner
    if not hasattr(function, "__globals__"):
        function = getattr(function, "__func__", type(function).__call__)
    return getattr(function, "__globals__", {})
