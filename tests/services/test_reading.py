from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event

from adapter.errors import InvalidInput, NotFound, Unavailable
from adapter.execution.registry import Registry
from tests.services.graphs import document, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from tests.services.conftest import Rows

UNKNOWN = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"


def deciding() -> dict[str, Any]:
    over = {"field": "trigger.amount", "op": "gt", "value": 100}
    return document(
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "check", "type": "action", "config": {
                "action": "permits.check", "input": {"case": "${ trigger.case }"}}},
            {"id": "size", "type": "decision"},
            {"id": "kind", "type": "decision", "config": {"on": "${ trigger.kind }"}},
            {"id": "move", "type": "wait", "config": {
                "event": "permits.moved", "match": {"case": "${ trigger.case }"},
                "timeout": "P3D", "condition": "event.n > 1"}},
            {"id": "done", "type": "end"},
        ],
        edges=[
            {"from": "begin", "to": "check"},
            {"from": "check", "to": "size"},
            {"from": "size", "to": "kind", "when": over},
            {"from": "size", "to": "done"},
            {"from": "kind", "to": "move", "on": "fast"},
            {"from": "kind", "to": "done"},
            {"from": "move", "to": "done", "on": "success"},
        ],
    )  # fmt: skip


def run(almanac: Almanac, payload: Any) -> str:
    started = almanac.start("permits", payload)
    take_turns(almanac.settings, started.ulid, registry=almanac.registry)
    return started.ulid


def test_an_instance_is_shown_with_every_step_in_order(almanac: Almanac) -> None:
    almanac.publish(deciding())

    view = almanac.show(run(almanac, {"case": "A", "amount": 200, "kind": "slow"}))

    assert (view.status, view.ended, view.current_node) == ("completed", True, "done")
    assert [(step.node, step.type, step.status, step.outcome) for step in view.steps] == [
        ("begin", "trigger", "succeeded", "success"),
        ("check", "action", "succeeded", "success"),
        ("size", "decision", "succeeded", "success"),
        ("kind", "decision", "succeeded", "slow"),
        ("done", "end", "succeeded", "success"),
    ]
    assert (view.steps[1].input, view.steps[1].output) == ({"case": "A"}, True)
    assert view.waiting_for == ()
    assert view.failure is None


def test_every_edge_tells_why_it_was_taken(almanac: Almanac) -> None:
    almanac.publish(deciding())

    fast = almanac.show(run(almanac, {"case": "A", "amount": 200, "kind": "fast"}))
    small = almanac.show(run(almanac, {"case": "B", "amount": 5, "kind": "fast"}))

    assert [(edge.node, edge.to, edge.by, edge.why) for edge in fast.edges] == [
        ("begin", "check", "plain", "the only edge"),
        ("check", "size", "plain", "the only edge"),
        ("size", "kind", "condition", "its condition held: trigger.amount gt 100"),
        ("kind", "move", "outcome", 'the outcome was "fast"'),
    ]  # fmt: skip
    assert [(edge.node, edge.to, edge.why) for edge in small.edges[2:]] == [
        ("size", "done", "no other edge fitted: the plain one"),
        ("done", None, "nothing comes after it"),
    ]
    assert [edge.seq for edge in fast.edges] == sorted(edge.seq for edge in fast.edges)


def test_an_instance_tells_what_it_waits_for(almanac: Almanac) -> None:
    almanac.publish(deciding())
    pending = almanac.start("permits", {})

    view = almanac.show(run(almanac, {"case": "A", "amount": 200, "kind": "fast"}))

    (wait,) = view.waits
    assert wait.due_at is not None
    assert wait.due_at > wait.opened_at
    assert wait.as_json()["timeout_outcome"] == wait.timeout_outcome == "timed_out"
    until = wait.due_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert view.waiting_for == (
        f'event permits.moved with {{"case": "A"}} where event.n > 1 until {until} (move)',
    )
    assert almanac.show(pending.ulid).waiting_for == ("a worker that begins it",)


def test_a_step_without_a_handler_tells_which_one_it_waits_for(almanac: Almanac) -> None:
    almanac.publish(deciding())
    started = almanac.start("permits", {"case": "A"})

    take_turns(almanac.settings, started.ulid, registry=Registry())

    (told,) = almanac.show(started.ulid).waiting_for
    assert told.startswith("a worker that has a handler for permits.check (check)")


def test_a_failure_is_shown_with_its_code_and_node(almanac: Almanac) -> None:
    almanac.publish(deciding())

    view = almanac.show(run(almanac, {"amount": 1, "kind": "fast"}))

    assert view.status == "failed"
    assert view.failure is not None
    assert (view.failure.code, view.failure.node) == ("expression_failed", "check")
    assert view.failure.message
    assert view.waiting_for == ()


def test_the_json_of_an_instance_has_everything(almanac: Almanac) -> None:
    almanac.publish(deciding())

    made = almanac.show(run(almanac, {"case": "A", "amount": 1})).as_json()

    assert made["key"] == "permits"
    assert made["steps"][1]["output"] is True
    assert made["edges"][0]["why"] == "the only edge"
    assert made["created_at"].endswith("Z")


def test_the_newest_parts_are_shown_of_a_long_one(almanac: Almanac) -> None:
    almanac.publish(deciding())
    ulid = run(almanac, {"case": "A", "amount": 200, "kind": "fast"})

    view = almanac.show(ulid, most=2)

    assert [step.node for step in view.steps] == ["kind", "move"]
    assert [edge.node for edge in view.edges] == ["size", "kind"]
    with pytest.raises(InvalidInput):
        almanac.show(ulid, most=0)


def test_a_version_that_was_replaced_still_explains_its_instances(almanac: Almanac) -> None:
    almanac.publish(deciding())
    ulid = run(almanac, {"case": "A", "amount": 200, "kind": "fast"})
    almanac.publish(document())

    assert almanac.show(ulid).edges[3].why == 'the outcome was "fast"'


@pytest.mark.parametrize("ulid", ["", "abc", UNKNOWN[:-1], "\0" * 26, None, 7])
def test_what_is_no_ulid_is_refused(almanac: Almanac, ulid: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.show(ulid)

    assert refused.value.code == "invalid_ulid"


def test_a_ulid_may_be_typed_in_lower_case(almanac: Almanac) -> None:
    almanac.publish(document())
    ulid = run(almanac, {})

    assert almanac.show(ulid.lower()) == almanac.show(ulid)
    assert almanac.wait(ulid.lower(), timeout=5).ulid == ulid
    assert almanac.inbox(ulid.lower()).items == almanac.inbox(ulid).items
    with pytest.raises(NotFound) as refused:
        almanac.show(UNKNOWN.lower())
    assert refused.value.details["ulid"] == UNKNOWN


def test_an_unknown_ulid_is_not_found(almanac: Almanac) -> None:
    for look in (almanac.show, almanac.wait):
        with pytest.raises(NotFound) as refused:
            look(UNKNOWN)
        assert refused.value.code == "instance_not_found"


def test_pages_lead_through_all_instances_newest_first(almanac: Almanac) -> None:
    almanac.publish(document())
    started = [one.ulid for one in almanac.start_many("permits", [{}] * 7)]

    seen: list[str] = []
    cursor = None
    while True:
        page = almanac.list(limit=3, cursor=cursor)
        seen += [one.ulid for one in page.items]
        if page.next is None:
            break
        cursor = page.next

    assert seen == started[::-1]
    assert almanac.list(limit=7).next is None


def test_filters_narrow_the_list(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    almanac.publish(document("orders"))
    permit = almanac.start("permits", owner=("team", 1), subject=("permit", 5)).ulid
    other = almanac.start("permits", owner=("team", 2)).ulid
    order = almanac.start("orders").ulid
    rows("UPDATE workflow_instances SET created_at = now() - interval '2 days' WHERE ulid = %s",
         order)  # fmt: skip
    rows("UPDATE workflow_instances SET status = 'failed', failure_code = 'step_failed',"
         " failure_message = 'no', failed_node_id = 'n' WHERE ulid = %s", other)  # fmt: skip

    def found(**filters: Any) -> set[str]:
        return {one.ulid for one in almanac.list(**filters).items}

    assert found() == {permit, other, order}
    assert found(key="permits") == {permit, other}
    assert found(key="nothing") == set()
    assert found(status="failed") == {other}
    assert found(owner=("team", 1)) == {permit}
    assert found(subject=("permit", 5)) == {permit}
    assert found(since=datetime.now(UTC) - timedelta(days=1)) == {permit, other}
    assert found(key="permits", owner=("team", 2), status="failed") == {other}
    (failed,) = almanac.list(status="failed").items
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.node) == ("step_failed", "n")


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "done"},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001  (what is to be refused)
        {"limit": 0},
        {"limit": 1_001},
        {"limit": 1.5},
        {"limit": "10"},
        {"since": "2026-01-01T00:00:00Z"},
        {"cursor": "abc"},
        {"key": "a\0"},
    ],
)
def test_filters_that_cannot_be_are_refused(almanac: Almanac, filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.list(**filters)

    assert refused.value.code == "invalid_filter"


def test_a_timeline_has_a_whole_number_of_parts(almanac: Almanac) -> None:
    most: Any
    for most in (0, 1.5, "1", None):
        with pytest.raises(InvalidInput) as refused:
            almanac.show("01ARZ3NDEKTSV4RRFFQ69G5FAV", most=most)

        assert refused.value.code == "invalid_filter"


def test_a_condition_is_told_as_one_would_say_it(almanac: Almanac) -> None:
    over = {"field": "event.n", "op": "gt", "value": 1}
    condition = {"any": [over, {"not": {"field": "event.to", "op": "eq", "value": "x"}}]}
    almanac.publish(waiting(condition=condition))

    view = almanac.show(run(almanac, {}))

    assert view.waiting_for == (
        'event permits.moved where (event.n gt 1 or not event.to eq "x") (move)',
    )


def test_a_list_can_leave_children_out_or_hold_only_them(almanac: Almanac, rows: Rows) -> None:
    almanac.publish(document())
    parent, child, grandchild = [one.ulid for one in almanac.start_many("permits", [{}] * 3)]
    for depth, (above, below) in enumerate([(parent, child), (child, grandchild)], 1):
        rows(
            "UPDATE workflow_instances SET depth = %s, parent_instance_id ="
            " (SELECT id FROM workflow_instances WHERE ulid = %s) WHERE ulid = %s",
            depth, above, below,
        )  # fmt: skip

    def found(**filters: Any) -> list[str]:
        return [one.ulid for one in almanac.list(**filters).items]

    assert found(top=True) == [parent]
    assert found(parent=parent) == [child]
    assert found(parent=child.lower()) == [grandchild]
    assert found(parent=grandchild) == []
    assert found(parent=parent, top=True) == []
    with pytest.raises(NotFound):
        almanac.list(parent=UNKNOWN)
    with pytest.raises(InvalidInput) as refused:
        almanac.list(parent="permits")
    assert refused.value.code == "invalid_ulid"


def test_branches_stand_in_the_order_of_their_nodes(almanac: Almanac) -> None:
    branches = {"north-east": "ask-north", "post": "write", "a": "ask-south"}
    tasks = [{"id": name, "type": "set", "config": {"values": {"x": 1}}}
             for name in ("ask-north", "ask-south", "write")]  # fmt: skip
    almanac.publish(
        document(
            nodes=[
                {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
                {"id": "all", "type": "parallel", "config": {"branches": branches}},
                *tasks,
            ],
            edges=[{"from": "begin", "to": "all"}],
        )
    )

    view = almanac.show(run(almanac, {}))

    assert view.branches == {"all": ("north-east", "a", "post")}
    assert view.as_json()["branches"] == {"all": ["north-east", "a", "post"]}


def starting(**config: Any) -> dict[str, Any]:
    """A definition that starts instances of another one."""
    return document(
        "orders",
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "ship", "type": "start_workflow", "config": {"workflow": "permits", **config}},
        ],
        edges=[{"from": "begin", "to": "ship"}],
    )


@pytest.mark.parametrize("wait", [True, False])
def test_children_of_a_list_carry_the_place_of_their_item(almanac: Almanac, wait: bool) -> None:
    almanac.publish(waiting())
    almanac.publish(starting(items=["a", "b", "c"], input={"case": "${ item }"}, wait=wait))
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid)

    children = almanac.show(ulid).children

    assert [child.index for child in children] == [0, 1, 2]
    cases = [almanac.show(child.ulid).trigger_payload["case"] for child in children]
    assert cases == ["a", "b", "c"]


def test_a_child_of_a_retry_has_the_place_of_the_one_before(almanac: Almanac) -> None:
    almanac.publish(waiting())
    almanac.publish(starting(items=["a", "b"], on_failure="finish"))
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid)
    kept, lost = almanac.show(ulid).children
    almanac.cancel(lost.ulid)
    take_turns(almanac.settings, lost.ulid, ulid)
    almanac.emit("permits.moved", {})
    take_turns(almanac.settings, kept.ulid, ulid)
    assert almanac.show(ulid).status == "failed"
    almanac.retry(ulid)
    take_turns(almanac.settings, ulid)

    children = almanac.show(ulid).children

    assert [child.index for child in children] == [0, 1, 1]
    assert [child.ulid for child in children[:2]] == [kept.ulid, lost.ulid]


def test_children_that_have_ended_are_waited_for_no_more(almanac: Almanac) -> None:
    almanac.publish(waiting())
    almanac.publish(starting(items=list("abcdef"), on_failure="finish"))
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid)
    children = [child.ulid for child in almanac.show(ulid).children]

    def waited_for(*cancelled: str) -> tuple[str, ...]:
        for child in cancelled:
            almanac.cancel(child)
        take_turns(almanac.settings, *cancelled, ulid)
        return almanac.show(ulid).waiting_for

    assert waited_for() == ("the end of 6 instances (ship)",)
    assert waited_for(children[0]) == ("the end of 5 of 6 instances (ship)",)
    assert waited_for(*children[1:4]) == (f"the end of {children[4]}, {children[5]} (ship)",)


def test_what_has_paused_or_cancelled_an_instance_is_shown(almanac: Almanac) -> None:
    almanac.publish(waiting())
    ulid = run(almanac, {})
    almanac.pause(ulid, "stocktaking", sender=("user", 3))
    take_turns(almanac.settings, ulid)
    paused = almanac.show(ulid)
    almanac.resume(ulid)
    take_turns(almanac.settings, ulid)
    going = almanac.show(ulid)
    almanac.cancel(ulid)
    take_turns(almanac.settings, ulid)
    cancelled = almanac.show(ulid)

    assert paused.stopped is not None
    assert (paused.stopped.reason, paused.stopped.sender) == ("stocktaking", "user:3")
    assert paused.as_json()["stopped"]["reason"] == "stocktaking"
    assert going.stopped is None
    assert cancelled.stopped is not None
    assert (cancelled.stopped.reason, cancelled.stopped.sender) == (None, None)
    assert cancelled.stopped.at == cancelled.ended_at


def test_a_graph_that_cancels_its_instance_is_nobodys_command(almanac: Almanac) -> None:
    made = document()
    made["nodes"][1]["config"] = {"status": "cancelled"}
    almanac.publish(made)

    view = almanac.show(run(almanac, {}))

    assert view.status == "cancelled"
    assert view.stopped is not None
    assert (view.stopped.reason, view.stopped.sender) == (None, None)


def test_a_single_child_has_no_place(almanac: Almanac) -> None:
    almanac.publish(waiting())
    almanac.publish(starting())
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid)

    (child,) = almanac.show(ulid).children

    assert child.index is None


def test_waiting_reads_the_status_alone_until_the_end(almanac: Almanac) -> None:
    almanac.publish(deciding())
    ulid = run(almanac, {"case": "A", "amount": 1})
    statements: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with pytest.raises(Unavailable):
            almanac.wait(almanac.start("permits", {}).ulid, timeout=0.5)
        looks, statements[:] = list(statements), []
        view = almanac.wait(ulid, timeout=30, most=1)
    finally:
        event.remove(Engine, "before_cursor_execute", note)

    steps = almanac.settings.tables.step_runs
    assert len(looks) > 2
    assert not any(steps in statement for statement in looks)
    assert len([one for one in statements if f"FROM {steps} WHERE" in one]) == 1
    assert [step.node for step in view.steps] == ["done"]
