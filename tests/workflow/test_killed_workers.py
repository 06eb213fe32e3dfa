"""Workers that die, by others' hands or by their handlers', with queued steps under way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import eventually_async
from tests.execution.runtime import action, chain, graph
from tests.workflow.processes import Workers
from tests.workflow.test_queued_steps import attempts, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from adapter.services.views import InstanceView
    from tests.workflow.system import System

LONG = """
@adapter.action("long", timeout=60)
def long(ctx) -> int:
    log("began")
    while not os.path.exists("go") and not ctx.cancelled.wait(0.05):
        pass
    log("asked" if ctx.cancelled.is_set() else "ended")
    return os.getpid()
"""
KILLER = """
@adapter.action("killer")
def killer() -> None:
    log("killer")
    time.sleep(0.3)
    os._exit(9)

@adapter.action("innocent")
def innocent() -> int:
    log("innocent")
    time.sleep(1)
    log("innocent-ended")
    return os.getpid()
"""


@pytest.fixture
def workers(system: System, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(system, tmp_path, {"WORKER__LEASE": "PT5S"})
    workers.module("long", LONG)
    workers.module("killer", KILLER)
    workers.module("nothing", "")
    for name in ("long", "killer", "innocent"):
        system.almanac.registry.action(name, timeout=60 if name == "long" else None)(lambda: None)
    yield workers
    workers.close()


async def test_a22_a_killed_workers_step_goes_on_elsewhere_when_its_lease_is_over(
    system: System, workers: Workers
) -> None:
    first = workers.start("long")
    ulid = await started(system, chain(action("one", "long"), action("two", "long")))
    await workers.wrote("began")
    workers.start("long")
    await workers.up(2)
    first.kill()
    killed = time.monotonic()
    await workers.wrote("began", 2)
    took = time.monotonic() - killed
    (workers.directory / "go").touch()
    view = await system.ended(ulid)

    assert took < 14
    assert (view.status, attempts(view, "one")) == ("completed", ["lost", "succeeded"])
    assert workers.log() == ["began", "began", "ended", "began", "ended"]


async def test_a17b_sigterm_hands_a_queued_step_back_at_once(
    system: System, workers: Workers
) -> None:
    workers.settings["WORKER__GRACE"] = "PT0.2S"
    first = workers.start("long")
    ulid = await started(system, chain(action("one", "long")))
    await workers.wrote("began")
    workers.start("long")

    await workers.up(2)
    began = time.monotonic()
    took = workers.stop(first)
    await workers.wrote("began", 2)
    handed = time.monotonic() - began
    (workers.directory / "go").touch()
    view = await system.ended(ulid)

    assert took < 5
    assert handed < 5
    assert workers.log() == ["began", "asked", "began", "ended"]
    assert attempts(view, "one") == ["lost", "succeeded"]


async def test_a21_an_inline_step_goes_to_the_worker_that_has_its_handler(
    system: System, workers: Workers
) -> None:
    workers.start("nothing")
    ulid = await started(system, chain(action("one", "innocent")))

    async def scheduled() -> None:
        view: InstanceView = await system.call(system.almanac.show, ulid)
        assert attempts(view, "one") == ["scheduled"]

    await eventually_async(scheduled, 20)
    workers.start("killer")
    assert (await system.ended(ulid)).status == "completed"
    assert "no handler for action 'innocent' here" in workers.err(0)
    assert workers.err(0).count("no handler for action") == 1


async def test_a22_a_handler_that_kills_its_workers_fails_alone(
    system: System, workers: Workers
) -> None:
    both: dict[str, Any] = {
        "id": "both",
        "type": "parallel",
        "config": {"branches": {"bad": "k", "good": "i"}, "on_failure": "finish"},
    }
    ends = {"id": "ends", "type": "end", "config": {}}
    document = graph(
        both,
        action("k", "killer"),
        action("i", "innocent"),
        ends,
        edges=[("trigger", "both"), {"from": "both", "to": "ends", "on": "failure"}],
    )
    ulid = await started(system, document)

    def running() -> list[Any]:
        return [worker for worker in workers.started if worker.poll() is None]

    async def ended() -> InstanceView:
        if not running():
            workers.start("killer")
        view: InstanceView = await system.call(system.almanac.show, ulid)
        assert view.status == "completed", attempts(view, "k")
        return view

    view = await eventually_async(ended, 90)
    assert attempts(view, "k")[-1] == "lost"
    assert attempts(view, "i")[-1] == "succeeded"
    assert [step.error_code for step in view.steps if step.node == "k"][-1] == "worker_lost"
    assert len(workers.started) <= 5
