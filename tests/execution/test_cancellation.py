import threading
from concurrent.futures import ThreadPoolExecutor

from adapter.execution.cancellation import Cancellation


def test_who_waits_is_woken_when_it_is_set() -> None:
    cancelled = Cancellation()
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(cancelled.wait, 30) for _ in range(4)]
        cancelled.set()
        assert [one.result(30) for one in waiting] == [True] * 4
    assert cancelled.is_set()
    assert cancelled.wait(0)


def test_waiting_ends_with_the_time() -> None:
    cancelled = Cancellation()
    assert not cancelled.wait(0.001)
    assert not cancelled.is_set()


def test_no_wake_up_is_lost_between_threads() -> None:
    for _ in range(500):
        cancelled, start = Cancellation(), threading.Barrier(2)

        def wait(cancelled: Cancellation = cancelled, start: threading.Barrier = start) -> bool:
            start.wait()
            return cancelled.wait(30)

        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(wait)
            start.wait()
            cancelled.set()
            assert waiting.result(30)
