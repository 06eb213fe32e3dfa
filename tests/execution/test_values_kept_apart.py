from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.driving.turns import take_turn
from tests.execution.runtime import action, chain

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext
    from tests.execution.runtime import Runtime


def end(output: Any) -> dict[str, Any]:
    return {"id": "end", "type": "end", "config": {"output": output}}


async def test_a_handler_that_changes_its_input_changes_its_own_copy(runtime: Runtime) -> None:
    @runtime.registry.action("mark")
    def mark(row: Any, rows: list[Any], **rest: Any) -> Any:
        row["seen"] = row.get("seen", 0) + 1
        rows.append(1)
        rest["more"]["seen"] = True
        return [row["seen"], len(rows)]

    constant: dict[str, Any] = {"row": {}, "rows": [], "more": {}}
    given = {"row": "${ trigger }", "rows": "${ state.rows }", "more": "${ trigger.more }"}
    document = chain(
        {"id": "set", "type": "set", "config": {"values": {"rows": []}}},
        action("constant", "mark", input=constant),
        action("given", "mark", input=given),
        action("again", "mark", input=given),
        end(["${ trigger }", "${ state }"]),
    )
    version = await runtime.publish(document)
    process = runtime.process()
    for _ in range(2):
        ulid = await runtime.start(version, {"more": {}})
        await runtime.finish(process, ulid)
        for node in ("constant", "given", "again"):
            assert (await runtime.step(ulid, node))["output"] == [1, 1]
        assert (await runtime.step(ulid, "end"))["output"] == [{"more": {}}, {"rows": []}]


async def test_a_handler_that_changes_the_trigger_changes_its_own_copy(runtime: Runtime) -> None:
    @runtime.registry.action("take")
    async def take(ctx: ActionContext) -> Any:
        return ctx.instance.trigger.pop("n")

    document = chain(action("one", "take"), action("two", "take"), end("${ trigger.n }"))
    ulid = await runtime.ran(document, {"n": 7})
    assert [(await runtime.step(ulid, n))["output"] for n in ("one", "two", "end")] == [7, 7, 7]


async def test_what_a_handler_does_to_its_result_afterwards_is_not_seen(runtime: Runtime) -> None:
    counter = {"n": 0}

    @runtime.registry.action("count")
    async def count() -> dict[str, int]:
        counter["n"] += 1
        return counter

    document = chain(
        action("one", "count"),
        action("two", "count"),
        end(["${ steps.one.output.n }", "${ steps.two.output.n }"]),
    )
    ulid = await runtime.ran(document)
    assert (await runtime.step(ulid, "end"))["output"] == [1, 2]
    assert (await runtime.step(ulid, "one"))["output"] == {"n": 1}


async def test_an_output_is_seen_however_many_nodes_later(runtime: Runtime) -> None:
    runtime.registry.action("seven")(lambda: 7)
    passing = [
        {"id": f"pass{n}", "type": "set", "config": {"values": {"n": n}}} for n in range(130)
    ]
    document = chain(action("one", "seven"), *passing, end("${ steps.one.output + state.n }"))
    ulid = await runtime.ran(document)
    assert (await runtime.step(ulid, "end"))["output"] == 7 + 129


async def test_the_trigger_is_its_own_output_also_for_a_process_that_knows_nothing_yet(
    runtime: Runtime,
) -> None:
    delay = {"id": "delay", "type": "delay", "config": {"for": "PT0.05S"}}
    same = "${ steps.trigger.output == trigger && steps.trigger.outcome == 'success' }"
    first = {"id": "first", "type": "set", "config": {"values": {"same": same}}}
    document = chain(first, delay, end(["${ state.same }", same]))
    ulid = await runtime.begun(document, {"n": [1.5, {"a": None}]})
    await take_turn(runtime.process(), ulid)
    await runtime.drive(runtime.process(), ulid)
    assert (await runtime.step(ulid, "end"))["output"] == [True, True]
    assert (await runtime.step(ulid, "trigger"))["output"] is None
