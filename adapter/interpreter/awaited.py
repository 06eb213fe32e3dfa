"""Waits for instances: which have ended, whether that is enough, and what they came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import entries as kinds
from .events import Failure
from .joining import Join
from .needs import Needs, ValuesNeeded
from .settling import end_wait, fail_wait

if TYPE_CHECKING:
    from adapter.graph.compiled import CompiledNode

    from .children import Ended
    from .draft import Draft
    from .state import Wait


def settle_instances(draft: Draft, node: CompiledNode, wait: Wait) -> None:
    """Notes the instances that have ended, and fires the wait when enough of them have."""
    for ulid in wait.instances:
        ended = draft.env.ended.get(ulid)
        if ulid in wait.statuses or ended is None:
            continue
        if ended.status == "unknown":
            message = f"{node.id!r} waits for {ulid!r}, but no instance has that ulid"
            fail_wait(draft, node, wait, Failure("wait_unsatisfiable", message, retryable=False))
            return
        data = {"wait": wait.id, "child": ulid, "status": ended.status}
        draft.emit(kinds.WAIT_ADVANCED, node.id, None, data)
        wait = draft.state.waits[wait.id]
    decide_instances(draft, node, wait)


def decide_instances(draft: Draft, node: CompiledNode, wait: Wait) -> None:
    """Fires or fails the wait if what has ended is enough for that."""
    succeeded = sum(status == "completed" for status in wait.statuses.values())
    failed = len(wait.statuses) - succeeded
    decided = Join.of(node).verdict(len(wait.instances), succeeded, failed)
    if decided is None:
        return
    if decided == kinds.SUCCESS:
        output = _output(draft, node, wait)
        end_wait(draft, node, wait, kinds.WAIT_FIRED, kinds.SUCCESS, output)
        return
    bad = next((u for u, status in wait.statuses.items() if status != "completed"), None)
    code = "child_failed" if wait.children else "wait_unsatisfiable"
    status = "" if bad is None else wait.statuses[bad]
    message = f"{failed} of the {len(wait.instances)} instances that {node.id!r} waits for did not"
    message += f" complete, the first one {bad} ({status}); see there"
    fail_wait(draft, node, wait, Failure(code, message, retryable=False))


def _output(draft: Draft, node: CompiledNode, wait: Wait) -> Any:
    config: Any = node.config
    ended = {ulid: draft.env.ended.get(ulid) for ulid in wait.statuses}
    missing = frozenset(ulid for ulid, found in ended.items() if found is None or not found.read)
    if missing:
        raise ValuesNeeded(Needs(instances=missing))
    found = [_told(ulid, wait, ended.get(ulid)) for ulid in wait.instances]
    size = sum(0 if one is None else one.size for one in ended.values())
    cut = size > draft.env.bounds.max_output_bytes
    if cut:
        found = [{**one, "output": None} for one in found]
    if not wait.children:
        return {"instances": found, **({"cut": True} if cut else {})}
    if config.items is None:
        return {**found[0], **({"cut": True} if cut else {})}
    succeeded = sum(one["status"] == "completed" for one in found)
    failed = len(wait.statuses) - succeeded
    return {
        "results": found,
        "succeeded": succeeded,
        "failed": failed,
        "cancelled": len(found) - succeeded - failed,
        **({"cut": True} if cut else {}),
    }


def _told(ulid: str, wait: Wait, ended: Ended | None) -> dict[str, Any]:
    status = wait.statuses.get(ulid, "cancelled" if wait.children else "running")
    return {"ulid": ulid, "status": status, "output": None if ended is None else ended.output}
