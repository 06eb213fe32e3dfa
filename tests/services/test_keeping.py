from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.client.almanac import Almanac
from adapter.errors import NotFound, StepError
from adapter.execution.context import ActionContext  # noqa: TC001 - handlers are called with it
from adapter.execution.registry import Registry
from adapter.settings import Settings
from tests.services.graphs import document
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from tests.services.conftest import Rows

UNKNOWN = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"


def signalled(**config: Any) -> dict[str, Any]:
    """A wait for signals and then an end."""
    return document(
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "ask", "type": "wait", "config": config},
            {"id": "done", "type": "end"},
        ],
        edges=[{"from": "begin", "to": "ask"}, {"from": "ask", "to": "done"}],
    )


def begun(almanac: Almanac, graph: dict[str, Any]) -> str:
    almanac.publish(graph, check_actions=False)
    ulid = almanac.start("permits").ulid
    take_turns(almanac.settings, ulid, registry=almanac.registry)
    return ulid


def kept(almanac: Almanac, ulid: str) -> list[tuple[str, Any]]:
    return [(signal.name, signal.payload) for signal in almanac.show(ulid).signals]


def test_a_signal_that_nobody_waits_for_is_shown_until_it_is_taken(almanac: Almanac) -> None:
    ulid = begun(almanac, signalled(signal="paid"))
    first = almanac.signal(ulid, "waived", {"n": 1}, "A-17", sender=("user", 3))
    almanac.signal(ulid, "waived", {"n": 2})
    assert almanac.show(ulid).signals == ()
    take_turns(almanac.settings, ulid)

    view = almanac.show(ulid)

    assert kept(almanac, ulid) == [("waived", {"n": 1}), ("waived", {"n": 2})]
    (one, _) = view.signals
    assert (one.id, one.correlation, one.sender) == (first.id, "A-17", "user:3")
    assert one.created_at == almanac.inbox(ulid).items[1].created_at
    assert view.as_json()["signals"][0]["name"] == "waived"
    assert [signal.name for signal in almanac.show(ulid, most=1).signals] == ["waived"]
    assert almanac.wait_applied(first, 0).kept


def test_a_signal_that_a_wait_has_taken_is_kept_no_more(almanac: Almanac) -> None:
    ulid = begun(almanac, signalled(signals=["a", "b"]))
    receipt = almanac.signal(ulid, "a")
    almanac.signal(ulid, "a", {"n": 2})
    take_turns(almanac.settings, ulid)

    assert kept(almanac, ulid) == [("a", {"n": 2})]
    assert [row.kept for row in almanac.inbox(ulid).items] == [False, False, True]
    assert not almanac.wait_applied(receipt, 0).kept
    assert almanac.awaited_signals(ulid) == ("b",)

    last = almanac.signal(ulid, "b")
    take_turns(almanac.settings, ulid)

    assert almanac.show(ulid).status == "completed"
    assert kept(almanac, ulid) == [("a", {"n": 2})]
    assert not almanac.wait_applied(last, 0).kept
    assert almanac.awaited_signals(ulid) == ()


def test_a_signal_that_does_not_fit_the_wait_is_kept(almanac: Almanac) -> None:
    ulid = begun(almanac, signalled(signal="paid", correlation="A-17", match={"n": 1}))
    receipt = almanac.signal(ulid, "paid", {"n": 1}, "A-18")
    take_turns(almanac.settings, ulid)

    assert almanac.awaited_signals(ulid.lower()) == ("paid",)
    assert almanac.wait_applied(receipt, 0).kept
    assert kept(almanac, ulid) == [("paid", {"n": 1})]


def test_what_is_awaited_is_asked_of_an_instance_that_exists(almanac: Almanac) -> None:
    with pytest.raises(NotFound):
        almanac.awaited_signals(UNKNOWN)


def paying() -> dict[str, Any]:
    pay = {"action": "pay"}
    return document(
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "deposit", "type": "action", "config": pay},
            {"id": "rest", "type": "action", "config": pay},
            {"id": "done", "type": "end"},
        ],
        edges=[
            {"from": "begin", "to": "deposit"},
            {"from": "deposit", "to": "rest"},
            {"from": "rest", "to": "done"},
        ],
    )


def test_effects_are_shown_with_the_step_that_has_claimed_them(almanac: Almanac) -> None:
    @almanac.registry.action("pay")
    def pay(ctx: ActionContext) -> Any:
        def charge() -> dict[str, int]:
            if ctx.step.node == "rest":
                raise TimeoutError("no answer")
            return {"receipt": 7}

        return ctx.once("payment", charge)

    ulid = begun(almanac, paying())

    view = almanac.show(ulid)

    deposit, rest = view.effects
    steps = {step.node: step.id for step in view.steps}
    assert (deposit.node, deposit.step, deposit.visit) == ("deposit", steps["deposit"], 1)
    assert (deposit.status, deposit.value) == ("done", {"receipt": 7})
    assert (rest.node, rest.step, rest.status, rest.value) == (
        "rest",
        steps["rest"],
        "uncertain",
        None,
    )
    assert (len(deposit.key), deposit.name, rest.name) == (64, "payment", "payment")
    assert view.as_json()["effects"][0]["value"] == {"receipt": 7}
    assert almanac.show(ulid, most=1).effects == (rest,)


def test_an_effect_that_is_under_way_is_claimed(almanac: Almanac) -> None:
    seen: list[Any] = []

    @almanac.registry.action("pay")
    def pay(ctx: ActionContext) -> Any:
        return ctx.once("payment", lambda: seen.append(almanac.show(ctx.instance.ulid).effects))

    begun(almanac, paying())

    assert [effect.status for effect in seen[0]] == ["claimed"]


def test_an_effect_that_says_itself_that_it_failed_is_not_claimed(almanac: Almanac) -> None:
    @almanac.registry.action("pay")
    def pay(ctx: ActionContext) -> Any:
        def charge() -> None:
            raise StepError("declined", "no cover", retryable=False)

        return ctx.once("payment", charge)

    assert almanac.show(begun(almanac, paying())).effects == ()


def test_an_effect_of_an_earlier_record_has_no_step(almanac: Almanac, rows: Rows) -> None:
    ulid = begun(almanac, signalled(signal="paid"))
    rows(
        "INSERT INTO workflow_idempotency_keys (scope, key, instance_id, result)"
        " SELECT 'effect', repeat('a', 64), id, '{\"value\": null}' FROM workflow_instances"
    )

    (effect,) = almanac.show(ulid).effects

    assert (effect.name, effect.step, effect.node, effect.visit) == (None,) * 4
    assert (effect.status, effect.value) == ("done", None)


@pytest.mark.parametrize("kind", ["bigint", "uuid", "ulid"])
def test_what_is_kept_is_read_with_every_type_of_key(empty_database_url: str, kind: Any) -> None:
    settings = Settings(database_url=empty_database_url, primary_key_type=kind)
    registry = Registry()

    @registry.action("pay")
    def pay(ctx: ActionContext) -> Any:
        return ctx.once("payment", lambda: 7)

    with Almanac(settings, registry=registry) as almanac:
        almanac.migrate()
        ulid = begun(almanac, paying())
        assert [effect.status for effect in almanac.show(ulid).effects] == ["done", "done"]
        ulid = begun(almanac, signalled(signals=["a", "b"]))
        almanac.signal(ulid, "a")
        receipt = almanac.signal(ulid, "c")
        take_turns(settings, ulid)
        (signal,) = almanac.show(ulid).signals
        assert (signal.id, signal.name) == (receipt.id, "c")
        assert almanac.wait_applied(receipt, 0).kept
        assert [row.kept for row in almanac.inbox(ulid).items] == [False, False, True]
        assert almanac.awaited_signals(ulid) == ("b",)
