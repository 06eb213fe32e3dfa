from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import StepError
from tests.services.graphs import document
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from adapter.services.views import InstanceView

CHECK = {"action": "permits.refuse"}
BEGIN = {"id": "begin", "type": "trigger", "config": {"type": "manual"}}


@pytest.fixture(autouse=True)
def _refusing(almanac: Almanac) -> None:
    @almanac.registry.action("permits.refuse")
    def refuse() -> None:
        raise StepError("refused", "no", retryable=False)


def ran(almanac: Almanac, nodes: list[dict[str, Any]], *edges: tuple[str, ...]) -> InstanceView:
    """The instance after its turns; edges as (from, to) or (from, to, on)."""
    pairs = [
        {"from": source, "to": to, **({"on": on[0]} if on else {})} for source, to, *on in edges
    ]
    almanac.publish(document(nodes=[BEGIN, *nodes], edges=pairs))
    ulid = almanac.start("permits").ulid
    take_turns(almanac.settings, ulid, registry=almanac.registry)
    return almanac.show(ulid)


def why(view: InstanceView) -> dict[str, tuple[str, str | None]]:
    """What is told of each node's last departure, and the code beside it."""
    return {edge.node or "": (edge.why, edge.code) for edge in view.edges}


def test_a_failure_without_an_edge_says_so_and_that_the_instance_failed(almanac: Almanac) -> None:
    view = ran(
        almanac,
        [{"id": "check", "type": "action", "config": CHECK}, {"id": "done", "type": "end"}],
        ("begin", "check"),
        ("check", "done"),
    )

    told = "it failed with refused, and no failure edge leads on: the instance failed"
    assert why(view)["check"] == (told, "refused")
    assert why(view)["begin"] == ("the only edge", None)


def test_a_failure_that_an_edge_takes_tells_its_code(almanac: Almanac) -> None:
    view = ran(
        almanac,
        [{"id": "check", "type": "action", "config": CHECK}, {"id": "sorry", "type": "end"}],
        ("begin", "check"),
        ("check", "sorry", "failure"),
    )

    assert why(view)["check"] == ('the outcome was "failure": refused', "refused")
    assert why(view)["sorry"] == ("nothing comes after it", None)


def nested(**outer: Any) -> list[dict[str, Any]]:
    """A branch with a list, whose one item fails."""
    each = {"items": [1], "body": "check"}
    return [
        {"id": "all", "type": "parallel", "config": {"branches": {"north": "each"}, **outer}},
        {"id": "each", "type": "for_each", "config": each},
        {"id": "check", "type": "action", "config": CHECK},
        {"id": "done", "type": "end"},
    ]


def test_a_failure_that_nothing_stops_tells_all_that_failed_with_it(almanac: Almanac) -> None:
    view = ran(almanac, nested(), ("begin", "all"), ("all", "done"))

    assert view.status == "failed"
    assert why(view)["check"][0] == (
        "it failed with refused, and no failure edge leads on: item 0 of each failed, and with it"
        " branch north of all, and with it the instance"
    )


def test_a_failure_that_is_stopped_on_its_way_up_tells_how_far_it_got(almanac: Almanac) -> None:
    view = ran(almanac, nested(), ("begin", "all"), ("all", "done"), ("all", "done", "failure"))

    found = why(view)
    assert view.status == "completed"
    assert found["check"][0] == (
        "it failed with refused, and no failure edge leads on: item 0 of each failed"
    )
    assert found["each"][0] == (
        "it failed with refused, and no failure edge leads on: branch north of all failed"
    )
    assert found["all"] == ('the outcome was "failure": refused', "refused")


def test_the_lines_around_a_failure_are_told_as_far_as_they_are_shown(almanac: Almanac) -> None:
    view = ran(almanac, nested(), ("begin", "all"), ("all", "done"))

    (edge,) = almanac.show(view.ulid, most=1).edges
    assert edge.why.endswith("item 0 of each failed, and with it the instance")


def test_an_iteration_that_fails_is_called_so(almanac: Almanac) -> None:
    loop = {"body": "check", "until": "true"}
    view = ran(
        almanac,
        [
            {"id": "loop", "type": "repeat", "config": loop},
            {"id": "check", "type": "action", "config": CHECK},
        ],
        ("begin", "loop"),
    )

    assert "iteration 1 of loop failed, and with it the instance" in why(view)["check"][0]


def test_an_end_tells_that_it_fails_the_instance(almanac: Almanac) -> None:
    view = ran(
        almanac,
        [{"id": "no", "type": "end", "config": {"status": "failed", "code": "no_permit"}}],
        ("begin", "no"),
    )

    assert why(view)["no"] == ("it ends the instance as failed, with no_permit", "no_permit")


def test_a_decision_without_an_edge_tells_its_outcome(almanac: Almanac) -> None:
    view = ran(
        almanac,
        [
            {"id": "size", "type": "decision", "config": {"on": "large"}},
            {"id": "done", "type": "end"},
        ],
        ("begin", "size"),
        ("size", "done", "small"),
    )

    told = 'no edge fits outcome "large" (no_edge): the instance failed'
    assert why(view)["size"] == (told, "no_edge")


def test_a_condition_that_fails_is_told_apart_from_none_that_fits(almanac: Almanac) -> None:
    almanac.publish(
        document(
            nodes=[BEGIN, {"id": "size", "type": "decision"}, {"id": "done", "type": "end"}],
            edges=[
                {"from": "begin", "to": "size"},
                {"from": "size", "to": "done", "when": "trigger.a.b > 1"},
            ],
        )
    )
    ulid = almanac.start("permits", {"a": 1}).ulid
    take_turns(almanac.settings, ulid)

    told = "no edge could be chosen: expression_failed: the instance failed"
    assert why(almanac.show(ulid))["size"] == (told, "expression_failed")


@pytest.mark.parametrize(
    ("child", "output"),
    [
        ({"id": "last", "type": "end", "config": {"output": {"n": 7}}}, {"n": 7}),
        ({"id": "last", "type": "end"}, None),
        ({"id": "last", "type": "action", "config": {"action": "permits.seven"}}, None),
    ],
)
def test_the_output_of_a_child_is_that_of_its_end_and_of_nothing_else(
    almanac: Almanac, child: dict[str, Any], output: Any
) -> None:
    @almanac.registry.action("permits.seven")
    def seven() -> int:
        return 7

    edge = {"from": "begin", "to": "last"}
    almanac.publish(document("parts", nodes=[BEGIN, child], edges=[edge]))
    ship = {"id": "ship", "type": "start_workflow", "config": {"workflow": "parts"}}
    ulid = ran(almanac, [ship], ("begin", "ship")).ulid
    (started,) = almanac.show(ulid).children
    take_turns(almanac.settings, started.ulid, ulid, registry=almanac.registry)

    step = almanac.show(ulid).steps[-1]
    assert step.output == {"ulid": started.ulid, "status": "completed", "output": output}


def test_a_list_has_its_failures_for_an_output_only_where_an_edge_takes_them(
    almanac: Almanac,
) -> None:
    each = {"items": [1, 2], "body": "check", "on_failure": "finish"}
    nodes: list[dict[str, Any]] = [
        {"id": "each", "type": "for_each", "config": each},
        {"id": "check", "type": "action", "config": CHECK},
        {"id": "done", "type": "end"},
    ]

    taken = ran(almanac, nodes, ("begin", "each"), ("each", "done", "failure"))
    failed = ran(almanac, nodes, ("begin", "each"))

    (with_edge,) = [step for step in taken.steps if step.node == "each"]
    (without,) = [step for step in failed.steps if step.node == "each"]
    assert [failure["index"] for failure in with_edge.output["failures"]] == [0, 1]
    assert (without.status, without.output) == ("failed", None)
