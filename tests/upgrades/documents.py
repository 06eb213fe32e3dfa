"""The graphs of the scenes: between them every node type, in each of its forms.

They are recorded with the instances that ran them, so they may change from version to version.
"""

from __future__ import annotations

from typing import Any

from tests.execution.runtime import action, chain, graph


def node(kind: str, id_: str, **config: Any) -> dict[str, Any]:
    return {"id": id_, "type": kind, "config": config}


def wait(id_: str, **config: Any) -> dict[str, Any]:
    return node("wait", id_, **config)


def _on(before: str, outcome: str, after: str) -> dict[str, str]:
    return {"from": before, "on": outcome, "to": after}


RETRY = {"max_attempts": 3, "backoff": "constant", "initial": "PT0.1S"}
LATER = {"max_attempts": 3, "backoff": "constant", "initial": "PT20S"}

STRAIGHT = graph(
    node("set", "note", values={"doubled": "${ trigger.amount * 2 }"}),
    node("decision", "which", on="${ state.doubled > 10 ? 'much' : 'little' }"),
    action("say", "up.echo", input={"value": "${ state.doubled }"}),
    node("delay", "breathe", **{"for": "PT0.05S"}),
    node("end", "done", output={"said": "${ steps.say.output }"}),
    node("end", "refused", status="cancelled", message="too little"),
    edges=[
        ("trigger", "note"),
        ("note", "which"),
        _on("which", "much", "say"),
        ("which", "refused"),
        ("say", "breathe"),
        ("breathe", "done"),
    ],
    key="straight",
)
FAILING = chain(action("shaky", "up.shaky", retry=RETRY), action("last", "up.unwilling"))
FAILING["key"] = "failing"
WAITS = graph(
    wait("event", event="up.paid", match={"order": "${ trigger.order }"}),
    wait("late", event="up.never", timeout="PT0.05S", outcome="late"),
    wait("signal", signal="ask"),
    wait("all", signals=["one", "two"]),
    wait("any", signals=["three", "four"], mode="any"),
    edges=[
        ("trigger", "event"),
        ("event", "late"),
        _on("late", "late", "signal"),
        ("signal", "all"),
        ("all", "any"),
    ],
    key="waits",
)
BRANCHES = graph(
    node(
        "parallel",
        "finish",
        branches={"good": "g", "bad": "b", "deep": "each"},
        on_failure="finish",
    ),
    action("g", "up.echo", input={"value": 1}),
    action("b", "up.failing"),
    node("for_each", "each", items="${ trigger.items }", body="i", concurrency=2),
    action("i", "up.echo", input={"value": "${ item }"}),
    node("parallel", "first", branches={"quick": "q", "slow": "s"}, join="any"),
    action("q", "up.echo"),
    wait("s", event="up.never"),
    edges=[
        ("trigger", "finish"),
        _on("finish", "failure", "first"),
    ],
    key="branches",
)
ROUNDS = graph(
    node("repeat", "rounds", body="count", until="state.n >= 6"),
    node("set", "count", values={"n": "${ has(state.n) ? state.n + 1 : 1 }"}),
    action("round", "up.echo", input={"value": "${ state.n }"}),
    edges=[("trigger", "rounds"), ("count", "round")],
    key="rounds",
)
CHILD = graph(
    node("decision", "pick", on="${ trigger.how }"),
    action("act", "up.echo", input={"value": "${ trigger.how }"}),
    action("fail", "up.failing"),
    wait("held", event="up.child", match={"how": "hold"}),
    edges=[
        ("trigger", "pick"),
        _on("pick", "fail", "fail"),
        _on("pick", "hold", "held"),
        ("pick", "act"),
    ],
    key="child",
)
PARENT = graph(
    node("start_workflow", "aside", workflow="child", input={"how": "go"}, wait=False),
    node("start_workflow", "one", workflow="child", input={"how": "go"}),
    node(
        "start_workflow",
        "many",
        workflow="child",
        items=["go", "fail"],
        input={"how": "${ item }"},
        on_failure="finish",
    ),
    node("wait_for", "again", instances="${ steps.aside.output.ulid }"),
    node("wait_for", "nobody", instances="${ trigger.unknown }"),
    node(
        "start_workflow",
        "stopped",
        workflow="child",
        items=["go", "hold"],
        input={"how": "${ item }"},
        mode="any",
    ),
    edges=[
        ("trigger", "aside"),
        ("aside", "one"),
        ("one", "many"),
        _on("many", "failure", "again"),
        ("again", "nobody"),
        _on("nobody", "failure", "stopped"),
    ],
    key="parent",
)
PAUSED = chain(wait("w", event="up.go"), wait("v", event="up.never"))
PAUSED["key"] = "paused"
QUEUED = graph(
    action("one", "up.queued", input={"value": 1}),
    node("parallel", "race", branches={"quick": "two", "slow": "three"}, join="any"),
    action("two", "up.queued", input={"value": 2}),
    action("three", "up.long"),
    wait("then", event="up.go"),
    action("four", "up.echo"),
    edges=[("trigger", "one"), ("one", "race"), ("race", "then"), ("then", "four")],
    key="queued",
)
LONG = chain(action("long", "up.long"), action("after", "up.echo"))
LONG["key"] = "long"
BRIEF = chain(*(action(f"n{n}", "up.brief") for n in range(2)), wait("w", event="up.go"))
BRIEF["key"] = "brief"
ECHO = chain(action("a", "up.echo"))
ECHO["key"] = "echo"
STEPS = chain(*(action(f"n{n}", "up.echo") for n in range(22)))
STEPS["key"] = "steps"
MANY = chain(node("repeat", "rounds", body="w", max_iterations=40, until="!steps.w.output.more"))
MANY["nodes"].append(wait("w", signal="next"))
MANY["key"] = "many"

ALL = (
    *(STRAIGHT, FAILING, WAITS, BRANCHES, ROUNDS, CHILD, PARENT, PAUSED, QUEUED, LONG, BRIEF),
    *(ECHO, STEPS, MANY),
)

# In the midst of things: each waits for what the next version is to give it.

_GO = {"event": "up.go", "match": {"scene": "${ trigger.scene }"}}


def _mid(key: str, *nodes: dict[str, Any], edges: list[Any]) -> dict[str, Any]:
    return graph(*nodes, edges=edges, key=f"mid-{key}")


MIDWAY = (
    _mid("event", wait("w", **_GO), edges=[("trigger", "w")]),
    _mid(
        "signals",
        wait("w", signals=["one", "two"]),
        wait("v", signal="kept"),
        edges=[("trigger", "w"), ("w", "v")],
    ),
    _mid(
        "parallel",
        node("parallel", "p", branches={"done": "d", "waits": "w", "spare": "s"}),
        action("d", "up.echo"),
        wait("w", **_GO),
        action("s", "up.queued", input={"value": 1}),
        edges=[("trigger", "p")],
    ),
    _mid(
        "items",
        node("for_each", "each", items=[0, 1, 2, 3], body="pick", concurrency=2),
        node("decision", "pick", on="${ item < 2 ? 'go' : 'hold' }"),
        action("d", "up.echo", input={"value": "${ item }"}),
        wait("w", **_GO),
        edges=[("trigger", "each"), _on("pick", "go", "d"), ("pick", "w")],
    ),
    _mid(
        "rounds",
        node("repeat", "r", body="w", max_iterations=2, **{"while": "true"}),
        wait("w", signal="next"),
        action("after", "up.echo"),
        edges=[("trigger", "r"), _on("r", "exhausted", "after")],
    ),
    _mid("back-off", action("a", "up.shaky", retry=LATER), edges=[("trigger", "a")]),
    _mid(
        "paused",
        wait("w", **_GO),
        action("a", "up.echo"),
        edges=[("trigger", "w"), ("w", "a")],
    ),
    _mid("queued", action("a", "up.long"), edges=[("trigger", "a")]),
    _mid("inline", action("a", "up.brief"), edges=[("trigger", "a")]),
    _mid(
        "child",
        node(
            "start_workflow",
            "c",
            workflow="child",
            items=["go", "hold"],
            input={"how": "${ item }"},
        ),
        edges=[("trigger", "c")],
    ),
    _mid(
        "failed",
        node("for_each", "each", items=[0, 1], body="d"),
        action("d", "up.echo"),
        action("a", "up.unwilling"),
        edges=[("trigger", "each"), ("d", "a")],
    ),
    _mid(
        "delay",
        node("delay", "d", **{"for": "PT20S"}),
        action("a", "up.echo"),
        edges=[("trigger", "d"), ("d", "a")],
    ),
    _mid("pending", action("a", "up.echo"), edges=[("trigger", "a")]),
    _mid("told", wait("w", signal="next"), edges=[("trigger", "w")]),
)
MIDWAY[2]["nodes"][4]["config"]["queue"] = "spare"
