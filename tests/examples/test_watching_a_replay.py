from __future__ import annotations

from collections import Counter

import pytest

from adapter.errors import Unavailable
from examples.permits.compare import Difference, differences
from examples.permits.watch import Progress, wait_for_end


def _watched(*seen: Progress, rows: int = 10, closing: int = 2) -> list[Progress]:
    told: list[Progress] = []
    coming = iter(seen)
    end = wait_for_end(
        lambda: next(coming),
        told.append,
        rows=rows,
        closing=closing,
        advice=lambda: "Look at the worker.",
        patience=0,
    )
    assert told[-1] == end
    return told


def _progress(handled: int, *, moving: int = 0, ended: int = 0, failed: int = 0) -> Progress:
    return Progress(handled, moving, ended, failed, "no_edge at route: " if failed else None)


def test_a_replay_is_over_when_all_rows_are_handled_and_the_cases_are_closed() -> None:
    told = _watched(
        _progress(4, moving=2),
        _progress(10, moving=1, ended=1),
        _progress(10, ended=2),
    )

    assert [progress.ended for progress in told] == [0, 1, 2]


def test_cases_that_stay_open_must_have_come_to_rest() -> None:
    told = _watched(_progress(10, moving=1), _progress(10), closing=0)

    assert len(told) == 2


def test_rows_of_failed_cases_are_not_waited_for() -> None:
    assert _watched(_progress(7, ended=2, failed=1))[-1].failed == 1


def test_a_replay_in_which_nothing_moves_is_given_up() -> None:
    with pytest.raises(Unavailable, match=r"4 of 10 rows .* 1 of 2 cases .* Look at the worker\."):
        _watched(_progress(4, ended=1), _progress(4, ended=1))


def test_differences_tell_both_counts_and_begin_with_the_largest() -> None:
    in_log = Counter({(None, "a"): 9, ("a", "b"): 5, ("b", None): 4})
    in_tables = Counter({(None, "a"): 9, ("a", "b"): 4, ("b", None): 1, ("b", "a"): 1})

    assert differences(in_log, in_tables) == [
        Difference("b", None, 4, 1),
        Difference("a", "b", 5, 4),
        Difference("b", "a", 0, 1),
    ]


def test_equal_counts_have_no_differences() -> None:
    assert differences(Counter({("a", "b"): 2}), Counter({("a", "b"): 2, ("b", "a"): 0})) == []
