"""The names under which Temporal knows Almanac's executions."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

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


def ulid_of(workflow_id: str) -> str | None:
    """The instance of an execution; None when it is not an instance's."""
    found = _OURS.fullmatch(workflow_id)
    return None if found is None else found[1]


_OURS: Final = re.compile(r"wf:([0-7][0-9A-HJKMNP-TV-Z]{25})")
