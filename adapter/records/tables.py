"""The tables as SQLAlchemy Core objects, named and typed as the settings say.

The migrations are written by hand and frozen; a test holds these definitions and a migrated
database to be the same, down to the text of every constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import MetaData, Table

from adapter.records.choice import SchemaChoice
from adapter.records.documented import DocumentedTables
from adapter.records.ours import OwnTables

if TYPE_CHECKING:
    from adapter.settings import Settings

# PostgreSQL cuts identifiers at 63 bytes; table names end at 41 and the longest column of a
# constraint at 18, so that none of these is ever cut.
_NAMING = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one Almanac; fields are named as the settings name them.

    Attributes:
        metadata: Holds all of them; ``create_all`` does not make the triggers and functions that
            the migrations make.
    """

    metadata: MetaData
    definitions: Table
    versions: Table
    instances: Table
    step_runs: Table
    waits: Table
    escalations: Table
    idempotency_keys: Table
    dry_runs: Table
    journal: Table
    inbox: Table
    events: Table
    event_fields: Table
    workers: Table
    step_progress: Table


def build_tables(settings: Settings) -> Tables:
    """Returns the tables for these settings; the same objects whenever the choice is the same.

    Sharing them keeps SQLAlchemy's cache of compiled statements warm.
    """
    return _build(SchemaChoice.of(settings))


@lru_cache(maxsize=32)
def _build(choice: SchemaChoice) -> Tables:
    metadata = MetaData(naming_convention=_NAMING)
    documented = DocumentedTables(choice, metadata)
    own = OwnTables(choice, metadata)
    return Tables(
        metadata=metadata,
        definitions=documented.definitions(),
        versions=documented.versions(),
        instances=documented.instances(),
        step_runs=documented.step_runs(),
        waits=documented.waits(),
        escalations=documented.escalations(),
        idempotency_keys=documented.idempotency_keys(),
        dry_runs=documented.dry_runs(),
        journal=own.journal(),
        inbox=own.inbox(),
        events=own.events(),
        event_fields=own.event_fields(),
        workers=own.workers(),
        step_progress=own.step_progress(),
    )
