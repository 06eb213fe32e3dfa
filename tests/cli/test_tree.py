from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.services.graphs import document, waiting
from tests.services.recorded import Recorded
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from tests.cli.conftest import Cli


@pytest.fixture
def ulid(almanac: Almanac) -> str:
    almanac.publish(document())
    return almanac.start("permits").ulid


@pytest.fixture
def recorded(database_url: str, ulid: str) -> Recorded:
    return Recorded(database_url, ulid)


def labels(out: str) -> list[str]:
    """The first column of the table of steps, and what stands beside it up to two spaces."""
    table = out.split("\n\n")[1].splitlines()
    width = table[0].index(" type")
    return [line[:width].rstrip() for line in table[1:]]


def test_branches_stand_below_the_node_that_owns_them(
    cli: Cli, recorded: Recorded, ulid: str
) -> None:
    recorded.step("begin", type="trigger", edge="review")
    recorded.step("review", type="parallel", status="waiting")
    recorded.step("check", "review.1:legal", edge="sign")
    recorded.step("pay", "review.1:money", status="running")
    recorded.step("sign", "review.1:legal", status="waiting", type="wait")

    out = cli("show", ulid).out

    assert labels(out) == [
        "begin",
        "review",
        "  legal: check",
        "         sign",
        "  money: pay",
    ]
    assert "legal: check  sign" in out


def test_branches_stand_in_the_order_of_the_document(cli: Cli, almanac: Almanac) -> None:
    task = {"type": "set", "config": {"values": {"x": 1}}}
    branches = {"north-east": "ask", "post": "write", "a": "call"}
    made = document()
    made["nodes"][1:] = [
        {"id": "all", "type": "parallel", "config": {"branches": branches}},
        *({"id": name, **task} for name in ("ask", "write", "call")),
    ]
    made["edges"] = [{"from": "begin", "to": "all"}]
    almanac.publish(made)
    ulid = almanac.start("permits").ulid
    take_turns(almanac.settings, ulid)

    shown = labels(cli("show", ulid).out)

    assert shown == ["begin", "all", "  north-east: ask", "  post: write", "  a: call"]


def test_items_stand_in_their_order_whatever_was_opened_first(
    cli: Cli, recorded: Recorded, ulid: str
) -> None:
    recorded.step("each", type="for_each", status="waiting")
    for item in (2, 10, 1):
        recorded.step("check", f"each.1:{item}", visit=item)

    assert labels(cli("show", ulid).out) == ["each", "  1: check", "  2: check", "  10: check"]


def test_visits_and_attempts_are_counted_where_there_are_several(
    cli: Cli, recorded: Recorded, ulid: str
) -> None:
    recorded.step("check")
    once = cli("show", ulid).out
    recorded.step("check", visit=2)
    again = cli("show", ulid).out
    recorded.step("check", visit=2, attempt=2, status="running")
    tried = cli("show", ulid).out

    def heading(out: str) -> list[str]:
        return out.split("\n\n")[1].splitlines()[0].split()

    assert heading(once)[:3] == ["node", "type", "status"]
    assert heading(again)[:4] == ["node", "type", "visit", "status"]
    assert heading(tried)[:5] == ["node", "type", "visit", "attempt", "status"]
    assert tried.split("\n\n")[1].splitlines()[3].split()[:5] == [
        "check", "action", "2", "2", "running"
    ]  # fmt: skip


def test_a_failure_without_a_message_leaves_no_colon(
    cli: Cli, recorded: Recorded, ulid: str, database_url: str
) -> None:
    recorded.step("check", status="failed", code="worker_lost")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "UPDATE workflow_instances SET status = 'failed', failure_code = 'worker_lost',"
            " failed_node_id = 'check', failure_message = ''"
        )

    out = cli("show", ulid).out

    assert "failed at check: worker_lost\n" in out
    assert "worker_lost:" not in out
    assert "worker_lost:" not in cli("list").out


def test_structure_nests(cli: Cli, recorded: Recorded, ulid: str) -> None:
    recorded.step("review", type="parallel", status="waiting")
    recorded.step("each", "review.1:a", type="for_each", status="waiting", visit=2)
    recorded.step("loop", "each.2:0", type="repeat", status="waiting")
    recorded.step("check", "loop.1:0")
    recorded.step("check", "loop.1:1", status="running", visit=2)
    recorded.step("after", "review.1:b")

    assert labels(cli("show", ulid).out) == [
        "review",
        "  a: each",
        "       0: loop",
        "            0: check",
        "            1: check",
        "  b: after",
    ]


def test_of_many_items_the_first_and_the_failed_ones_are_drawn(
    cli: Cli, recorded: Recorded, ulid: str
) -> None:
    recorded.step("each", type="for_each", status="waiting")
    for item in range(12):
        status = {7: "failed", 11: "running"}.get(item, "succeeded")
        recorded.step("check", f"each.1:{item}", visit=item + 1, status=status, edge="x")

    out = cli("show", ulid).out

    assert labels(out) == [
        "each",
        "  0: check",
        "  1: check",
        "  2: check",
        "  7: check",
        "  and 8 more: 1 running, 7 succeeded",
    ]
    steps = cli("show", ulid, "--json").data["steps"]
    assert [step["line"] for step in steps] == ["", *[f"each.1:{item}" for item in range(12)]]
    edges = cli("show", ulid, "--json").data["edges"]
    assert [edge["line"] for edge in edges] == [f"each.1:{item}" for item in range(12)]


def test_lines_stand_below_the_last_attempt_of_their_owner(
    cli: Cli, recorded: Recorded, ulid: str
) -> None:
    recorded.step("review", type="parallel", status="failed", code="step_failed")
    recorded.step("check", "review.1:a")
    recorded.step("pay", "review.1:b", status="failed", code="step_failed")
    recorded.step("review", type="parallel", status="waiting", attempt=2)
    recorded.step("pay", "review.1:b", status="running", attempt=2)

    assert labels(cli("show", ulid).out) == [
        "review",
        "review",
        "  a: check",
        "  b: pay",
        "     pay",
    ]


def test_lines_whose_owner_is_left_out_are_named_in_full(
    cli: Cli, recorded: Recorded, ulid: str
) -> None:
    recorded.step("review", type="parallel", status="waiting")
    recorded.step("check", "review.1:a")

    assert labels(cli("show", ulid, "--most", "1").out) == ["review.1:a: check"]


def test_children_stand_below_the_step_that_started_them(
    cli: Cli, almanac: Almanac, recorded: Recorded, ulid: str
) -> None:
    one, *many = [one.ulid for one in almanac.start_many("permits", [{}] * 13)]
    recorded.adopt(recorded.step("order", type="start_workflow", status="waiting"), [one])
    step = recorded.step("orders", type="start_workflow", status="waiting")
    recorded.adopt(step, many)
    recorded.adopt(step, [many[9]], "failed")

    run, data = cli("show", ulid), cli("show", ulid, "--json").data

    assert labels(run.out)[:-1] == [
        "order",
        f"  {one}",
        "orders",
        *[f"  {child}" for child in (*many[:3], many[9])],
    ]
    assert labels(run.out)[-1] == "  and 8 more: 8 pending"
    assert [child["ulid"] for child in data["children"]] == [one, *many]
    assert data["children"][-1]["step"] == step
    assert data["children"][10]["status"] == "failed"
    assert cli("show", one, "--json").data["parent"] == ulid
    assert ulid in cli("show", one).out
    assert data["parent"] is None


def test_children_of_a_list_are_headed_by_the_places_of_their_items(
    cli: Cli, almanac: Almanac
) -> None:
    almanac.publish(document())
    made = document("orders")
    config = {"workflow": "permits", "items": ["a", "b"]}
    made["nodes"][1] = {"id": "ship", "type": "start_workflow", "config": config}
    made["edges"] = [{"from": "begin", "to": "ship"}]
    almanac.publish(made)
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid)
    first, second = [child.ulid for child in almanac.show(ulid).children]

    assert labels(cli("show", ulid).out)[1:] == ["ship", f"  0: {first}", f"  1: {second}"]
    assert [child["index"] for child in cli("show", ulid, "--json").data["children"]] == [0, 1]


def test_what_has_paused_an_instance_and_cancelled_its_child_is_told(
    cli: Cli, almanac: Almanac
) -> None:
    almanac.publish(waiting())
    made = document("orders")
    made["nodes"][1] = {"id": "ship", "type": "start_workflow", "config": {"workflow": "permits"}}
    made["edges"] = [{"from": "begin", "to": "ship"}]
    almanac.publish(made)
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid)
    almanac.pause(ulid, "stocktaking", sender=("user", 3))
    take_turns(almanac.settings, ulid)
    paused = cli("show", ulid).out
    almanac.cancel(ulid, "withdrawn")
    take_turns(almanac.settings, ulid)
    (child,) = [child.ulid for child in almanac.show(ulid).children]
    take_turns(almanac.settings, child)

    assert re.search(r"^paused by user:3 at 20\S+ \S+: stocktaking$", paused, re.MULTILINE)
    assert re.search(r"^cancelled at 20\S+ \S+: withdrawn$", cli("show", ulid).out, re.MULTILINE)
    out = cli("show", child).out
    assert f"cancelled by instance:{ulid} at " in out
    assert out.endswith("cancelled: cancelled_by_parent\n")
    assert "by its parent" in cli("inbox", child).out


def test_signals_that_are_kept_are_shown(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(waiting())
    ulid = almanac.start("permits").ulid
    almanac.signal(ulid, "paid", {"amount": 200}, "A-17", sender=("user", 3))
    for _ in range(11):
        almanac.signal(ulid, "waived")
    take_turns(almanac.settings, ulid)

    out, data = cli("show", ulid).out, cli("show", ulid, "--json").data

    (kept,) = [part for part in out.split("\n\n") if part.startswith("signal kept")]
    lines = kept.splitlines()
    assert lines[1].split()[:5] == ["paid", "A-17", '{"amount":', "200}", "user:3"]
    assert "and 2 more" in kept
    assert [signal["name"] for signal in data["signals"]] == ["paid", *["waived"] * 11]
    assert data["signals"][0]["payload"] == {"amount": 200}


def test_commands_that_are_not_applied_yet_are_shown(cli: Cli, almanac: Almanac, ulid: str) -> None:
    almanac.signal(ulid, "moved", {"n": 1}, "A-17", sender=("user", 3))
    almanac.cancel(ulid, "withdrawn")

    out, data = cli("show", ulid).out, cli("show", ulid, "--json").data

    assert 'moved {"n": 1} for A-17' in out
    assert "user:3" in out
    assert "withdrawn" in out
    assert [command["kind"] for command in data["commands"]] == ["start", "signal", "cancel"]


def test_what_is_waited_for_is_named(
    cli: Cli, almanac: Almanac, recorded: Recorded, ulid: str
) -> None:
    recorded.step("review", type="parallel", status="running")
    recorded.wait("paid", "signal", signals=["paid", "waived"], correlation="A-17")
    recorded.wait("other", "instances", instances=[ulid])
    recorded.wait("others", "instances", instances=["x"] * 40)
    recorded.become("paused")

    out = cli("show", ulid).out
    view = almanac.show(ulid)

    assert view.waiting_for == (
        "a resume",
        "signal paid, waived for A-17 (paid)",
        f"the end of {ulid} (other)",
        "the end of 40 instances (others)",
    )
    assert "waits for signal paid, waived for A-17 (paid)" in out
    assert view.waits[0].signals == ("paid", "waived")


def test_many_things_waited_for_are_counted(cli: Cli, recorded: Recorded, ulid: str) -> None:
    recorded.step("each", type="for_each", status="waiting")
    for item in range(15):
        recorded.step("check", f"each.1:{item}", visit=item + 1, status="running")
    recorded.become("running")

    out = cli("show", ulid).out

    assert out.count("waits for check") == 10
    assert "waits for 5 more" in out
