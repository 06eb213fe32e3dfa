"""Executions of all recorded versions go on under this version's driver."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from temporal_workflows import driver
from temporal_workflows.driver import InstanceDriver
from tests.upgrades.other_drivers import EndDriver, TimerDriver
from tests.upgrades.recorded import histories, versions

if TYPE_CHECKING:
    from temporalio.worker import WorkflowRunner

RUNNERS = {"sandboxed": SandboxedWorkflowRunner, "unsandboxed": UnsandboxedWorkflowRunner}
RUNS = [(number, name) for number in versions() for name in histories(number)]


async def replay(
    number: str, name: str, runner: WorkflowRunner, workflow_type: type = InstanceDriver
) -> None:
    history = WorkflowHistory.from_json(f"{number}/{name}", _text(number, name))
    replayer = Replayer(
        workflows=[workflow_type], workflow_runner=runner, build_id="upgrades", namespace="default"
    )
    await replayer.replay_workflow(history)


@cache
def _text(number: str, name: str) -> str:
    return histories(number)[name]


def events(number: str, kind: str) -> list[dict[str, Any]]:
    """The attributes of all events of a kind in the runs of a version."""
    return [
        event[kind]
        for name in histories(number)
        for event in json.loads(_text(number, name))["events"]
        if kind in event
    ]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("number", "name"), RUNS)
async def test_a_recorded_run_takes_the_same_path_again(
    number: str, name: str, runner: str
) -> None:
    await replay(number, name, RUNNERS[runner]())


def test_this_version_is_recorded() -> None:
    assert versions()[-1] == version("temporal-almanac")


def test_the_newest_recording_has_everything_that_a_driver_does() -> None:
    newest = versions()[-1]
    for kind in (
        "activityTaskScheduledEventAttributes",
        "activityTaskCompletedEventAttributes",
        "activityTaskCancelRequestedEventAttributes",
        "timerStartedEventAttributes",
        "timerFiredEventAttributes",
        "timerCanceledEventAttributes",
        "workflowExecutionSignaledEventAttributes",
        "workflowExecutionContinuedAsNewEventAttributes",
        "workflowExecutionCompletedEventAttributes",
        "workflowTaskFailedEventAttributes",
        "markerRecordedEventAttributes",
    ):
        assert events(newest, kind), kind
    continued = events(newest, "workflowExecutionContinuedAsNewEventAttributes")
    assert {len(one["input"]["payloads"]) for one in continued} == {1, 2}
    timers = {one["startToFireTimeout"] for one in events(newest, "timerStartedEventAttributes")}
    assert {"0.001s", "1s", "2s"} <= timers


@pytest.mark.parametrize("other", [TimerDriver, EndDriver])
@pytest.mark.parametrize("runner", RUNNERS)
async def test_a_driver_that_does_something_else_does_not_pass(other: type, runner: str) -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replay(versions()[-1], "queued-1", RUNNERS[runner](), other)


@pytest.mark.parametrize(
    ("name", "constant", "value"),
    [
        ("queued-1", "STEP_ACTIVITY", "almanac.other"),
        ("queued-1", "TURN_ACTIVITY", "almanac.other"),
        ("many-1", "MAX_EVENTS", 10),
        ("steps-1", "TURNS_IN_A_TASK", 1_000),
    ],
)
async def test_a_constant_that_decides_about_commands_does_not_pass_when_it_changes(
    name: str, constant: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, constant, value)

    with pytest.raises(workflow.NondeterminismError):
        await replay(versions()[-1], name, UnsandboxedWorkflowRunner())


async def test_a_constant_that_only_bounds_something_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "STEP_SILENCE", timedelta(seconds=50))

    await replay(versions()[-1], "queued-1", UnsandboxedWorkflowRunner())
