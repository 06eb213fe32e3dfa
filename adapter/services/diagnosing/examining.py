"""The examination: all checks in order, what stops none of them, and what ``--fix`` does."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from adapter.errors import AlmanacError, Misconfigured, Unavailable
from adapter.records.health import Examined
from adapter.services.diagnosing.asking import Asking
from adapter.services.diagnosing.check import DATABASE, SAMPLES, TEMPORAL, Check, Find, Found
from adapter.services.diagnosing.examination import CALL, STATEMENT, Examination
from adapter.services.diagnosing.registry import all_checks
from adapter.services.diagnosing.report import Finding, Fix, Report, Unseen, status_of
from adapter.services.faults import database_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapter.services.diagnosing.asking import Opener
    from adapter.settings import Settings

SETTLING: Final = 10.0
"""Seconds that workers are left to act on what a fix has told them."""

LOOK_AGAIN: Final = 1.0

NOBODY: Final = "workers_missing"
"""Found where there is nobody whom a fix could make go on."""


def diagnose(
    settings: Settings,
    *,
    fix: bool = False,
    clock: Callable[[], float] = time.time,
    opener: Opener | None = None,
) -> Report:
    """Examines an Almanac; raises nothing for what is wrong with it.

    Args:
        settings: Name its servers.
        fix: Mends what can be mended without a decision of anybody's, up to 1,000 instances for
            each finding; may be repeated.
        clock: This process's, as seconds since 1970.
        opener: Connects to the engine; by default to Temporal.
    """
    before, found = _examine(settings, clock, opener, all_checks())
    if not fix or not found:
        return before
    with ExitStack() as opened:
        examination, down = _open(opened, settings, clock, opener)
        fixes = tuple(
            _mend(examination, check, what)
            for check, what in found
            if check.mend is not None and examination is not None and not check.needs & down.keys()
        )
    mended = {one.code for one in fixes if not one.failed}
    until = time.monotonic() + SETTLING
    while True:
        after, _ = _examine(settings, clock, opener, all_checks())
        left = {one.code for one in after.findings}
        if not left & mended or NOBODY in left or time.monotonic() > until:
            break
        time.sleep(LOOK_AGAIN)
    return Report(after.status, after.at, after.checked, after.findings, after.unseen, fixes)


def _examine(
    settings: Settings,
    clock: Callable[[], float],
    opener: Opener | None,
    checks: Iterable[Check],
) -> tuple[Report, list[tuple[Check, Found]]]:
    findings: list[Finding] = []
    unseen: list[Unseen] = []
    checked: list[str] = []
    found: list[tuple[Check, Found]] = []
    now = datetime.fromtimestamp(clock(), UTC)
    with ExitStack() as opened:
        examination, down = _open(opened, settings, clock, opener)
        for check in checks:
            what: Found | AlmanacError | str | None
            if check.find is None:
                told_by = down.get(check.provides or "")
                what = None if told_by is None else Found(told=_sentence(told_by))
            elif missing := sorted(check.needs & down.keys()):
                what = f"needs what cannot be had: {', '.join(missing)}"
            else:
                assert examination is not None
                what = _look(examination, check.find)
            if isinstance(what, AlmanacError):
                unseen.append(Unseen(check.code, what.message, failed=True))
                if what.code == "database_unavailable":
                    down.setdefault(DATABASE, what.message)
            elif isinstance(what, str):
                unseen.append(Unseen(check.code, what, failed=False))
            else:
                checked.append(check.code)
                if what is not None:
                    found.append((check, what))
                    findings.append(_finding(check, what, now))
                    if check.provides is not None:
                        down.setdefault(check.provides, what.told)
    findings.sort(key=lambda one: one.severity)
    told, not_seen = tuple(findings), tuple(unseen)
    status = status_of(told, not_seen)
    return Report(status, now, tuple(sorted(checked)), told, not_seen), found


def _open(
    opened: ExitStack, settings: Settings, clock: Callable[[], float], opener: Opener | None
) -> tuple[Examination | None, dict[str, str]]:
    """Connects to both servers; what cannot be reached, and why."""
    down: dict[str, str] = {}
    database: Examined | None = None
    engine: Asking | None = None
    try:
        database = Examined(settings, STATEMENT)
        opened.callback(database.close)
        with database_faults():
            database.rows("SELECT 1")
    except (Misconfigured, Unavailable) as error:
        down[DATABASE] = error.message
    try:
        engine = opened.enter_context(Asking(settings, CALL, opener))
    except (Misconfigured, Unavailable) as error:
        down[TEMPORAL] = error.message
    if database is None:
        return None, down
    return Examination(settings, database, engine, clock), down


def _look(examination: Examination, find: Find) -> Found | AlmanacError | None:
    try:
        with database_faults():
            return find(examination)
    except AlmanacError as error:
        return error


def _mend(examination: Examination, check: Check, found: Found) -> Fix:
    assert check.mend is not None
    try:
        with database_faults():
            return Fix(check.code, check.mend(examination, found))
    except AlmanacError as error:
        return Fix(check.code, error.message, failed=True)


def _finding(check: Check, found: Found, now: datetime) -> Finding:
    age = None
    if found.oldest_at is not None:
        age = max(round((now - found.oldest_at).total_seconds(), 1), 0.0)
    grown = check.grows is not None and age is not None and age > check.grows
    return Finding(
        code=check.code,
        severity="error" if grown else check.severity,
        count=max(len(found.ids), 1),
        at_least=found.at_least,
        oldest_at=found.oldest_at,
        age=age,
        samples=found.ids[:SAMPLES],
        meaning=f"{check.meaning} {found.told}".strip(),
        command=_command(check.command, found),
        fixable=check.mend is not None,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _command(command: str, found: Found) -> str:
    """The command with the instances that it is for: all of them if they are few."""
    few: Sequence[str] = found.ids if len(found.ids) <= SAMPLES else ()
    if "rebuild ULID" in command:
        return command.replace("ULID", " ".join(few) if few else "--all")
    return command.replace("ULID", few[0]) if len(few) == 1 else command
