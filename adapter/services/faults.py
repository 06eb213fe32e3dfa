"""What the database refuses becomes an error of ours, with a code and what to do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import exc

from adapter.errors import AlmanacError, InvalidInput, Misconfigured, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTS: Final[dict[str, tuple[type[AlmanacError], str, str]]] = {
    "57014": (
        Unavailable,
        "database_timeout",
        "the database took longer than the statement_timeout, so nothing was written; is another"
        " transaction holding a lock? Try again",
    ),
    "55P03": (Unavailable, "database_timeout", "a lock was not to be had in time; try again"),
    "40P01": (
        Unavailable,
        "transaction_conflict",
        "two transactions blocked each other; try again",
    ),
    "40001": (
        Unavailable,
        "transaction_conflict",
        "another transaction changed the same rows; try the whole transaction again",
    ),
    "42P01": (
        Misconfigured,
        "not_migrated",
        "the database has no Almanac tables of these names; run `almanac migrate`",
    ),
    "42703": (
        Misconfigured,
        "not_migrated",
        "the database's tables are those of another version; run `almanac migrate`",
    ),
    "42501": (Misconfigured, "permission_denied", "the database user may not do that"),
    **dict.fromkeys(
        ("42804", "42846", "42883"),
        (
            Misconfigured,
            "misconfigured",
            "the key types of the settings are not those that the database was migrated with",
        ),
    ),
    "25006": (
        Unavailable,
        "database_read_only",
        "the database takes no writes just now; try again",
    ),
    "25P02": (
        InvalidInput,
        "transaction_aborted",
        "the transaction that was passed has failed before; roll it back and begin another",
    ),
}
"""What each SQLSTATE becomes: class, code, message."""


@contextmanager
def database_faults() -> Iterator[None]:
    """Turns errors of SQLAlchemy into ours; those that would be a defect of ours pass as they are.

    Raises:
        Unavailable: The server cannot be reached, or gave up for now.
        Misconfigured: The database is not the one that the settings describe.
    """
    try:
        yield
    except exc.TimeoutError as error:
        raise Unavailable(
            "all database connections of this process are in use; close transactions sooner, or"
            " try again",
            code="connections_exhausted",
        ) from error
    except exc.DBAPIError as error:
        raise _translated(error) from error


def _translated(error: exc.DBAPIError) -> Exception:
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    told = str(error.orig).strip().split("\n")[0]
    if state in FAULTS:
        kind, code, message = FAULTS[state]
        return kind(f"{message} ({told})", code=code, sqlstate=state)
    lost = state is None or state[:2] in ("08", "53", "57") or error.connection_invalidated
    if lost and isinstance(error, exc.OperationalError | exc.InterfaceError | exc.InternalError):
        unsure = (
            ". Whether a write under way was committed is not known: repeat it with the same"
            " idempotency key"
            if error.connection_invalidated
            else ""
        )
        return Unavailable(
            f"the database cannot be reached: {told}{unsure}", code="database_unavailable"
        )
    if isinstance(error, exc.OperationalError):
        return Unavailable(f"the database did not answer as needed: {told}")
    return error
