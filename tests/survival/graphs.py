"""The graphs that are run while something is killed."""

from __future__ import annotations

from typing import Any

from tests.patterns.documents import (
    document,
    end,
    for_each,
    on,
    parallel,
    put,
    repeat,
    start_workflow,
    wait,
)
from tests.survival.scale import scaled


def act(action: str, *names: str, **more: Any) -> list[dict[str, Any]]:
    """Steps that all call one action."""
    return [{"id": n, "type": "action", "config": {"action": action}, **more} for n in names]


def delay(name: str, span: str) -> dict[str, Any]:
    return {"id": name, "type": "delay", "config": {"for": span}}


OWN = {"run": "${ trigger.run }", "n": "${ trigger.n }"}

LOAD = document(
    "load",
    *act("note", "first", "left1", "right1", "right2", "timed2", "item", "last"),
    parallel("fork", "left1 right1 timed1", on_failure="finish"),
    *act("queued", "left2"),
    *act("book", "booked"),
    wait("heard", event="go", match=OWN),
    delay("timed1", "PT0.4S"),
    for_each("each", [1, 2, 3], "item", concurrency=2),
    wait("told", signal="on"),
    *act("book.queued", "booked_too"),
    *act("fails.once", "shaky"),
    *act("effect.run", "effect"),
    end("end"),
    edges=[
        "trigger first fork each told booked_too shaky effect last end",
        "left1 left2 booked",
        "right1 heard right2",
        "timed1 timed2",
    ],
)
"""21 step runs, one of them twice: inline, queued, in transactions, waits, a timer, a back-off."""

CAREFUL = document(
    "careful",
    *act("effect.fail", "careful"),
    *act("note", "after"),
    end("end"),
    edges=["trigger careful after end", on("careful", "failure", "after")],
)
"""An effect that must not happen twice."""

CHAIN = document(
    "chain",
    put("zero", n=0),
    repeat("again", "one", until="state.n >= 4000", max_iterations=5000),
    *act("note", "one"),
    put("count", n="${ state.n + 1 }"),
    edges=["trigger zero again", "one count"],
)
"""Inline steps, one after the other, for many seconds."""

BRIEF = document("brief", *act("note", "one"), end("end"), edges=["trigger one end"])

ASKED = document(
    "asked",
    wait("told", signal="on", timeout="PT10M"),
    *act("note", "after"),
    edges=["trigger told after"],
)
"""Waits for a signal."""

CALLED = document(
    "called",
    wait("told1", signal="on", correlation="1"),
    *act("note", "a", "b", "c"),
    wait("heard", event="go", match=OWN),
    wait("told2", signal="on", correlation="2"),
    end("end"),
    edges=["trigger told1 a heard b told2 c end"],
)
"""Waits again and again; between its waits it has work for a moment."""

KID = document(
    "kid",
    *act("note", "a"),
    wait("told", signal="on"),
    *act("book", "b"),
    edges=["trigger a told b"],
)
PARENT = document(
    "parent",
    start_workflow("kids", "kid", items=[1, 2]),
    *act("book", "booked"),
    edges=["trigger kids booked"],
)


def single(key: str, action: str, **more: Any) -> dict[str, Any]:
    """One step, whatever becomes of it, and another one."""
    one = "booked_one" if "book" in action else "one"
    return document(
        key,
        *act(action, one, **more),
        *act("note", "two"),
        end("end"),
        edges=[f"trigger {one} two end", on(one, "failure", "two")],
    )


SPAN = scaled("PT4S", "PT30S")
SLOWLY = {"max_attempts": 2, "backoff": "constant", "initial": SPAN}
MANY = document(
    "many",
    parallel("fork", "brief retried slept heard told kids", on_failure="finish"),
    *act("note", "brief", "after"),
    *act("queued", "then"),
    *act("fails.once", "retried", retry=SLOWLY),
    delay("slept", SPAN),
    wait("heard", event="go", match=OWN),
    wait("told", signal="on"),
    start_workflow("kids", "kid", items=[1, 2]),
    *act("book", "booked"),
    end("end"),
    edges=["trigger fork booked after end", "brief then"],
)
"""In the midst of all at once: parallel, a back-off, a timer, an event, a signal, children."""
