"""Starting instances: a row and a first inbox row in the caller's transaction, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from adapter.errors import Conflict, InvalidInput, NotFound, Unavailable
from adapter.graph.durations import parse_duration
from adapter.graph.kinds import kind_of
from adapter.records.documented import ACTOR_MODES
from adapter.records.drawing import key_of
from adapter.records.keys import new_ulid
from adapter.records.starts import Starts, starts_of
from adapter.services.joining import Joined, connection_of
from adapter.services.morphs import MAX_KEY, Ref, RefLike, as_ref, columns_of, scope_of
from adapter.services.payloads import accept_payload
from adapter.services.texts import is_printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from adapter.settings import Settings

MAX_RAW_KEY: Final = 1_000
MAX_TTL: Final = timedelta(days=36_500)
BATCH: Final = 1_000
"""Starts that one statement writes."""

BATCH_BYTES: Final = 8 * 1024 * 1024
"""Payload bytes that one statement carries, at about."""

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Started:
    """A start that was taken.

    Attributes:
        ulid: The instance's public id.
        id: Its row's id.
        created: False when an earlier start with the same idempotency key made it.
    """

    ulid: str
    id: int | str
    created: bool


def start(
    joined: Joined,
    settings: Settings,
    key: str,
    payload: Any = None,
    *,
    owner: RefLike | None = None,
    subject: RefLike | None = None,
    starter: RefLike | None = None,
    actor_mode: str | None = None,
    idempotency_key: str | None = None,
    idempotency_ttl: timedelta | str | None = None,
) -> Started:
    """Starts an instance of a definition's current version.

    The owner's own definition comes before the application-wide one with the same key. The
    instance begins when the transaction has committed and a worker's relay sees it.

    Args:
        joined: An open connection or session; its transaction is joined, never ended.
        settings: Names, key types and limits.
        key: The definition's key.
        payload: JSON; expressions read it as ``trigger``.
        owner: Whose instance it is; None for the application's own.
        subject: What it is about.
        starter: Who started it.
        actor_mode: On whose behalf handlers act; the version's own mode when None.
        idempotency_key: The same key of the same owner gives the same instance, for
            ``idempotency_ttl``. Starts with one key at the same time wait for each other.
        idempotency_ttl: From when on the key starts another instance, a timedelta or ISO 8601
            text such as ``PT1H``; the setting ``idempotency.ttl`` when None. That of the
            start that made the instance counts.

    Raises:
        InvalidInput: The payload, a reference, the mode, the key or its time cannot be used.
        NotFound: ``definition_not_found``.
        Conflict: ``definition_not_active``; ``idempotency_conflict`` when the key was used with
            another payload or subject.
    """
    connection = connection_of(joined)
    values = _values(settings, key, owner=owner, subject=subject, starter=starter, mode=actor_mode)
    values |= {
        "ulid": new_ulid(),
        "payload": accept_payload(payload, settings),
        "raw_key": _raw_key(idempotency_key),
        "ttl": _ttl(idempotency_ttl, idempotency_key, settings).total_seconds(),
    }
    starts = starts_of(settings)
    for _ in range(_ATTEMPTS):
        row = starts.start(connection, values)
        if row is None:
            raise _not_found(key, values["scope"])
        _check_active(key, row.status, row.published)
        if row.id is not None:
            return Started(values["ulid"], key_of(row.id), created=True)
        if (earlier := _earlier(connection, starts, row.digest, values)) is not None:
            return earlier
    raise Unavailable("the instance of this idempotency key is being removed; try again")


def start_many(
    joined: Joined,
    settings: Settings,
    key: str,
    payloads: Sequence[Any],
    *,
    owner: RefLike | None = None,
    starter: RefLike | None = None,
    actor_mode: str | None = None,
) -> list[Started]:
    """Starts one instance for each payload; all of them or, when it raises, none.

    Every payload is checked before the first is written. Returns the starts in the order given.

    Raises:
        InvalidInput: As ``start``; the message names the place of the payload.
        NotFound: ``definition_not_found``.
        Conflict: ``definition_not_active``.
    """
    connection = connection_of(joined)
    values = _values(settings, key, owner=owner, subject=None, starter=starter, mode=actor_mode)
    if not is_listed(payloads):
        # A text would start an instance for each of its characters.
        raise InvalidInput(
            f"payloads must be a list, not {kind_of(payloads)}", code="invalid_payload"
        )
    texts = [
        accept_payload(payload, settings, name=f"payload {place}")
        for place, payload in enumerate(payloads)
    ]
    starts, made = starts_of(settings), list[Started]()
    for batch in batches(texts):
        ulids = [new_ulid() for _ in batch]
        rows = starts.start_many(connection, {**values, "ulids": ulids, "payloads": batch})
        if not rows:
            raise _not_found(key, values["scope"])
        _check_active(key, rows[0].status, rows[0].published)
        ids = {row.ulid: key_of(row.id) for row in rows}
        made += [Started(ulid, ids[ulid], created=True) for ulid in ulids]
    return made


def is_listed(values: Any) -> bool:
    """Whether values are a list of many things, and not one thing that can be iterated."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray)


def batches(texts: Sequence[str | None]) -> Iterator[list[str | None]]:
    """Cuts texts into runs of at most ``BATCH`` and about ``BATCH_BYTES``, in order."""
    batch: list[str | None] = []
    size = 0
    for text in texts:
        length = len(text or "")
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _values(
    settings: Settings,
    key: str,
    *,
    owner: RefLike | None,
    subject: RefLike | None,
    starter: RefLike | None,
    mode: str | None,
) -> dict[str, Any]:
    if not is_printable(key, MAX_KEY):
        raise InvalidInput(f"{key!r:.80} is not the key of a definition", code="invalid_key")
    if mode is not None and mode not in ACTOR_MODES:
        raise InvalidInput(
            f"actor_mode must be one of {', '.join(ACTOR_MODES)}, not {mode!r:.80}",
            code="invalid_actor_mode",
        )
    owned = as_ref(owner, "owner", settings.owner_key_type)
    about = as_ref(subject, "subject", settings.subject_key_type)
    by = as_ref(starter, "starter", settings.key_type)
    return {
        "key": key,
        "scope": scope_of(owned),
        "actor_mode": mode,
        "subject_key": about.key if isinstance(about, Ref) else None,
        **columns_of(owned, "owner"),
        **columns_of(about, "subject"),
        **columns_of(by, "starter"),
    }


def _raw_key(value: str | None) -> str | None:
    if value is None:
        return None
    if not is_printable(value, MAX_RAW_KEY):
        raise InvalidInput(
            f"an idempotency key must be 1 to {MAX_RAW_KEY} printable characters",
            code="invalid_idempotency_key",
        )
    return value


def _ttl(value: Any, key: str | None, settings: Settings) -> timedelta:
    if value is None:
        return settings.idempotency.ttl
    if key is None:
        raise InvalidInput(
            "idempotency_ttl needs an idempotency_key", code="invalid_idempotency_ttl"
        )
    try:
        given = parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidInput(f"idempotency_ttl: {error}", code="invalid_idempotency_ttl") from None
    if not isinstance(given, timedelta):
        raise InvalidInput(
            f"idempotency_ttl is a timedelta or ISO 8601 text such as PT1H, not {value!r:.80}",
            code="invalid_idempotency_ttl",
        )
    if not timedelta() < given <= MAX_TTL:
        raise InvalidInput(
            f"an idempotency key can be kept for more than 0 s and up to {MAX_TTL.days} days, not"
            f" {value!r:.80}",
            code="invalid_idempotency_ttl",
        )
    return given


def _earlier(
    connection: Connection, starts: Starts, digest: str, values: dict[str, Any]
) -> Started | None:
    row = starts.holder(connection, digest, values)
    if row is None:
        return None
    if not row.same:
        raise Conflict(
            f"idempotency key {values['raw_key']!r} has started instance {row.ulid} with another"
            " payload or subject",
            code="idempotency_conflict",
            ulid=row.ulid,
        )
    return Started(row.ulid, key_of(row.id), created=False)


def _check_active(key: str, status: str, published: bool) -> None:
    if status != "active" or not published:
        state = status if published else "without a published version"
        raise Conflict(
            f"definition {key!r} is {state}, so it cannot be started; activate or publish it first",
            code="definition_not_active",
            key=key,
            status=status,
        )


def _not_found(key: str, scope: str) -> NotFound:
    whose = "" if scope == "*" else f" (owner {scope}, or application-wide)"
    return NotFound(
        f"no definition has the key {key!r}{whose}; publish it first",
        code="definition_not_found",
        key=key,
    )
