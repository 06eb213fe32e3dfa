"""Triggers from outside: kept until they are taken, or lost when nobody waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ulid import ULID

from tests.patterns.documents import document, on, task, wait

if TYPE_CHECKING:
    from tests.patterns.driving import Driver


async def test_wcp_23_transient_trigger(driver: Driver) -> None:
    transient = document(
        "transient-trigger",
        *task("before"),
        wait("forget", signal="bell", timeout="PT0S", outcome="none"),
        wait("bell", signal="bell"),
        edges=["trigger before", "before forget forget", on("forget", "none", "bell")],
    )
    await driver.start(transient)
    await driver.signals("bell", "bell", "before")
    told = "trigger before forget forget forget:none"
    assert await driver.told() == f"{told} = waiting", "what came when nobody waited is lost"
    await driver.signal("bell")
    assert await driver.told() == f"{told} bell = completed"


async def test_wcp_24_persistent_trigger(driver: Driver) -> None:
    signal = document(
        "persistent-trigger", *task("before", "bell", "again"), edges=["trigger before bell again"]
    )
    await driver.start(signal)
    await driver.signals("bell", "before")
    assert await driver.told() == "trigger before bell = waiting", "it was kept, for one wait"

    driver.ulids.clear()
    key = f"rung.{ULID()}"
    event = document(
        "persistent-event", *task("before"), wait("bell", event=key), edges=["trigger before bell"]
    )
    await driver.start(event)
    await driver.emit(key, {"n": 1})
    assert await driver.told() == "trigger = waiting"
    await driver.signal("before")
    assert await driver.told() == "trigger before bell = completed"
