from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from examples.permits.cases import Activity, Cases
from examples.permits.log import Row

START = datetime(2024, 3, 1, tzinfo=UTC)


def _row(line: int, case: str, activity: str, minute: int) -> Row:
    return Row(line, case, activity, START + timedelta(minutes=minute), "Ann", {"line": str(line)})


def _log(*rows: tuple[str, str, int]) -> list[Row]:
    return [_row(line, *row) for line, row in enumerate(rows, start=2)]


def test_the_rows_of_a_case_come_by_time_and_then_as_in_the_file() -> None:
    with Cases(
        _log(("c", "late", 9), ("c", "one", 1), ("c", "two", 1), ("c", "first", 0))
    ) as cases:
        (case,) = cases

    assert [row.activity for row in case.rows] == ["first", "one", "two", "late"]


def test_a_case_begins_when_its_first_row_did() -> None:
    with Cases(_log(("b", "x", 5), ("a", "x", 3), ("b", "x", 1), ("c", "x", 3))) as cases:
        assert [case.name for case in cases] == ["b", "a", "c"]


def test_rows_come_back_as_they_were_read() -> None:
    rows = _log(("c", "許可", 1), ("c", "b", 2))
    with Cases(rows) as cases:
        (case,) = cases

    assert case.rows == rows


def test_times_of_several_offsets_are_ordered_by_instant() -> None:
    early, late = (
        datetime.fromisoformat(f"2024-03-01T{time}") for time in ("09:30+02:00", "08:00Z")
    )
    rows = [Row(2, "c", "late", late, "", {}), Row(3, "c", "early", early, "", {})]
    with Cases(rows) as cases:
        (case,) = cases

    assert [row.activity for row in case.rows] == ["early", "late"]


def test_the_size_of_a_log_is_known() -> None:
    with Cases(_log(("a", "x", 1), ("b", "x", 1), ("b", "y", 2))) as cases:
        assert (cases.count, cases.events, cases.longest()) == (2, 3, ("b", 2))


def test_activities_tell_how_often_they_begin_and_end_a_case() -> None:
    with Cases(
        _log(("a", "x", 1), ("a", "y", 2), ("b", "x", 1), ("c", "y", 0), ("c", "y", 1))
    ) as cases:
        assert cases.activities() == [Activity("x", 2, 2, 1), Activity("y", 3, 1, 2)]


def test_the_newest_cases_are_those_in_which_something_happened_last() -> None:
    with Cases(_log(("a", "x", 1), ("b", "x", 2), ("c", "x", 0), ("a", "x", 9))) as cases:
        assert cases.newest(2) == {"a", "b"}
        assert cases.newest(0) == frozenset()


LOGS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 5)), min_size=1
)


@given(LOGS)
def test_follows_counts_each_pair_of_neighbours(log: list[tuple[str, str, int]]) -> None:
    expected: Counter[tuple[str | None, str | None]] = Counter()
    for name in {case for case, _, _ in log}:
        ordered = sorted((row for row in log if row[0] == name), key=lambda row: row[2])
        steps = [None, *(activity for _, activity, _ in ordered), None]
        expected.update(pairwise(steps))

    with Cases(_log(*log)) as cases:
        assert cases.follows() == expected
        assert cases.events == len(log)
        assert sum(len(case.rows) for case in cases) == len(log)
