"""``ctx.once``: at most once with "fail", at least once with "run", once if nothing dies."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapter.errors import StepError
from adapter.records.effects import Effects
from adapter.settings import Limits
from tests.attacks.seams import PATIENCE, Held
from tests.driving.turns import take_single_turn
from tests.eventually import eventually_async
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.execution.context import ActionContext
    from adapter.execution.deps import TurnDeps
    from tests.execution.runtime import Runtime

FORMS = ["plain", "async"]
ONE = chain(action("one", "pay"))
TWICE = {"max_attempts": 2, "initial": "PT0S"}


def paying(
    runtime: Runtime,
    form: str,
    effect: Callable[..., Any],
    *,
    times: int = 1,
    timeout: float | None = None,
    retry: Any = None,
    **more: Any,
) -> None:
    """Registers ``pay``, whose effect happens in ``once``; both are async, or both plain."""
    register = runtime.registry.action("pay", timeout=timeout, retry=retry)
    if form == "plain":

        @register
        def plain(ctx: ActionContext) -> list[Any]:
            return [ctx.once("charge", effect, **more) for _ in range(times)]

    else:

        @functools.wraps(effect)
        async def awaited(*args: Any) -> Any:
            return await asyncio.to_thread(effect, *args)

        @register
        async def coroutine(ctx: ActionContext) -> list[Any]:
            return [await ctx.once("charge", awaited, **more) for _ in range(times)]


async def claims(runtime: Runtime, ulid: str) -> list[dict[str, Any]]:
    rows = await runtime.pool.fetch(
        "SELECT k.* FROM workflow_idempotency_keys k JOIN workflow_instances i"
        " ON i.id = k.instance_id WHERE i.ulid = $1 AND k.scope = 'effect' ORDER BY k.id",
        ulid,
    )
    return [{**row, "result": orjson.loads(row["result"])} for row in rows]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [None, {"id": 7, "amount": 12.5}, [], "text"])
async def test_a_second_call_gets_what_the_first_one_gave(
    runtime: Runtime, form: str, value: Any
) -> None:
    calls: list[str] = []

    def charge(key: str) -> Any:
        calls.append(key)
        return value

    paying(runtime, form, charge, times=3)
    ulid = await runtime.ran(ONE)
    assert (await runtime.step(ulid, "one"))["output"] == [value] * 3
    (claim,) = await claims(runtime, ulid)
    kept = {"value": value, "step": str((await runtime.step(ulid, "one"))["id"])}
    assert (claim["key"], claim["result"], claim["expires_at"]) == (
        calls[0],
        {**kept, "node": "one", "visit": 1, "name": "charge"},
        None,
    )
    assert len(calls) == 1


@pytest.mark.parametrize("form", FORMS)
async def test_a_later_attempt_does_not_repeat_what_has_happened(
    runtime: Runtime, form: str
) -> None:
    calls: list[str] = []

    def charge(key: str) -> str:
        calls.append(key)
        return key

    register = runtime.registry.action("pay", retry={"max_attempts": 3, "initial": "PT0S"})

    def end(ctx: ActionContext, value: str) -> str:
        if ctx.step.attempt < 3:
            raise ValueError("after the effect")
        return value

    if form == "plain":

        @register
        def plain(ctx: ActionContext) -> str:
            return end(ctx, ctx.once("charge", charge))

    else:

        @register
        async def coroutine(ctx: ActionContext) -> str:
            return end(ctx, await ctx.once("charge", charge))

    ulid = await runtime.ran(ONE)
    assert (await runtime.step(ulid, "one"))["attempt"] == 3
    assert [(await runtime.step(ulid, "one"))["output"]] == calls


async def test_keys_belong_to_instance_node_visit_and_name(runtime: Runtime) -> None:
    calls: list[str] = []

    @runtime.registry.action("pay")
    def pay(ctx: ActionContext) -> int:
        for name in ("a", "b", "1:a"):
            ctx.once(name, calls.append)
        return ctx.step.visit

    edges = [
        ("trigger", "one"),
        {"from": "one", "to": "one", "when": {"field": "steps.one.output", "op": "lt", "value": 2}},
        {"from": "one", "to": "two"},
    ]
    document = graph(action("one", "pay"), action("two", "pay"), edges=edges)
    for _ in range(2):
        await runtime.ran(document)
    assert len(calls) == len(set(calls)) == 2 * 3 * 3


@pytest.mark.parametrize(("key", "name"), [("a\0b", "a\ufffdb"), ("a\ud800b", "a?b")])
async def test_a_key_that_no_database_can_keep_is_one_all_the_same(
    runtime: Runtime, key: str, name: str
) -> None:
    @runtime.registry.action("pay")
    def pay(ctx: ActionContext) -> Any:
        return [ctx.once(key, lambda: 7), ctx.once(key, lambda: 8)]

    ulid = await runtime.ran(ONE)
    assert (await runtime.step(ulid, "one"))["output"] == [7, 7]
    assert [claim["result"]["name"] for claim in await claims(runtime, ulid)] == [name]


async def test_an_effect_without_a_parameter_gets_no_key(runtime: Runtime) -> None:
    @runtime.registry.action("pay")
    async def pay(ctx: ActionContext, row: int = 3) -> Any:
        return [
            await ctx.once("a", lambda: 1),
            await ctx.once("b", lambda row=row: row),
            await ctx.once("c", dict),
            len(await ctx.once("d", lambda key: key)),
        ]

    ulid = await runtime.ran(ONE)
    assert (await runtime.step(ulid, "one"))["output"] == [1, 3, {}, 64]


@pytest.mark.parametrize("form", FORMS)
async def test_an_effect_that_says_it_has_not_happened_is_tried_again(
    runtime: Runtime, form: str
) -> None:
    calls: list[int] = []

    def charge() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise StepError("busy", "try later")
        return "paid"

    paying(runtime, form, charge, retry=TWICE)
    ulid = await runtime.ran(ONE)
    assert (await runtime.step(ulid, "one"))["output"] == ["paid"]
    assert len(calls) == 2


@pytest.mark.parametrize("form", FORMS)
async def test_a8_an_effect_that_raises_is_uncertain(runtime: Runtime, form: str) -> None:
    calls: list[int] = []

    def charge() -> None:
        calls.append(1)
        raise TimeoutError("no answer")

    paying(runtime, form, charge, retry={"max_attempts": 5, "initial": "PT0S"})
    ulid = await runtime.ran(ONE)
    step = await runtime.step(ulid, "one")
    assert (step["attempt"], step["error_code"]) == (2, "effect_uncertain")
    assert step["error_retryable"] is False
    assert (await runtime.instance(ulid))["failure_code"] == "effect_uncertain"
    assert len(calls) == 1
    (claim,) = await claims(runtime, ulid)
    assert claim["result"].keys() == {"claim", "step", "node", "visit", "name"}


class Dying(Effects):
    """Dies after an effect, before its result is kept, as often as it is told to."""

    times = 1

    async def replace(self, connection: Any, digest: str, before: Any, after: Any) -> bool:
        if "value" in after and self.times > 0:
            self.times -= 1
            raise ConnectionResetError("killed")
        return await super().replace(connection, digest, before, after)


def dying(runtime: Runtime) -> TurnDeps:
    deps = runtime.process()
    deps.effects = Dying(runtime.settings)
    return deps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("if_uncertain", "count", "status"), [("fail", 1, "failed"), ("run", 2, "completed")]
)
async def test_a8_what_dies_between_effect_and_result_is_uncertain(
    runtime: Runtime, form: str, if_uncertain: str, count: int, status: str
) -> None:
    calls: list[str] = []
    paying(runtime, form, lambda key: calls.append(key), if_uncertain=if_uncertain, retry=TWICE)
    ulid = await runtime.begun(ONE)
    assert (await runtime.finish(dying(runtime), ulid)).status == status
    # A receiver that dedupes on the key has seen it once, in any case.
    assert (len(calls), len(set(calls))) == (count, 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("if_uncertain", "count", "status"), [("fail", 1, "failed"), ("run", 2, "completed")]
)
async def test_a8_a_process_that_stands_still_in_an_effect_loses_its_claim_with_its_step(
    runtime: Runtime, form: str, if_uncertain: str, count: int, status: str
) -> None:
    gate = Held(only=1)
    paying(runtime, form, lambda: gate.handler(), if_uncertain=if_uncertain, timeout=PATIENCE)
    ulid = await runtime.begun(ONE)
    turn = asyncio.create_task(take_single_turn(runtime.process(), ulid))
    await gate.reached()
    assert (await runtime.finish(runtime.process(), ulid)).status == status
    gate.let_go()
    assert not (await turn).ended
    assert gate.calls == count
    if if_uncertain == "run":
        (claim,) = await claims(runtime, ulid)
        assert claim["result"]["value"] == 2


async def test_two_calls_with_one_key_in_one_attempt_are_one_effect(runtime: Runtime) -> None:
    calls: list[int] = []

    @runtime.registry.action("pay")
    async def pay(ctx: ActionContext) -> Any:
        async def charge() -> int:
            await asyncio.sleep(0.05)
            calls.append(1)
            return len(calls)

        return await asyncio.gather(*(ctx.once("charge", charge) for _ in range(5)))

    ulid = await runtime.ran(ONE)
    assert (await runtime.step(ulid, "one"))["output"] == [1] * 5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", [True, False])
async def test_a_claim_whose_owner_is_at_work_is_waited_for(
    runtime: Runtime, form: str, ends: bool
) -> None:
    gate = Held()
    digests: list[str] = []
    claimed = asyncio.Event()
    loop = asyncio.get_running_loop()

    @runtime.registry.action("own", timeout=PATIENCE)
    def own(ctx: ActionContext) -> None:
        gate.handler()

    paying(runtime, form, lambda: "never", timeout=1.0 if ends else 0.3)
    both = {"id": "both", "type": "parallel", "config": {"branches": {"a": "one", "b": "other"}}}
    both["config"]["on_failure"] = "finish"  # type: ignore[index]
    document = graph(
        both, action("one", "pay"), action("other", "own"), edges=[("trigger", "both")]
    )

    class Claimed(Effects):
        """Finds each effect claimed by the step that stands still."""

        async def claim(self, connection: Any, digest: str, instance: Any, claim: Any) -> Any:
            if not digests:
                digests.append(digest)
                owner = await connection.fetchrow(
                    "SELECT id, claim_token FROM workflow_step_runs WHERE instance_id = $1"
                    " AND node_id = 'other'",
                    instance,
                )
                theirs = {**claim, "step": str(owner["id"]), "claim": "another"}
                await connection.execute(
                    "UPDATE workflow_step_runs SET claim_token = 'another' WHERE id = $1",
                    owner["id"],
                )
                await super().claim(connection, digest, instance, theirs)
            found = await super().claim(connection, digest, instance, claim)
            loop.call_soon_threadsafe(claimed.set)
            return found

    ulid = await runtime.begun(document)
    deps = runtime.process()
    deps.effects = Claimed(runtime.settings)
    turn = asyncio.create_task(runtime.finish(deps, ulid))
    await asyncio.wait_for(claimed.wait(), PATIENCE)
    if ends:
        await runtime.pool.execute(
            'UPDATE workflow_idempotency_keys SET result = \'{"value": "theirs"}\' WHERE key = $1',
            digests[0],
        )
    else:

        async def failed() -> None:
            step = await runtime.step(ulid, "one")
            assert (step["error_code"], step["error_retryable"]) == ("step_timed_out", True)

        await eventually_async(failed)
    gate.let_go()
    await turn
    if ends:
        assert (await runtime.step(ulid, "one"))["output"] == ["theirs"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("value", "code"), [(object(), "invalid_output"), ("x" * 2_000, "output_too_large")]
)
async def test_a_value_that_cannot_be_kept_fails_the_step_and_is_not_repeated(
    runtime: Runtime, form: str, value: Any, code: str
) -> None:
    runtime.limit(Limits(max_output_bytes=1_024))
    calls: list[int] = []

    def charge() -> Any:
        calls.append(1)
        return value

    paying(runtime, form, charge, retry=TWICE)
    ulid = await runtime.ran(ONE)
    step = await runtime.step(ulid, "one")
    assert (step["error_code"], step["error_retryable"]) == (code, False)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        (("", lambda: 1), {}, "1 to 500 characters"),
        ((7, lambda: 1), {}, "1 to 500 characters"),
        (("k" * 501, lambda: 1), {}, "1 to 500 characters"),
        (("k", lambda: 1), {"if_uncertain": "maybe"}, "'fail' or 'run'"),
    ],
)
async def test_arguments_that_cannot_be_used_are_refused(
    runtime: Runtime, arguments: Any, more: Any, message: str
) -> None:
    @runtime.registry.action("pay")
    def pay(ctx: ActionContext) -> None:
        ctx.once(*arguments, **more)

    ulid = await runtime.ran(ONE)
    assert message in (await runtime.step(ulid, "one"))["error_message"]
    assert await claims(runtime, ulid) == []


async def test_an_async_effect_needs_an_async_handler(runtime: Runtime) -> None:
    async def charge() -> None:
        raise AssertionError("not reached")

    paying(runtime, "plain", charge)
    ulid = await runtime.ran(ONE)
    assert "make it async" in (await runtime.step(ulid, "one"))["error_message"]
