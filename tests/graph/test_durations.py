from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.graph.durations import format_duration, format_time, parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0S", timedelta()),
        ("PT1S", timedelta(seconds=1)),
        ("PT1.5S", timedelta(seconds=1.5)),
        ("PT0,25S", timedelta(milliseconds=250)),
        ("PT90M", timedelta(minutes=90)),
        ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("P2W", timedelta(weeks=2)),
        ("P36500D", timedelta(days=36_500)),
        ("PT0.123456789S", timedelta(microseconds=123_456)),
    ],
)
def test_durations_are_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "1h", "PT1", "-PT1S", "P1W2D", "PT1S1M", "pt1s", "PT1S ", "PT\u0661S"],
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not an ISO 8601 duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P1Y", "P1M", "P1Y2D", "P2MT1H", "P1Y1M1D"])
def test_years_and_months_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="years or months"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P36501D", "P999999W", "PT999999999H", "PT999999999999S"])
def test_durations_beyond_a_century_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="36,500 days"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-04T10:00:00Z", datetime(2026, 5, 4, 10, tzinfo=UTC)),
        ("2026-05-04t12:00:00+02:00", datetime(2026, 5, 4, 10, tzinfo=UTC)),
        ("2026-05-04 10:00:00.1234567z", datetime(2026, 5, 4, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("2024-02-29T23:30:00-01:00", datetime(2024, 3, 1, 0, 30, tzinfo=UTC)),
    ],
)
def test_times_are_read_as_utc(text: str, expected: datetime) -> None:
    assert parse_time(text) == expected
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-05-04",
        "2026-05-04T10:00:00",
        "2026-05-04T10:00Z",
        "2026-02-30T10:00:00Z",
        "2026-05-04T24:00:00Z",
        "2026-05-04T10:00:60Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "2026-05-04T10:00:00+99:00",
    ],
)
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        parse_time(text)


@given(st.timedeltas(timedelta(), timedelta(days=36_500)))
def test_a_written_duration_is_read_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "PT0S"),
        (timedelta(days=2), "P2D"),
        (timedelta(days=2, microseconds=500_000), "P2DT0.5S"),
        (timedelta(hours=25, minutes=1), "P1DT1H1M"),
        (timedelta(seconds=-90), "-PT1M30S"),
    ],
)
def test_durations_are_written_in_one_form(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_written_time_is_read_back(time: datetime) -> None:
    assert parse_time(format_time(time)) == time
