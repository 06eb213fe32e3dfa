"""Basic control flow: sequences, splits, and what brings lines together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.patterns.documents import decide, do, document, end, for_each, parallel, task, when

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


async def test_wcp_01_sequence(driver: Driver) -> None:
    sequence = document("sequence", *task("a", "b"), end("end"), edges=["trigger a b end"])
    await driver.start(sequence)
    await driver.signal("b")
    assert await driver.told() == "trigger = waiting", "b has not begun, its signal is kept"
    await driver.signal("a")
    assert await driver.told() == "trigger a b end = completed"


SPLIT = document(
    "split",
    parallel("all", "a b"),
    *task("a", "b"),
    *do("after"),
    edges=["trigger all after"],
)


async def test_wcp_02_parallel_split(driver: Driver) -> None:
    await driver.start(SPLIT)
    assert await driver.runs("a") == ["waiting"]
    assert await driver.runs("b") == ["waiting"], "both are under way at once"
    await driver.signals("b", "a")
    assert await driver.told() == "trigger b a all after = completed"


async def test_wcp_03_synchronization(driver: Driver) -> None:
    await driver.start(SPLIT)
    await driver.signal("a")
    assert await driver.told() == "trigger a = waiting"
    assert await driver.runs("after") == [], "not before the last branch has ended"
    await driver.signal("b")
    assert await driver.told() == "trigger a b all after = completed"


CHOICE = document(
    "choice",
    decide("large"),
    *do("ask", "pay", "file"),
    edges=[
        "trigger large",
        when("large", "trigger.amount > 100", "ask"),
        "large pay file",
        "ask file",
    ],
)


async def test_wcp_04_exclusive_choice(driver: Driver) -> None:
    small = await driver.start(CHOICE, {"amount": 7})
    assert await driver.told(small) == "trigger large pay file = completed"
    assert await driver.runs("ask", small) == []
    large = await driver.start(CHOICE, {"amount": 700})
    assert await driver.told(large) == "trigger large ask file = completed"
    assert await driver.runs("pay", large) == []


async def test_wcp_05_simple_merge(driver: Driver) -> None:
    for amount, path in ((7, "pay"), (700, "ask")):
        ulid = await driver.start(CHOICE, {"amount": amount})
        assert await driver.told(ulid) == f"trigger large {path} file = completed"
        assert await driver.runs("file", ulid) == ["succeeded"], "once, whichever line comes"


CHOSEN = document(
    "chosen",
    for_each("chosen", "${ ['tax', 'law', 'fire'].filter(b, b in trigger.wanted) }", "which"),
    decide("which", on="${ item }"),
    *task("tax", "law", "fire"),
    *do("after"),
    edges=[
        "trigger chosen after",
        {"from": "which", "to": "tax", "on": "tax"},
        {"from": "which", "to": "law", "on": "law"},
        "which fire",
    ],
)


async def test_wcp_06_multi_choice(driver: Driver) -> None:
    await driver.start(CHOSEN, {"wanted": ["fire", "tax"]})
    assert await driver.told() == "trigger which:tax which:fire = waiting"
    runs = [await driver.runs(node) for node in ("tax", "law", "fire")]
    assert runs == [["waiting"], [], ["waiting"]]
    await driver.signals("fire", "tax")
    assert await driver.told() == "trigger which:tax which:fire fire tax chosen after = completed"


async def test_wcp_07_structured_synchronizing_merge(driver: Driver) -> None:
    one = await driver.start(CHOSEN, {"wanted": ["law"]})
    await driver.signal("law")
    assert await driver.told(one) == "trigger which:law law chosen after = completed"
    assert await driver.runs("after", one) == ["succeeded"], "it waits for the chosen ones alone"
    none = await driver.start(CHOSEN, {"wanted": []})
    assert await driver.told(none) == "trigger chosen after = completed"
    driver.ulids.clear()
    await driver.start(CHOSEN, {"wanted": ["law", "fire"]})
    await driver.signal("law")
    assert await driver.runs("after") == [], "and for all of them"
    await driver.signal("fire")
    assert await driver.told() == "trigger which:law which:fire law fire chosen after = completed"


async def test_wcp_08_multi_merge(driver: Driver) -> None:
    merge = document(
        "multi-merge",
        for_each("lines", ["a", "b"], "which"),
        decide("which", on="${ item }"),
        *task("a", "b"),
        *do("next", input={"value": "${ item }"}),
        edges=["trigger lines", {"from": "which", "to": "a", "on": "a"}, "which b next", "a next"],
    )
    await driver.start(merge)
    await driver.signal("b")
    assert await driver.told() == "trigger which:a which:b b next = waiting"
    await driver.signal("a")
    assert await driver.told() == "trigger which:a which:b b next a next lines = completed"
    assert await driver.runs("next") == ["succeeded", "succeeded"], "once for every line"
