"""Durations and times in configs that may also be templates."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from adapter.graph.durations import parse_duration, parse_time


def is_template(text: str) -> bool:
    """Whether the text holds an expression."""
    return "${" in text


def _duration(text: str) -> str:
    if not is_template(text):
        try:
            parse_duration(text)
        except ValueError as error:
            raise PydanticCustomError(
                "invalid_duration", "{problem}", {"problem": str(error)}
            ) from None
    return text


def _time(text: str) -> str:
    if not is_template(text):
        try:
            parse_time(text)
        except ValueError as error:
            raise PydanticCustomError(
                "invalid_time", "{problem}", {"problem": str(error)}
            ) from None
    return text


DurationTemplate = Annotated[
    str, AfterValidator(_duration), Field(description="an ISO 8601 duration, or a template")
]
TimeTemplate = Annotated[
    str, AfterValidator(_time), Field(description="an RFC 3339 time with an offset, or a template")
]
