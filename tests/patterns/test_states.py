"""What may be done depends on where the instance stands, and on what others choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.patterns.documents import (
    decide,
    do,
    document,
    for_each,
    on,
    parallel,
    put,
    repeat,
    task,
    wait,
    when,
)

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


SUCCESS = {"op": "eq", "value": "success"}
READY = "!(event.task in state.done) && trigger.after[event.task].all(t, t in state.done)"


async def test_wcp_16_deferred_choice(driver: Driver) -> None:
    which = [
        when("which", {"field": f"steps.first.output.branches.{came}.outcome", **SUCCESS}, then)
        for came, then in (("mail", "read"), ("call", "answer"))
    ]
    choice = document(
        "deferred-choice",
        parallel("first", "mail call late", join="any"),
        wait("mail", event="mail.came", match={"case": "${ trigger.case }"}),
        wait("call", signal="call"),
        wait("late", timeout="P7D"),
        decide("which"),
        *do("read", "answer", "remind"),
        edges=["trigger first which", *which, "which remind"],
    )
    for came, then in (("mail", "read"), ("call", "answer"), ("late", "remind")):
        driver.ulids.clear()
        ulid = await driver.start(choice, {"case": f"case-{came}"})
        assert await driver.told() == "trigger = waiting", "nothing is chosen in advance"
        if came == "mail":
            await driver.emit("mail.came", {"case": f"case-{came}"})
        elif came == "call":
            await driver.signal("call")
        else:
            await driver.runtime.jump(ulid)
            driver.process = driver.runtime.process()
            await driver.settle()
        assert await driver.told() == f"trigger {came} first which {then} = completed"
        others = {"mail", "call", "late"} - {came}
        assert [await driver.runs(node) for node in others] == [["cancelled"]] * 2


async def test_wcp_17_interleaved_parallel_routing(driver: Driver) -> None:
    routing = document(
        "interleaved-parallel-routing",
        put("none", done=[]),
        repeat("routing", "choose", until="state.done.size() == 3"),
        wait("choose", signal="choose", condition=READY),
        decide("which", on="${ steps.choose.output.task }"),
        *task("a", "b", "c"),
        put("note", done="${ state.done + [steps.choose.output.task] }"),
        *do("next"),
        edges=[
            "trigger none routing next",
            "choose which",
            on("which", "a", "a"),
            on("which", "b", "b"),
            "which c note",
            "a note",
            "b note",
        ],
    )
    await driver.start(routing, {"after": {"a": [], "b": ["a"], "c": []}})
    await driver.signal("choose", {"task": "b"})
    assert await driver.told() == "trigger none = waiting", "b comes after a"
    await driver.signal("choose", {"task": "c"})
    await driver.signal("choose", {"task": "a"})
    await driver.signals("a", "b")
    told = "trigger none choose which:c"
    assert await driver.told() == f"{told} = waiting", "no two at once"
    await driver.signal("c")
    told += " c note choose which:a a note choose which:b b note routing next"
    assert await driver.told() == f"{told} = completed"


async def test_wcp_40_interleaved_routing(driver: Driver) -> None:
    routing = document(
        "interleaved-routing",
        for_each("routing", "${ trigger.order }", "which", concurrency=1),
        decide("which", on="${ item }"),
        *task("a", "b", "c"),
        *do("next"),
        edges=[
            "trigger routing next",
            on("which", "a", "a"),
            on("which", "b", "b"),
            "which c",
        ],
    )
    await driver.start(routing, {"order": ["b", "c", "a"]})
    await driver.signals("a", "c")
    assert await driver.told() == "trigger which:b = waiting", "one at a time"
    assert [await driver.runs(node) for node in "abc"] == [[], ["waiting"], []]
    await driver.signal("b")
    assert await driver.told() == "trigger which:b b which:c c which:a a routing next = completed"


def milestone() -> dict[str, Any]:
    return document(
        "milestone",
        parallel("both", "order change", join="any"),
        *task("order"),
        put("open", open=True),
        *task("ship"),
        put("close", open=False),
        *task("deliver"),
        wait(
            "change", signal="change", condition={"field": "state.open", "op": "eq", "value": True}
        ),
        *do("apply"),
        edges=["trigger both", "order open ship close deliver", "change apply change"],
    )


async def test_wcp_18_milestone(driver: Driver) -> None:
    await driver.start(milestone())
    await driver.signal("change")
    assert await driver.told() == "trigger = waiting", "the milestone is not reached"
    await driver.signal("order")
    told = "trigger order open change apply"
    assert await driver.told() == f"{told} = waiting", "now it is"
    await driver.signals("change", "ship")
    told += " change apply ship close"
    assert await driver.told() == f"{told} = waiting"
    await driver.signal("change")
    assert await driver.told() == f"{told} = waiting", "and now it has passed"
    await driver.signal("deliver")
    assert await driver.told() == f"{told} deliver both = completed"
    assert await driver.runs("apply") == ["succeeded", "succeeded"]
