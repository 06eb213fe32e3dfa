"""Checks one part of a document against its model and turns pydantic's errors into findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from adapter.graph.findings import CODES, Finding, find
from adapter.graph.suggestions import Suggester

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)
Path = tuple[str | int, ...]


def check_shape(model: type[Model], value: Any, path: Path) -> tuple[Model | None, list[Finding]]:
    """Returns the value as its model, or None with everything that is wrong about its shape.

    Args:
        model: A model of one part of the document.
        value: What stands there.
        path: Where it stands.
    """
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, [_finding(model, detail, path) for detail in error.errors(include_url=False)]


def _finding(model: type[BaseModel], detail: ErrorDetails, path: Path) -> Finding:
    kind = detail["type"]
    place = tuple(part for part in detail["loc"] if part != "[key]")
    where = (*path, *place)
    match kind:
        case "extra_forbidden":
            name = str(place[-1])
            fields = _fields_at(model, place[:-1])
            remedy = f"remove it; known here: {', '.join(fields)}" if fields else None
            message = f"unknown field {name!r}{Suggester(fields).closest(name)}"
            return find("unknown_field", where, message, remedy=remedy)
        case "missing":
            return find("missing_field", where[:-1], f"the field {where[-1]!r} is missing")
    message = detail["msg"]
    code = kind if kind in CODES else "invalid_field"
    name = next((str(part) for part in reversed(where) if isinstance(part, str)), "document")
    return find(code, where, f"{name}: {message[0].lower()}{message[1:]}")


def _fields_at(model: type[BaseModel], place: Path) -> list[str]:
    """The names that fields have in documents, in the model that stands under a path."""
    for part in place:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part not in fields:
            return []
        annotation = fields[str(part)].annotation
        models = [
            option
            for option in (annotation, *get_args(annotation))
            if isinstance(option, type) and issubclass(option, BaseModel)
        ]
        if not models:
            return []
        model = models[0]
    return [field.alias or name for name, field in model.model_fields.items()]
