from __future__ import annotations

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import errors, sql
from temporalio.client import Client

from adapter.client.almanac import Almanac
from adapter.execution.registry import Registry
from adapter.settings import Settings
from temporal_workflows.worker import running_worker
from tests.docs.pages import read_page
from tests.docs.settings_rows import settings_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = read_page("docs/operations.md")
ROLES = ("caller", "worker", "reader")
PAID: dict[str, Any] = {
    "schema": "roundly.workflows.graph/v1",
    "key": "orders",
    "name": "Orders",
    "nodes": [
        {"id": "order", "type": "trigger", "config": {"type": "event", "event": "order.placed"}},
        {
            "id": "paid",
            "type": "wait",
            "config": {"event": "order.paid", "match": {"order": "${ trigger.order }"}},
        },
        {"id": "pack", "type": "action", "config": {"action": "orders.pack"}},
    ],
    "edges": [{"from": "order", "to": "paid"}, {"from": "paid", "to": "pack"}],
}


def statements(heading: str) -> list[str]:
    return re.findall(r"^```sql\n(.*?)^```", PAGE.section(heading), re.MULTILINE | re.DOTALL)


def test_the_page_lists_every_setting_with_its_values_and_default() -> None:
    listed = re.findall(r"^\| (`ALMANAC_.+?) \| (.+?) \| ?(.*?) \| .*\|$", PAGE.text, re.MULTILINE)
    assert listed == settings_rows()


@pytest.mark.parametrize("heading", ["Sizing", "What to watch", "Retention", "Backup and restore"])
def test_the_statements_run(database_url: str, heading: str) -> None:
    found = statements(heading)
    assert found
    with psycopg.connect(database_url) as connection:
        for statement in found:
            connection.execute(statement.encode())


class Roles:
    """The three roles of the page under names of this test's own."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._mark = secrets.token_hex(4)
        self._password = secrets.token_hex(8)

    def create(self) -> None:
        (grants,) = statements("Database roles")
        grants = re.sub(r"almanac_(\w+)", rf"almanac_\1_{self._mark}", grants)
        with psycopg.connect(self._url, autocommit=True) as owner:
            owner.execute(grants.encode())
            for role in ROLES:
                change = sql.SQL("ALTER ROLE {} PASSWORD {}")
                owner.execute(change.format(self._named(role), sql.Literal(self._password)))

    def drop(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as owner:
            for role in ROLES:
                owner.execute(sql.SQL("DROP OWNED BY {}").format(self._named(role)))
                owner.execute(sql.SQL("DROP ROLE {}").format(self._named(role)))

    def url(self, role: str) -> str:
        parts = urlsplit(self._url)
        place = parts.netloc.rpartition("@")[2]
        user = f"almanac_{role}_{self._mark}:{quote(self._password)}"
        return urlunsplit(parts._replace(netloc=f"{user}@{place}"))

    def _named(self, role: str) -> sql.Identifier:
        return sql.Identifier(f"almanac_{role}_{self._mark}")


@pytest.fixture
def roles(database_url: str) -> Iterator[Roles]:
    roles = Roles(database_url)
    roles.create()
    yield roles
    roles.drop()


async def test_each_role_can_do_its_part(roles: Roles, temporal_address: str) -> None:
    registry = Registry()

    @registry.action("orders.pack")
    def pack() -> str:
        return "packed"

    worker = Settings(
        database_url=roles.url("worker"),
        temporal_address=temporal_address,
        task_queue=secrets.token_hex(8),
    )
    client = await Client.connect(temporal_address)
    with Almanac(Settings(database_url=roles.url("caller")), registry=registry) as almanac:
        async with running_worker(worker, registry, client=client):
            view = await asyncio.to_thread(_order, almanac)
    assert (view.status, view.steps[-1].output) == ("completed", "packed")
    with Almanac(Settings(database_url=roles.url("reader"))) as almanac:
        assert almanac.show(view.ulid).status == "completed"


def _order(almanac: Almanac) -> Any:
    almanac.publish(PAID)
    almanac.publish({**PAID, "name": "Orders, again"})
    almanac.emit("order.placed", {"order": 7})
    almanac.emit("order.paid", {"order": 7})
    almanac.publish({**PAID, "key": "other", "name": "Other", **_by_hand()})
    other = almanac.start("other", idempotency_key="once")
    assert almanac.start("other", idempotency_key="once").ulid == other.ulid
    assert almanac.wait(other.ulid, timeout=30).status == "completed"
    return almanac.wait(_first(almanac), timeout=30)


def _by_hand() -> dict[str, Any]:
    trigger = {"id": "order", "type": "trigger", "config": {"type": "manual"}}
    return {"nodes": [trigger], "edges": []}


def _first(almanac: Almanac) -> str:
    from tests.eventually import eventually

    def found() -> str:
        items = almanac.list(key="orders").items
        assert items
        return items[0].ulid

    return eventually(found)


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("caller", "UPDATE workflow_instances SET status = 'completed'"),
        ("caller", "INSERT INTO workflow_journal VALUES (1, 1, 'completed')"),
        ("caller", "UPDATE workflow_versions SET graph = '{}'"),
        ("worker", "UPDATE workflow_versions SET status = 'draft'"),
        ("worker", "DELETE FROM workflow_journal"),
        ("worker", "UPDATE workflow_events SET payload = '{}'"),
        ("reader", "INSERT INTO workflow_inbox (instance_id, kind) VALUES (1, 'start')"),
        ("reader", "DELETE FROM workflow_events"),
    ],
)
def test_no_role_can_do_more(roles: Roles, role: str, statement: str) -> None:
    with (
        psycopg.connect(roles.url(role)) as connection,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())
