"""Publishing: a validated document becomes the next version of its definition, all at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adapter.errors import Conflict, InvalidInput
from adapter.graph.document import SCHEMA
from adapter.records.drawing import key_of
from adapter.records.keys import new_ulid
from adapter.records.published import published_of
from adapter.records.starts import as_jsonb
from adapter.services.documents import Accepted, Document, accept_document, waited_fields
from adapter.services.joining import Joined, transaction_of
from adapter.services.morphs import RefLike, as_ref, columns_of, scope_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection, Row

    from adapter.graph.validation import Finding
    from adapter.records.published import PublishedRecords
    from adapter.settings import Settings

_CHECKSUM: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Published:
    """A publication.

    Attributes:
        number: The version's number, counted per definition from 1.
        checksum: Of the canonical document; the next publisher's ``expected_checksum``.
        created: False when the current version was the same document already.
        warnings: What validation found and let pass.
    """

    definition_id: int | str
    version_id: int | str
    key: str
    number: int
    checksum: str
    created: bool
    warnings: tuple[Finding, ...]


def publish(
    joined: Joined,
    settings: Settings,
    document: Document,
    *,
    owner: RefLike | None = None,
    expected_checksum: str | None = None,
    publisher: RefLike | None = None,
    known_actions: Collection[str] | None = None,
) -> Published:
    """Publishes a document as the current version of the definition that its ``key`` names.

    Instances that run stay on their version; new ones run this one. A document that is the current
    version already makes no new one. A definition becomes active when it is published, unless it
    is paused: what an operator has paused, a deployment does not resume.

    Args:
        joined: An open connection or session; its transaction is joined, never ended. Publishers
            of one definition wait for each other until it ends.
        settings: Names, key types and limits.
        document: The document, or its JSON text.
        owner: Whose definition it is; None for the whole application.
        expected_checksum: The current version's checksum as the publisher knows it. None does not
            ask; for a definition that does not exist yet, only None fits.
        publisher: Who publishes.
        known_actions: The names of all actions that workers have; None leaves them unchecked.

    Raises:
        InvalidDocument: With every finding; nothing was written.
        InvalidInput: A reference or the checksum cannot be used.
        Conflict: ``checksum_mismatch``: another version is current, nothing was written;
            ``definition_deleted``: a deleted definition still holds the key.
    """
    accepted = accept_document(document, settings, known_actions=known_actions)
    owned = as_ref(owner, "owner", settings.owner_key_type)
    by = as_ref(publisher, "publisher", settings.key_type)
    _check_form(expected_checksum)
    connection = transaction_of(joined)
    records, key, scope = published_of(settings), accepted.graph.key, scope_of(owned)
    about = {"key": key, "name": accepted.document["name"], "webhook_id": new_ulid()}
    current = records.lock(connection, scope=scope, key=key)
    if current is None:
        _check_expected(key, expected_checksum, None)
        records.define(connection, {**about, "scope": scope, **columns_of(owned, "owner")})
        current = _locked(connection, records, scope, key)
    if current.deleted_at is not None:
        raise Conflict(
            f"definition {key!r} was deleted and still holds its key; restore it, or publish under"
            " another key",
            code="definition_deleted",
            key=key,
        )
    _check_expected(key, expected_checksum, current)
    if current.checksum == accepted.checksum:
        if current.status == "archived":
            records.reactivate(connection, current.id)
        return Published(
            key_of(current.id),
            key_of(current.current_version_id),
            key,
            current.number,
            accepted.checksum,
            created=False,
            warnings=accepted.warnings,
        )
    values = {**about, **_version(accepted), **columns_of(by, "publisher")}
    version = records.publish(connection, {**values, "definition": current.id})
    for event, sets in sorted(waited_fields(accepted.graph).items()):
        records.register_fields(connection, event, sets)
    return Published(
        key_of(current.id),
        key_of(version.id),
        key,
        version.number,
        accepted.checksum,
        created=True,
        warnings=accepted.warnings,
    )


def _locked(connection: Connection, records: PublishedRecords, scope: str, key: str) -> Row[Any]:
    row = records.lock(connection, scope=scope, key=key)
    if row is None:
        raise Conflict(f"definition {key!r} was removed meanwhile; publish again")
    return row


def _version(accepted: Accepted) -> dict[str, Any]:
    document, graph = accepted.document, accepted.graph
    trigger = next(node for node in document["nodes"] if node["id"] == graph.trigger.id)
    config: Any = graph.trigger.config
    return {
        "schema_version": SCHEMA,
        "graph": as_jsonb(document),
        "trigger": as_jsonb(trigger.get("config") or {}),
        "settings": as_jsonb(document.get("settings") or {}),
        "trigger_type": config.type,
        "trigger_key": config.event,
        "actor_mode": graph.settings.actor_mode,
        "checksum": accepted.checksum,
        "description": document.get("description"),
        "subject_key": document.get("subject"),
    }


def _check_form(expected: str | None) -> None:
    if expected is not None and not _CHECKSUM.fullmatch(str(expected)):
        raise InvalidInput(
            "expected_checksum must be 64 hexadecimal digits in lower case, as a publication"
            " returned them",
            code="invalid_checksum",
        )


def _check_expected(key: str, expected: str | None, current: Row[Any] | None) -> None:
    actual = None if current is None else current.checksum
    if expected is None or expected == actual:
        return
    found = "has no published version yet" if actual is None else f"is at {actual}"
    raise Conflict(
        f"definition {key!r} {found}, not at the expected {expected}",
        code="checksum_mismatch",
        key=key,
        expected=expected,
        actual=actual,
    )
