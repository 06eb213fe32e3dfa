from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ulid import ULID

from adapter.errors import InvalidInput, NotFound, Unavailable
from adapter.services.rebuilding import rebuild, rebuild_all
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from tests.doctor.patient import Patient


async def test_all_executions_that_are_lost_or_terminated_come_back_and_no_step_is_repeated(
    patient: Patient,
) -> None:
    calls: list[int] = []

    @patient.system.almanac.registry.action("count")
    async def count() -> None:
        calls.append(1)

    settings, told = patient.system.settings, []
    async with patient.quiet():
        ulids = [await patient.waiting(action("a", "count")) for _ in range(6)]
        ended = await patient.started(chain(action("a", "echo")))
        await patient.reached(ended, "completed")
        for ulid in ulids[:3]:
            await patient.forget(ulid)
        for ulid in ulids[3:5]:
            await patient.terminate(ulid)

        done = await asyncio.to_thread(
            rebuild_all, settings, progress=lambda *counted: told.append(counted)
        )
        assert (done.unfinished, done.open, done.poked, done.refused) == (6, 1, 5, ())
        assert told == [(6, 6)]

        async def nothing_left() -> None:
            again = await asyncio.to_thread(rebuild_all, settings)
            assert (again.unfinished, again.open, again.poked) == (6, 6, 0)

        await eventually_async(nothing_left, 30)
        for ulid in ulids:
            await patient.signal(ulid)
            await patient.engine.poke(ulid)
        for ulid in ulids:
            await patient.reached(ulid, "completed")
    assert len(calls) == len(ulids)


async def test_named_instances_are_poked_unless_they_have_ended(patient: Patient) -> None:
    settings = patient.system.settings
    async with patient.quiet():
        waiting = await patient.waiting()
        ended = await patient.started(chain(action("a", "echo")))
        await patient.reached(ended, "completed")
        done = await asyncio.to_thread(rebuild, settings, [waiting.lower(), ended, waiting])
    assert (done.unfinished, done.poked, done.ended) == (1, 1, (ended,))


async def test_what_cannot_be_rebuilt_is_refused_before_anything_is_done(patient: Patient) -> None:
    settings = patient.system.settings
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.forget(ulid)
        for wrong, error in ((str(ULID()), NotFound), ("x", InvalidInput)):
            with pytest.raises(error):
                await asyncio.to_thread(rebuild, settings, [ulid, wrong])
        assert await patient.executions.describe(ulid) is None
        down = settings.model_copy(update={"temporal_address": "127.0.0.1:1"})
        with pytest.raises(Unavailable):
            await asyncio.to_thread(rebuild, down, [ulid])
        with pytest.raises(Unavailable):
            await asyncio.to_thread(rebuild_all, down)
