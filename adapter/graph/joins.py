"""What the node types that join several parts have in common: how many must succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from adapter.errors import ExpressionError
from adapter.graph.configs import Flaw
from adapter.graph.templates import result_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

Quorum = Annotated[int, Field(ge=1, le=100_000, description="how many must succeed")]
OnFailure = Annotated[
    Literal["stop", "finish"],
    Field(description="once it cannot succeed any more: cancel the rest, or let them finish"),
]
_LIST = frozenset({"LIST", "DYN"})


def check_quorum(
    field: str, mode: str, quorum: int | None, parts: int | None, *, of: str
) -> Iterator[Flaw]:
    """Yields what is wrong between a mode and a quorum.

    Args:
        field: The name of the field that holds the mode.
        mode: What it holds.
        quorum: The number, if one is given.
        parts: How many parts there are, if that is known.
        of: What the parts are called.
    """
    if mode == "quorum" and quorum is None:
        yield Flaw(
            (),
            "missing_field",
            f"{field!r} is 'quorum', but there is no number",
            'give "quorum": how many must succeed',
        )
    if mode != "quorum" and quorum is not None:
        yield Flaw(
            ("quorum",),
            "field_not_allowed",
            f"'quorum' has no meaning when {field!r} is {mode!r}",
            f'leave it out, or set "{field}" to "quorum"',
        )
    if quorum is not None and parts is not None and quorum > parts:
        yield Flaw(
            ("quorum",),
            "quorum_too_large",
            f"the quorum is {quorum}, but there are {parts} {of}",
            f"give at most the number of {of}",
        )


def check_list(field: str, value: Any, *, or_text: bool = False) -> Iterator[Flaw]:
    """Yields a flaw when a template can never give a list.

    Args:
        field: The name of the field.
        value: A list, or a text that is a template.
        or_text: Whether a single text will do as well.
    """
    if isinstance(value, list) or value is None:
        return
    try:
        kind = result_kind(value) if isinstance(value, str) else "VALUE"
    except ExpressionError:
        return
    # A list of a known kind is told with it: LIST<STRING>.
    if (kind or "").partition("<")[0] in _LIST or (or_text and kind in (None, "STRING")):
        return
    yield Flaw(
        (field,),
        "not_a_list",
        f"{field!r} can never be a list",
        'give a list, or one expression that gives a list, such as "${ trigger.rows }"',
    )


def known_length(value: Any) -> int | None:
    """How many items a list template has; None when that is known only when it is rendered."""
    return len(value) if isinstance(value, list) else None
