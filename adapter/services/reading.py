"""Reading: one instance with its timeline, and pages of instances."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson
from ulid import ULID

from adapter.errors import InvalidInput, NotFound
from adapter.records.commands import commands_of
from adapter.records.documented import INSTANCE_STATUSES
from adapter.records.kept import kept_of
from adapter.records.overviews import overviews_of
from adapter.services.joining import Joined, connection_of
from adapter.services.morphs import MAX_KEY, RefLike, as_ref, columns_of
from adapter.services.outlines import branches_of, nodes_with_items
from adapter.services.reasons import waiting_for
from adapter.services.rows import (
    child_of,
    edge_of,
    effect_of,
    inbox_of,
    reference_of,
    signal_of,
    step_of,
    stop_of,
    summary_of,
    wait_of,
)
from adapter.services.texts import is_printable
from adapter.services.views import STOPPED, InstanceSummary, InstanceView, Page

if TYPE_CHECKING:
    from adapter.settings import Settings

MAX_PAGE: Final = 1_000
MAX_TIMELINE: Final = 100_000
TIMELINE: Final = 1_000
"""Step runs, waits, edges, children, effects that ``show`` returns by itself, the newest ones."""

MAX_COMMANDS: Final = 500
"""Unapplied inbox rows, and signals kept, that ``show`` returns: those that are acted on next."""


def show(joined: Joined, settings: Settings, ulid: str, *, most: int = TIMELINE) -> InstanceView:
    """Returns an instance with its timeline.

    Args:
        joined: An open connection or session. In READ COMMITTED the parts may be some milliseconds
            apart; in REPEATABLE READ they are one moment.
        settings: Names of the tables.
        ulid: The instance's public id.
        most: How many step runs, waits, edges, children and effects, the newest ones.

    Raises:
        InvalidInput: Not a ULID (``invalid_ulid``), or ``most`` is not 1 to 100,000.
        NotFound: ``instance_not_found``.
    """
    accept_most(most)
    connection, records = connection_of(joined), overviews_of(settings)
    known = accept_ulid(ulid)
    row = records.head(connection, known)
    if row is None:
        raise no_instance(known)
    document = orjson.loads(records.graph(connection, known))
    steps = tuple(step_of(step) for step in records.steps(connection, known, most))
    waits = tuple(wait_of(wait) for wait in records.waits(connection, known, most))
    lines = {(step.node, step.visit): step.line for step in steps}
    edges = tuple(edge_of(edge, document, lines) for edge in records.edges(connection, known, most))
    listing = nodes_with_items(document)
    children = tuple(
        child_of(child, listing) for child in records.children(connection, known, most)
    )
    unapplied = commands_of(settings).unapplied(connection, known, min(most, MAX_COMMANDS))
    stop = None
    if row.status in STOPPED:
        stop = records.stop(connection, known, row.status)
    kept = kept_of(settings)
    signals = kept.signals(connection, known, min(most, MAX_COMMANDS))
    effects = kept.effects(connection, known, most)
    return InstanceView(
        **summary_of(row),
        name=row.name,
        checksum=row.checksum,
        trigger_type=row.trigger_type,
        trigger_key=row.trigger_key,
        trigger_payload=None if row.trigger_payload is None else orjson.loads(row.trigger_payload),
        actor_mode=row.actor_mode,
        starter=reference_of(row.starter_type, row.starter_id),
        waiting_for=waiting_for(row.status, steps, waits, children, document),
        steps=steps,
        waits=waits,
        edges=edges,
        parent=row.parent,
        stopped=None if stop is None else stop_of(stop),
        children=children,
        commands=tuple(inbox_of(command) for command in unapplied),
        signals=tuple(signal_of(signal) for signal in signals),
        effects=tuple(effect_of(effect) for effect in effects),
        branches=branches_of(document),
    )


def status_of(joined: Joined, settings: Settings, ulid: str) -> str:
    """Returns an instance's status; the cheapest look at one.

    Raises:
        InvalidInput: Not a ULID (``invalid_ulid``).
        NotFound: ``instance_not_found``.
    """
    known = accept_ulid(ulid)
    status = overviews_of(settings).status(connection_of(joined), known)
    if status is None:
        raise no_instance(known)
    return status


def list_instances(
    joined: Joined,
    settings: Settings,
    *,
    key: str | None = None,
    status: str | None = None,
    owner: RefLike | None = None,
    subject: RefLike | None = None,
    parent: str | None = None,
    top: bool = False,
    since: datetime | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[InstanceSummary]:
    """Returns instances, newest first, that fit all filters given.

    Args:
        joined: An open connection or session.
        settings: Names and key types.
        key: The definition's key, of any owner.
        status: An InstanceStatus.
        owner: Whose instances.
        subject: What they are about.
        parent: The ulid of the instance that has started them.
        top: Only those that no instance has started.
        since: Created at this time or later; with a time zone.
        limit: Items of a page, 1 to 1,000.
        cursor: ``next`` of the page before.

    Raises:
        InvalidInput: A filter cannot be used (``invalid_filter``, ``invalid_reference``,
            ``invalid_ulid``).
        NotFound: ``instance_not_found``: there is no such parent.
    """
    if status is not None and status not in INSTANCE_STATUSES:
        raise _wrong_filter(
            f"status must be one of {', '.join(INSTANCE_STATUSES)}, not {status!r:.80}"
        )
    if since is not None and not _is_moment(since):
        raise _wrong_filter("since must be a datetime with a time zone: 2026-01-31T08:00:00Z")
    if not _is_number(limit, MAX_PAGE):
        raise _wrong_filter(f"a page has 1 to {MAX_PAGE} items, not {limit!r:.80}")
    if key is not None and not is_printable(key, MAX_KEY):
        raise _wrong_filter(f"{key!r:.80} is not the key of a definition")
    given: object = top
    if not isinstance(given, bool):
        raise _wrong_filter(f"top is True or False, not {given!r:.80}")
    owned = as_ref(owner, "owner", settings.owner_key_type)
    about = as_ref(subject, "subject", settings.subject_key_type)
    filters = {
        "key": key,
        "status": status,
        "since": since,
        "parent": None if parent is None else accept_ulid(parent),
        "top": top or None,
        "before": None if cursor is None else _cursor(cursor),
        **columns_of(owned, "owner"),
        **columns_of(about, "subject"),
    }
    rows = overviews_of(settings).page(connection_of(joined), filters, limit + 1)
    if not rows and parent is not None:
        status_of(joined, settings, parent)
    items = tuple(InstanceSummary(**summary_of(row)) for row in rows[:limit])
    return Page(items, items[-1].ulid if len(rows) > limit else None)


def accept_most(most: Any) -> None:
    """Checks how many parts of a timeline are wanted.

    Raises:
        InvalidInput: ``invalid_filter``.
    """
    if not _is_number(most, MAX_TIMELINE):
        raise _wrong_filter(f"a timeline has 1 to {MAX_TIMELINE} parts of a kind, not {most!r:.80}")


def accept_ulid(value: Any) -> str:
    """Returns the ULID as it is stored: in upper case, however it was typed.

    Everything that comes in from outside goes through here.

    Raises:
        InvalidInput: ``invalid_ulid``.
    """
    try:
        return str(ULID.from_str(value))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(
            f"{value!r:.80} is not a ULID: 26 letters and digits, as `start` returned it",
            code="invalid_ulid",
        ) from None


def no_instance(ulid: str) -> NotFound:
    """The error for a ULID that no instance has."""
    return NotFound(
        f"no instance has the ulid {ulid}; was it pruned, or is this another database?",
        code="instance_not_found",
        ulid=ulid,
    )


def _is_number(value: Any, most: int) -> bool:
    return isinstance(value, int) and 1 <= value <= most


def _is_moment(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _cursor(value: str) -> str:
    try:
        return accept_ulid(value)
    except InvalidInput:
        raise _wrong_filter(f"{value!r:.80} is not the cursor of a page") from None


def _wrong_filter(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_filter")
