"""What to do about each error: printed below it by the CLI, and listed in docs/errors.md."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "broken_journal": "the record was changed by another hand: restore it from a backup",
        "cannot_write": "check the directory and who may write to it",
        "checksum_mismatch": "look at what was published meanwhile, then publish with its checksum",
        "closed": "make another Almanac object",
        "conflict": "read the record again, then decide",
        "connections_exhausted": "close transactions sooner, or try again",
        "database_read_only": "try again when the database takes writes",
        "database_timeout": "find who holds the lock (pg_stat_activity), then try again",
        "database_unavailable": "check ALMANAC_DATABASE_URL and that the server runs; try again",
        "definition_deleted": "restore the definition, or publish under another key",
        "definition_not_active": "activate or publish the definition, then start again",
        "definition_not_found": "publish the definition first: almanac publish FILE",
        "directory_in_use": "stop what runs there, or choose another directory: --data-dir",
        "downgrade_refused": "restore a backup, or correct it with a new migration",
        "file_exists": "move the file away, or rename it",
        "idempotency_conflict": "use another idempotency key, or send what was sent then",
        "import_failed": "run it from the directory of your code, or install your package",
        "instance_not_found": "check the ulid: almanac list",
        "internal_error": "run again with --traceback and report what it prints",
        "invalid_actor_mode": "use system, starter or owner",
        "invalid_checksum": "pass the checksum that the last publication returned",
        "invalid_document": "correct the findings above: almanac validate FILE",
        "invalid_event": "give each event as a pair of key and payload",
        "invalid_event_key": "use 1 to 191 printable characters",
        "invalid_expression": "correct the CEL expression",
        "invalid_filter": "correct the filter: almanac list --help",
        "invalid_idempotency_key": "use 1 to 1,000 printable characters",
        "invalid_input": "correct what was sent",
        "invalid_json": "correct the JSON: NaN, comments and trailing commas are not JSON",
        "invalid_key": "use the definition's key as `almanac publish` printed it",
        "invalid_payload": "send a JSON object",
        "invalid_place": "correct --after or --branch-label: almanac install --help",
        "invalid_reference": "give TYPE:ID with an id of the type that the settings name",
        "invalid_settings": "correct the ALMANAC_* variables that are named above",
        "invalid_timeout": "give a number of seconds",
        "invalid_ulid": "use the ulid that `almanac start` or `almanac list` printed",
        "invalid_value": "correct the value named above: no NaN, no NUL, no integer beyond 2^53",
        "keys_spent": "reserve more ids and decide again",
        "misconfigured": "set the ALMANAC_* variables; `almanac dev` runs servers and prints them",
        "newer_journal": "upgrade this worker: a newer one has written to the instance",
        "no_such_file": "check the path; - reads standard input",
        "not_an_alembic_tree": "name the directory that holds env.py and versions/",
        "not_found": "check the id or key",
        "not_migrated": "run: almanac migrate",
        "not_supported": "this version cannot do it; see the documentation for what it can",
        "payload_too_large": "store the data elsewhere and send a reference",
        "permission_denied": "grant the database user what is missing",
        "row_missing": "the record was changed by another hand: restore it from a backup",
        "several_heads": "choose one with --after REVISION, or merge them: alembic merge heads",
        "step_failed": "see the step's message",
        "temporal_unavailable": "check ALMANAC_TEMPORAL_ADDRESS and that it runs; try again",
        "transaction_aborted": "roll the transaction back and begin another",
        "transaction_conflict": "try the whole transaction again",
        "transaction_required": "pass a connection with a transaction, or none",
        "unavailable": "try again",
        "unreadable_migration": "give revision, down_revision and branch_labels as plain texts",
        "usage": "see: almanac COMMAND --help",
        "wait_timeout": "wait again, or see what it waits for: almanac show ULID",
    }
)
