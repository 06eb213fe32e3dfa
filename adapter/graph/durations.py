"""ISO 8601 durations and RFC 3339 times, read strictly and written in one form.

Years and months are refused: they have no fixed length. Fractions of a second are kept to the
microsecond.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

MAX_DURATION: Final = timedelta(days=36_500)

_DURATION = re.compile(
    r"P(?:(?P<weeks>\d{1,6})W"
    r"|(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:[.,](?P<fraction>\d{1,9}))?S)?)?)",
    re.ASCII,
)
_CALENDAR = re.compile(r"P(?:\d+[YMWD])*\d+[YM]", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def parse_duration(text: str) -> timedelta:
    """Reads an ISO 8601 duration of weeks, or of days, hours, minutes and seconds.

    Raises:
        ValueError: Not such a duration, negative, with years or months, or above 36,500 days.
    """
    match = _DURATION.fullmatch(text)
    if match is None or text in ("P", "PT"):
        if _CALENDAR.match(text):
            raise ValueError(f"{text!r:.80} has years or months, which have no fixed length")
        raise ValueError(f"{text!r:.80} is not an ISO 8601 duration")
    parts = match.groupdict(default="0")
    fraction = int(parts.pop("fraction")[:6].ljust(6, "0"))
    try:
        duration = timedelta(
            **{unit: int(digits) for unit, digits in parts.items()}, microseconds=fraction
        )
    except OverflowError:
        duration = timedelta.max
    if duration > MAX_DURATION:
        raise ValueError(f"{text!r:.80} is longer than 36,500 days")
    return duration


def format_duration(duration: timedelta) -> str:
    """Writes a duration as ISO 8601: ``PT1H30M``, ``P2DT0.5S``, ``-PT1S``."""
    if duration < timedelta(0):
        return "-" + format_duration(-duration)
    hours, rest = divmod(duration.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    if duration.microseconds:
        text += f"{seconds}.{duration.microseconds:06d}".rstrip("0") + "S"
    elif seconds:
        text += f"{seconds}S"
    days = f"{duration.days}D" * bool(duration.days)
    if not text:
        return f"P{days}" if days else "PT0S"
    return f"P{days}T{text}"


def parse_time(text: str) -> datetime:
    """Reads an RFC 3339 time, offset required, as an aware UTC datetime.

    Raises:
        ValueError: Not such a time, or outside the years 1 to 9999.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is not an RFC 3339 time with an offset")
    date, clock, fraction, offset = match.groups()
    offset = "+00:00" if offset in "Zz" else offset
    micros = (fraction or "0")[:6].ljust(6, "0")
    try:
        return datetime.fromisoformat(f"{date}T{clock}.{micros}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r:.80} is not an RFC 3339 time: {error}") from None


def format_time(time: datetime) -> str:
    """Writes an aware datetime in UTC: ``2026-05-04T10:00:00Z``, microseconds if there are any."""
    utc = time.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat() + "Z"
