"""The names under which Temporal knows Almanac's executions."""

from __future__ import annotations

from datetime import timedelta

WORKFLOW_TYPE = "almanac.instance"
LOOK_SIGNAL = "look"
DEFINITION_ATTRIBUTE = "AlmanacDefinition"
OWNER_ATTRIBUTE = "AlmanacOwner"
"""Search attributes of the type Keyword, for people who look for executions."""

TASK_TIMEOUT = timedelta(seconds=3)
"""A killed worker's running instances go on after this; heartbeats keep long turns alive."""


def workflow_id(ulid: str) -> str:
    """The id of an instance's execution."""
    return f"wf:{ulid}"
