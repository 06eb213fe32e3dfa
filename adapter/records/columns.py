"""Column factories shared by the tables: key types, morph pairs, unsigned numbers, times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CHAR,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Integer,
    SmallInteger,
    String,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine, UserDefinedType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapter.settings import MorphKeyType, PrimaryKeyType

_ID_DEFAULTS = {"uuid": "almanac_uuid7()", "ulid": "almanac_ulid()"}
_SQL_TYPES = {
    "bigint": "bigint",
    "uuid": "uuid",
    "ulid": "character(26)",
    "string": "character varying(191)",
}


class XID8(UserDefinedType[str]):
    """PostgreSQL's 64-bit transaction id, which SQLAlchemy has no type for."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Returns the type's name in DDL."""
        return "xid8"


def sql_type(key_type: MorphKeyType) -> str:
    """Returns the SQL name of a key type, for casts such as ``$1::bigint[]``."""
    return _SQL_TYPES[key_type]


def key_type(kind: PrimaryKeyType) -> TypeEngine[Any]:
    """Returns the column type of an id of ours.

    ULIDs are compared byte by byte: their order is the order of time, whatever language the
    database sorts in.
    """
    if kind == "bigint":
        return BigInteger()
    return Uuid() if kind == "uuid" else ulid_type()


def ulid_type() -> CHAR:
    """Returns the type of a ULID of ours, compared byte by byte."""
    return CHAR(26, collation="C")


def morph_type(kind: MorphKeyType) -> TypeEngine[Any]:
    """Returns the column type of an id of the host application's."""
    if kind == "string":
        return String(191)
    if kind == "ulid":
        return CHAR(26)
    return BigInteger() if kind == "bigint" else Uuid()


def primary_id(kind: PrimaryKeyType) -> Column[Any]:
    """Returns the ``id`` column; the database can draw it, so that an INSERT may leave it out."""
    if kind == "bigint":
        return Column("id", BigInteger, Identity(always=False), primary_key=True)
    return Column("id", key_type(kind), primary_key=True, server_default=text(_ID_DEFAULTS[kind]))


def morph(name: str, kind: MorphKeyType) -> tuple[Column[Any], Column[Any]]:
    """Returns the nullable pair ``<name>_type``, ``<name>_id`` that points at a row of the host."""
    return Column(f"{name}_type", String(191)), Column(f"{name}_id", morph_type(kind))


def unsigned(
    name: str, *, small: bool = False, default: int | None = None
) -> tuple[Column[Any], CheckConstraint]:
    """Returns a number that is never negative, and the CHECK that sees to it."""
    column: Column[Any] = Column(
        name,
        SmallInteger() if small else Integer(),
        nullable=False,
        server_default=None if default is None else text(str(default)),
    )
    return column, CheckConstraint(f"{name} >= 0", name=name)


def one_of(name: str, length: int, values: Iterable[str]) -> tuple[Column[Any], CheckConstraint]:
    """Returns a text column that takes only the listed values.

    A later migration that adds a value replaces the CHECK by its name, ``ck_<table>_<column>``.
    """
    listed = ", ".join(f"'{value}'" for value in values)
    return (
        Column(name, String(length), nullable=False),
        CheckConstraint(f"{name} IN ({listed})", name=name),
    )


def time(name: str, *, nullable: bool = True) -> Column[Any]:
    """Returns a point in time, kept in UTC."""
    return Column(name, DateTime(timezone=True), nullable=nullable)


def now(name: str) -> Column[Any]:
    """Returns a time that is the transaction's own when an INSERT leaves it out."""
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def instant(name: str) -> Column[Any]:
    """Returns a time that is the clock's, not the transaction's, when an INSERT leaves it out."""
    return Column(
        name, DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")
    )


def timestamps(*, soft_deletes: bool = False) -> tuple[Column[Any], ...]:
    """Returns ``created_at`` and ``updated_at``, and ``deleted_at`` where rows are soft-deleted."""
    pair = (now("created_at"), now("updated_at"))
    return (*pair, time("deleted_at")) if soft_deletes else pair


def string(name: str, length: int, *, nullable: bool = False, unique: bool = False) -> Column[Any]:
    """Returns a text column of bounded length."""
    return Column(name, String(length), nullable=nullable, unique=unique)


def long_text(name: str) -> Column[Any]:
    """Returns a nullable text column without a bound."""
    return Column(name, Text)


def json(name: str, *, nullable: bool = False) -> Column[Any]:
    """Returns a ``jsonb`` column; Python's None is SQL's NULL, never JSON's null."""
    return Column(name, JSONB(none_as_null=True), nullable=nullable)
