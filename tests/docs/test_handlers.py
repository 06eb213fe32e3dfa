"""What the page on handlers says of an effect that is uncertain, done as it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from adapter.client.almanac import Almanac
from adapter.execution.context import ActionContext  # noqa: TC001 - handlers are called with it
from adapter.execution.registry import Registry
from adapter.settings import Settings
from tests.docs.pages import read_page
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTED, HAPPENED, NOT_HAPPENED = (
    block.text for block in read_page("docs/handlers.md").blocks("sql")
)
DOCUMENT: dict[str, Any] = {
    "schema": "roundly.workflows.graph/v1",
    "key": "orders",
    "name": "Orders",
    "nodes": [
        {"id": "order", "type": "trigger", "config": {"type": "manual"}},
        {"id": "pay", "type": "action", "config": {"action": "pay"}},
    ],
    "edges": [{"from": "order", "to": "pay"}],
}


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def almanac(database_url: str, calls: list[str]) -> Iterator[Almanac]:
    registry = Registry()

    @registry.action("pay")
    def pay(ctx: ActionContext) -> Any:
        def charge(key: str) -> str:
            calls.append(key)
            if len(calls) == 1:
                raise ValueError("no answer")
            return "paid at last"

        return ctx.once("payment", charge)

    with Almanac(Settings(database_url=database_url), registry=registry) as almanac:
        almanac.publish(DOCUMENT)
        yield almanac


def uncertain(almanac: Almanac) -> str:
    """An instance whose effect raised, tried again once."""
    ulid = almanac.start("orders").ulid
    take_turns(almanac.settings, ulid, registry=almanac.registry)
    retry(almanac, ulid)
    return ulid


def retry(almanac: Almanac, ulid: str) -> None:
    almanac.retry(ulid)
    take_turns(almanac.settings, ulid, registry=almanac.registry)


def stands(almanac: Almanac, ulid: str) -> tuple[str, str | None, Any]:
    view = almanac.show(ulid)
    return (
        view.status,
        None if view.failure is None else view.failure.code,
        view.steps[-1].output,
    )


def run(database_url: str, statement: str, **given: str) -> list[tuple[Any, ...]]:
    for shown, real in given.items():
        statement = statement.replace(shown, real)
    with psycopg.connect(database_url) as connection:
        cursor = connection.execute(statement.encode())
        assert cursor.rowcount == 1, statement
        return cursor.fetchall() if cursor.description else []


def mend(almanac: Almanac, ulid: str, database_url: str, statement: str) -> None:
    (effect,) = almanac.show(ulid).effects
    assert (effect.name, effect.status) == ("payment", "uncertain")
    example = LISTED.partition("ulid = '")[2].partition("'")[0]
    ((key, *told),) = run(database_url, LISTED, **{example: ulid})
    assert (key, told[:3]) == (effect.key, ["payment", "pay", "1"])
    run(database_url, statement, **{"<key>": key})
    retry(almanac, ulid)


def test_the_first_attempt_fails_with_its_own_error_and_the_next_ones_are_uncertain(
    almanac: Almanac, calls: list[str]
) -> None:
    ulid = uncertain(almanac)
    codes = [step.error_code for step in almanac.show(ulid).steps if step.error_code]
    assert codes == ["step_failed", "effect_uncertain"]
    retry(almanac, ulid)
    assert stands(almanac, ulid)[:2] == ("failed", "effect_uncertain")
    assert len(calls) == 1


def test_an_uncertain_effect_that_has_happened_gives_what_the_row_says(
    almanac: Almanac, calls: list[str], database_url: str
) -> None:
    ulid = uncertain(almanac)
    mend(almanac, ulid, database_url, HAPPENED)
    assert stands(almanac, ulid) == ("completed", None, {"receipt": 17})
    assert len(calls) == 1


def test_an_uncertain_effect_that_has_not_happened_is_called_again(
    almanac: Almanac, calls: list[str], database_url: str
) -> None:
    ulid = uncertain(almanac)
    mend(almanac, ulid, database_url, NOT_HAPPENED)
    assert stands(almanac, ulid) == ("completed", None, "paid at last")
    assert calls == [calls[0]] * 2
