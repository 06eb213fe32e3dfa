from __future__ import annotations

from datetime import UTC, datetime

from examples.permits.cases import Case
from examples.permits.feed import ROWS, STARTS, batches, payloads
from examples.permits.log import Row

AT = datetime(2024, 3, 1, 9, tzinfo=UTC)


def _case(name: str, rows: int, more: dict[str, str] | None = None) -> Case:
    return Case(name, [Row(seq, name, f"step {seq}", AT, "Ann", more or {}) for seq in range(rows)])


def test_a_payload_has_the_columns_of_the_log_and_three_marks() -> None:
    (payload,) = payloads(_case("c", 1, {"channel": "web"}), "r1")

    assert payload == {
        "case": "c",
        "activity": "step 0",
        "timestamp": "2024-03-01T09:00:00+00:00",
        "resource": "Ann",
        "channel": "web",
        "run": "r1",
        "seq": 1,
        "last": True,
    }


def test_rows_are_numbered_and_only_the_last_one_is_the_last() -> None:
    marks = [(payload["seq"], payload["last"]) for payload in payloads(_case("c", 3), "r1")]

    assert marks == [(1, False), (2, False), (3, True)]


def test_a_case_that_stays_open_has_no_last_row() -> None:
    assert not any(payload["last"] for payload in payloads(_case("c", 3), "r1", is_open=True))


def test_a_column_that_is_called_like_a_mark_is_kept_under_another_name() -> None:
    (payload,) = payloads(_case("c", 1, {"last": "no", "seq": "7", "seq_": "8"}), "r1")

    assert (payload["last"], payload["last_"]) == (True, "no")
    assert (payload["seq"], payload["seq_"], payload["seq__"]) == (1, "8", "7")


def test_batches_keep_the_order_and_leave_nothing_out() -> None:
    cases = [_case(str(number), 1) for number in range(2 * STARTS + 1)]

    found = list(batches(cases))

    assert [case for batch in found for case in batch] == cases
    assert [len(batch) for batch in found] == [STARTS, STARTS, 1]


def test_a_batch_ends_with_the_case_that_fills_it() -> None:
    found = list(batches([_case("long", ROWS + 5), _case("a", 2), _case("b", 2)]))

    assert [[case.name for case in batch] for batch in found] == [["long"], ["a", "b"]]


def test_no_cases_make_no_batch() -> None:
    assert list(batches([])) == []
