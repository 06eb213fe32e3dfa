"""The settings as rows of the table in docs/operations.md: variable, values, default."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, TypeAdapter

from adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_PREFIX = "ALMANAC_"
_DURATION = TypeAdapter(timedelta)


def settings_rows() -> list[tuple[str, str, str]]:
    return list(_rows(Settings, _PREFIX))


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        variable = f"{prefix}{name.upper()}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{variable}__")
        else:
            yield f"`{variable}`", _values(field), _default(field.default)


def _values(field: FieldInfo) -> str:
    annotation: Any = field.annotation
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if annotation is int:
        low = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
        high = next((m.le for m in field.metadata if isinstance(m, Le)), None)
        return f"{low} to {high}" if high is not None else f"from {low}"
    return "duration" if annotation is timedelta else "text"


def _default(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, timedelta):
        return f"`{_DURATION.dump_json(value).decode().strip(chr(34))}`"
    return f"`{value}`"
