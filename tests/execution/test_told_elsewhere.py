"""What one process has taken note of another one acts on, though it had looked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ulid import ULID

from tests.driving.turns import take_turn
from tests.execution.runtime import chain

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


async def test_an_event_of_which_another_process_was_told_in_a_pause_is_taken_afterwards(
    runtime: Runtime,
) -> None:
    key = f"told.{ULID()}".lower()
    wait = {"id": "ask", "type": "wait", "config": {"event": key}}
    ulid = await runtime.begun(chain(wait))
    first, second = runtime.process(), runtime.process()
    await take_turn(first, ulid)
    await runtime.tell(ulid, "pause", {})
    await runtime.deliver(ulid, await runtime.emit(key, {"n": 7}))
    assert (await take_turn(second, ulid)).status == "paused"
    await runtime.tell(ulid, "resume", {})
    assert (await take_turn(first, ulid)).status == "completed"


async def test_an_end_of_which_another_process_was_told_in_a_pause_is_noted_afterwards(
    runtime: Runtime,
) -> None:
    awaited = await runtime.begun(chain({"id": "hold", "type": "wait", "config": {"signal": "go"}}))
    wait = {"id": "w", "type": "wait_for", "config": {"instances": "${ trigger.other }"}}
    ulid = await runtime.begun(chain(wait), {"other": awaited})
    first, second = runtime.process(), runtime.process()
    await take_turn(first, awaited)
    await take_turn(first, ulid)
    await runtime.tell(ulid, "pause", {})
    await runtime.tell(awaited, "signal", {"name": "go", "payload": {}})
    assert (await take_turn(second, awaited)).status == "completed"
    assert (await take_turn(second, ulid)).status == "paused"
    await runtime.tell(ulid, "resume", {})
    assert (await take_turn(first, ulid)).status == "completed"
