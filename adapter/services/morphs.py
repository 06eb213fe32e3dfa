"""References to rows of the host application: owners, subjects, starters, publishers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ulid import ULID

from adapter.errors import InvalidInput
from adapter.services.texts import is_printable

if TYPE_CHECKING:
    from adapter.settings import MorphKeyType

EVERYBODY: Final = "*"
"""The owner scope of what belongs to the whole application."""

MAX_SCOPE = 191
MAX_KEY = 100


@dataclass(frozen=True, slots=True)
class Ref:
    """A row of the host application.

    Attributes:
        type: What kind of row, by the host's own naming; it holds no colon.
        id: Its id, of the type that the settings give to that role.
        key: The registry key of a subject's type; other roles have none.
    """

    type: str
    id: int | str | UUID
    key: str | None = None


RefLike = Ref | tuple[str, Any]


def as_ref(value: RefLike | None, role: str, kind: MorphKeyType) -> Ref | None:
    """Returns the reference in the form in which it is stored: ids as int or text.

    Args:
        value: A ``Ref``, a pair (type, id), or None.
        role: ``owner``, ``subject``, ``starter`` or ``publisher``, for messages.
        kind: The key type that the settings give to the role.

    Raises:
        InvalidInput: Not a reference, or its id has another type.
    """
    if value is None:
        return None
    ref = value if isinstance(value, Ref) else _pair(value, role)
    name = _name(ref.type, role)
    key = _id(ref.id, role, kind)
    if len(f"{name}:{key}") > MAX_SCOPE:
        raise _wrong(role, f"type and id of the {role} have more than {MAX_SCOPE} characters")
    if ref.key is not None and not is_printable(ref.key, MAX_KEY):
        raise _wrong(role, f"the key of the {role} must be 1 to {MAX_KEY} printable characters")
    return Ref(name, key, ref.key)


def scope_of(ref: Ref | None) -> str:
    """Returns an owner as one string, ``<type>:<id>``, or ``*`` for the whole application."""
    return EVERYBODY if ref is None else f"{ref.type}:{ref.id}"


def columns_of(ref: Ref | None, role: str) -> dict[str, Any]:
    """Returns the values of the pair ``<role>_type``, ``<role>_id``."""
    return {
        f"{role}_type": None if ref is None else ref.type,
        f"{role}_id": None if ref is None else ref.id,
    }


def _pair(value: Any, role: str) -> Ref:
    if isinstance(value, tuple | list) and len(value) == 2:
        return Ref(*value)
    raise _wrong(role, f"the {role} must be a pair (type, id) or a Ref, not {type(value).__name__}")


def _name(value: Any, role: str) -> str:
    if not is_printable(value, MAX_SCOPE) or ":" in value or value == EVERYBODY:
        raise _wrong(
            role,
            f"the type of the {role} must be 1 to {MAX_SCOPE} printable characters without a colon,"
            f" not {value!r:.80}",
        )
    return str(value)


def _id(value: Any, role: str, kind: MorphKeyType) -> int | str:
    if kind == "bigint":
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
            return value
    elif kind == "string":
        if is_printable(value, MAX_SCOPE):
            return str(value)
    elif kind == "uuid":
        try:
            return str(value if isinstance(value, UUID) else UUID(value))
        except (ValueError, AttributeError, TypeError):
            pass
    else:
        try:
            return str(value if isinstance(value, ULID) else ULID.from_str(value))
        except (ValueError, AttributeError, TypeError):
            pass
    raise _wrong(
        role,
        f"the id of the {role} must be a {kind} (setting {_setting(role)}), not {value!r:.80}",
    )


def _setting(role: str) -> str:
    return f"{role}_key_type" if role in ("owner", "subject") else "key_type"


def _wrong(role: str, message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_reference", role=role)
