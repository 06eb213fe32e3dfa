"""Transactional handlers: what they write is there exactly once, if their step has succeeded."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from sqlalchemy import text
from ulid import ULID

from adapter.errors import InvalidInput, StepError
from adapter.execution.cache import Folded
from adapter.execution.instance import Instance, Superseded
from adapter.execution.offers import Offer
from adapter.records.append import Appended, Appender
from adapter.records.migrating import upgrade
from adapter.records.writers import step_token
from adapter.settings import Settings
from tests.attacks.seams import PATIENCE, Held, assert_sound
from tests.driving.turns import run_step, take_single_turn, take_turn
from tests.execution.runtime import Runtime, action, chain, graph, open_runtime
from tests.records.databases import fresh_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

    from adapter.execution.context import ActionContext
    from adapter.execution.deps import TurnDeps
    from temporal_workflows.dev.stack import Stack

WRITE = text("INSERT INTO host_rows (ulid, n, attempt) VALUES (:ulid, :n, :attempt)")
FORMS = ["plain", "async"]


@dataclass
class Host:
    """A host's table beside the record."""

    runtime: Runtime

    async def rows(self, ulid: str) -> list[tuple[int, int]]:
        rows = await self.runtime.pool.fetch(
            "SELECT n, attempt FROM host_rows WHERE ulid = $1 ORDER BY n", ulid
        )
        return [tuple(row) for row in rows]

    def writer(
        self, form: str, during: Callable[[ActionContext], Any] | None = None, **options: Any
    ) -> None:
        """Registers ``write``, which writes a row and then does something more."""
        register = self.runtime.registry.action("write", transactional=True, **options)

        def values(ctx: ActionContext, n: int) -> dict[str, Any]:
            return {"ulid": ctx.instance.ulid, "n": n, "attempt": ctx.step.attempt}

        if form == "plain":

            @register
            def plain(ctx: ActionContext, n: int = 0) -> int:
                ctx.connection.execute(WRITE, values(ctx, n))
                if during is not None:
                    during(ctx)
                return n

        else:

            @register
            async def coroutine(ctx: ActionContext, n: int = 0) -> int:
                await ctx.connection.execute(WRITE, values(ctx, n))
                if during is not None:
                    await asyncio.to_thread(during, ctx)
                return n


@pytest_asyncio.fixture
async def host(runtime: Runtime) -> Host:
    await make_table(runtime)
    return Host(runtime)


async def make_table(runtime: Runtime) -> None:
    async with runtime.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(4711)")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS host_rows (ulid text, n int, attempt int,"
            " CONSTRAINT once UNIQUE (ulid, n) DEFERRABLE INITIALLY DEFERRED)"
        )


@pytest.mark.parametrize("form", FORMS)
async def test_a_handler_s_rows_and_the_end_of_its_step_are_one_commit(
    host: Host, form: str
) -> None:
    host.writer(form)
    document = chain(action("one", "write"), action("two", "write", input={"n": 1}))
    ulid = await host.runtime.ran(document)
    assert await host.rows(ulid) == [(0, 1), (1, 1)]
    assert (await host.runtime.step(ulid, "two"))["output"] == 1
    together = await host.runtime.pool.fetch(
        "SELECT h.n, s.node_id FROM host_rows h JOIN workflow_step_runs s ON s.xmin = h.xmin"
        " WHERE h.ulid = $1 ORDER BY h.n, s.id",
        ulid,
    )
    assert [tuple(row) for row in together] == [(0, "one"), (1, "two")]
    await assert_sound(host.runtime, ulid)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keys", ["uuid", "ulid"])
async def test_transactions_work_with_every_type_of_key(stack: Stack, form: str, keys: Any) -> None:
    settings = Settings(primary_key_type=keys)
    with fresh_database(stack) as url:
        await asyncio.to_thread(upgrade, url, settings)
        async with open_runtime(url, settings) as runtime:
            await make_table(runtime)
            host = Host(runtime)
            host.writer(form)
            ulid = await runtime.ran(chain(action("one", "write"), action("two", "write")))
            assert (await runtime.instance(ulid))["status"] == "failed"
            ulid = await runtime.ran(chain(action("one", "write")))
            assert (await runtime.instance(ulid))["status"] == "completed"
            assert await host.rows(ulid) == [(0, 1)]


@pytest.mark.parametrize("form", FORMS)
async def test_a_handler_that_fails_has_written_nothing(host: Host, form: str) -> None:
    def fail(ctx: ActionContext) -> None:
        if ctx.step.attempt < 3:
            raise StepError("not_yet", "not yet")

    host.writer(form, fail, retry={"max_attempts": 3, "initial": "PT0S"})
    ulid = await host.runtime.ran(chain(action("one", "write")))
    rows = [s for s in await host.runtime.rows("step_runs", ulid) if s["node_id"] == "one"]
    assert [(s["status"], s["error_code"]) for s in rows] == [
        ("failed", "not_yet"),
        ("failed", "not_yet"),
        ("succeeded", None),
    ]
    assert await host.rows(ulid) == [(0, 3)]


@pytest.mark.parametrize("form", FORMS)
async def test_a_commit_that_is_refused_fails_the_step(host: Host, form: str) -> None:
    host.writer(form)
    ulid = await host.runtime.ran(chain(action("one", "write"), action("two", "write")))
    step = await host.runtime.step(ulid, "two")
    assert (step["status"], step["error_code"]) == ("failed", "step_failed")
    assert "duplicate key" in step["error_message"]
    assert (await host.runtime.instance(ulid))["status"] == "failed"
    assert await host.rows(ulid) == [(0, 1)]
    await assert_sound(host.runtime, ulid)


def _wrong(name: str, connection: Connection) -> None:
    if name == "commits":
        connection.commit()
    elif name == "rolls back":
        connection.rollback()
    else:
        with suppress(Exception):
            connection.execute(text("SELECT 1 / 0"))


async def _wrong_async(name: str, connection: AsyncConnection) -> None:
    await connection.run_sync(lambda sync: _wrong(name, sync))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("commits", "a transactional handler does not commit"),
        ("rolls back", "the handler ended its transaction"),
        ("goes on after an error", "current transaction is aborted"),
    ],
)
async def test_a_handler_that_spoils_its_transaction_has_failed(
    host: Host, form: str, name: str, message: str
) -> None:
    register = host.runtime.registry.action("write", transactional=True)
    if form == "plain":

        @register
        def plain(ctx: ActionContext) -> None:
            ctx.connection.execute(WRITE, {"ulid": ctx.instance.ulid, "n": 0, "attempt": 1})
            _wrong(name, ctx.connection)

    else:

        @register
        async def coroutine(ctx: ActionContext) -> None:
            await ctx.connection.execute(WRITE, {"ulid": ctx.instance.ulid, "n": 0, "attempt": 1})
            await _wrong_async(name, ctx.connection)

    ulid = await host.runtime.ran(chain(action("one", "write")))
    step = await host.runtime.step(ulid, "one")
    assert (step["status"], step["error_code"]) == ("failed", "step_failed")
    assert message in step["error_message"]
    assert await host.rows(ulid) == []


async def test_what_may_fail_alone_has_a_savepoint(host: Host) -> None:
    @host.runtime.registry.action("write", transactional=True)
    def write(ctx: ActionContext) -> str:
        ctx.connection.execute(WRITE, {"ulid": ctx.instance.ulid, "n": 0, "attempt": 1})
        try:
            with ctx.connection.begin_nested():
                ctx.connection.execute(text("SELECT 1 / 0"))
        except Exception as error:
            return type(error).__name__
        return "fine"

    ulid = await host.runtime.ran(chain(action("one", "write")))
    assert (await host.runtime.step(ulid, "one"))["output"] == "DataError"
    assert await host.rows(ulid) == [(0, 1)]


async def test_only_transactional_handlers_have_a_connection(host: Host) -> None:
    @host.runtime.registry.action("look")
    def look(ctx: ActionContext) -> Any:
        return ctx.connection

    ulid = await host.runtime.ran(chain(action("one", "look")))
    assert "transactional=True" in (await host.runtime.step(ulid, "one"))["error_message"]
    with pytest.raises(InvalidInput, match="give it a parameter 'ctx'"):
        host.runtime.registry.action("none", transactional=True)(lambda: None)


class Counting(Appender):
    """Counts the appends through handlers' transactions that were refused."""

    refused = 0

    async def append(self, connection: Any, **arguments: Any) -> Appended | None:
        appended = await super().append(connection, **arguments)
        if appended is None and isinstance(connection, Offer):
            self.refused += 1
        return appended


@asynccontextmanager
async def busy_neighbour(deps: TurnDeps, runtime: Runtime, ulid: str) -> AsyncIterator[None]:
    """Appends all the time, as the queued steps of other branches do."""

    async def append() -> None:
        while True:
            await runtime.tell(ulid, "note", {})
            instance = Instance(deps, ulid, step_token(str(ULID())), Folded())
            async with runtime.pool.acquire() as connection:
                arrived = await instance.load(connection)
                with suppress(Superseded):
                    await instance.advance(connection, arrived, begin=False)

    task = asyncio.create_task(append())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("form", FORMS)
async def test_b14_transactional_handlers_beside_a_busy_neighbour_all_come_through_once(
    host: Host, form: str
) -> None:
    runtime = host.runtime
    host.writer(form, lambda ctx: ctx.cancelled.wait(0.1))
    document = graph(
        {
            "id": "each",
            "type": "for_each",
            "config": {"items": "${ trigger }", "body": "one", "concurrency": 20},
        },
        action("one", "write", input={"n": "${ item }"}),
        edges=[("trigger", "each")],
    )
    ulid = await runtime.begun(document, list(range(20)))
    deps = runtime.process()
    appender = Counting(runtime.settings)
    deps.appender = appender
    async with busy_neighbour(runtime.process(), runtime, ulid):
        result = await runtime.finish(deps, ulid)
    assert result.status == "completed"
    assert await host.rows(ulid) == [(n, 1) for n in range(20)]
    assert appender.refused > 0
    await assert_sound(runtime, ulid)


@pytest.mark.parametrize("form", FORMS)
async def test_b14_a_handler_s_transaction_locks_nothing_of_the_instance(
    host: Host, form: str
) -> None:
    gate = Held()
    host.writer(form, lambda _: gate.handler(), timeout=PATIENCE)
    ulid = await host.runtime.begun(chain(action("one", "write")))
    turn = asyncio.create_task(take_turn(host.runtime.process(), ulid))
    await gate.reached()
    async with host.runtime.pool.acquire() as connection, connection.transaction():
        await connection.execute(
            "SELECT 1 FROM workflow_instances WHERE ulid = $1 FOR UPDATE NOWAIT", ulid
        )
    gate.let_go()
    assert (await turn).ended
    assert await host.rows(ulid) == [(0, 1)]


@pytest.mark.parametrize("form", FORMS)
async def test_a12_a_handler_whose_step_was_taken_over_leaves_nothing(
    host: Host, form: str
) -> None:
    gate = Held(only=1)
    host.writer(form, lambda _: gate.handler(), timeout=PATIENCE)
    # Rows that do not wait for each other, as two of the same key would.
    await host.runtime.pool.execute("ALTER TABLE host_rows DROP CONSTRAINT once")
    ulid = await host.runtime.begun(chain(action("one", "write")))
    turn = asyncio.create_task(take_single_turn(host.runtime.process(), ulid))
    await gate.reached()
    assert (await host.runtime.finish(host.runtime.process(), ulid)).status == "completed"
    gate.let_go()
    assert not (await turn).ended
    assert await host.rows(ulid) == [(0, 2)]
    await assert_sound(host.runtime, ulid)
    await host.runtime.pool.execute("DROP TABLE host_rows")


class Breaking(Appender):
    """Breaks off at the first append that goes into a handler's transaction."""

    def __init__(self, settings: Settings, when: str) -> None:
        super().__init__(settings)
        self.when = when

    async def append(self, connection: Any, **arguments: Any) -> Appended | None:
        if isinstance(connection, Offer) and self.when == "before the append":
            raise ConnectionResetError("killed")
        appended = await super().append(connection, **arguments)
        if isinstance(connection, Offer) and self.when == "before the commit":
            raise ConnectionResetError("killed")
        return appended


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("when", ["before the append", "before the commit", "after the commit"])
async def test_a_turn_that_dies_around_the_commit_leaves_the_rows_once(
    host: Host, form: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = host.runtime
    host.writer(form)
    document = chain(action("one", "write"), action("two", "write", input={"n": 1}))
    ulid = await runtime.begun(document)
    first = runtime.process()
    first.appender = Breaking(runtime.settings, when)
    commit = Offer.commit

    async def killed(self: Offer) -> None:
        await commit(self)
        raise ConnectionResetError("killed")

    with monkeypatch.context() as patch:
        if when == "after the commit":
            patch.setattr(Offer, "commit", killed)
        with pytest.raises(ConnectionResetError):
            await take_turn(first, ulid)
    assert (await runtime.finish(runtime.process(), ulid)).status == "completed"
    again = 1 if when == "after the commit" else 2
    # The second step had begun in the commit of the first one.
    assert await host.rows(ulid) == [(0, again), (1, 3 - again)]
    await assert_sound(runtime, ulid)


@pytest.mark.parametrize("form", FORMS)
async def test_a_connection_that_breaks_with_the_commit_is_no_failure_of_the_handler(
    host: Host, form: str
) -> None:
    """Its server process is ended: the turn is repeated, and the record says what has happened."""
    runtime = host.runtime
    register = runtime.registry.action("write", transactional=True)
    pid = text("SELECT pg_backend_pid()")
    end = "SELECT pg_terminate_backend($1, 5000)"
    loop = asyncio.get_running_loop()

    def terminate(process: int) -> None:
        asyncio.run_coroutine_threadsafe(runtime.pool.fetchval(end, process), loop).result(10)

    if form == "plain":

        @register
        def plain(ctx: ActionContext) -> int:
            if ctx.step.attempt == 1:
                terminate(ctx.connection.execute(pid).scalar_one())
            return ctx.step.attempt

    else:

        @register
        async def coroutine(ctx: ActionContext) -> int:
            if ctx.step.attempt == 1:
                process = (await ctx.connection.execute(pid)).scalar_one()
                await asyncio.to_thread(terminate, process)
            return ctx.step.attempt

    ulid = await runtime.begun(chain(action("one", "write")))
    process = runtime.process()
    with pytest.raises(ConnectionError):
        await take_turn(process, ulid)
    assert (await runtime.finish(process, ulid)).status == "completed"
    assert await runtime.steps(ulid) == [
        *(await runtime.steps(ulid))[:-2],
        ("one", 1, "lost"),
        ("one", 2, "succeeded"),
    ]


@pytest.mark.parametrize("form", FORMS)
async def test_handlers_wait_for_a_connection_and_that_is_not_their_time(
    host: Host, form: str
) -> None:
    host.writer(form, lambda ctx: ctx.cancelled.wait(0.1), timeout=0.3)
    each = {"items": "${ trigger }", "body": "one", "concurrency": 6}
    document = graph(
        {"id": "each", "type": "for_each", "config": each},
        action("one", "write", input={"n": "${ item }"}),
        edges=[("trigger", "each")],
    )
    ulid = await host.runtime.begun(document, list(range(6)))
    result = await host.runtime.finish(host.runtime.process(transactions=1), ulid)
    assert result.status == "completed"
    assert await host.rows(ulid) == [(n, 1) for n in range(6)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", ["well", "badly", "refused"])
async def test_a_queued_step_ends_in_its_handler_s_transaction_too(
    host: Host, form: str, ends: str
) -> None:
    runtime = host.runtime

    def during(_: ActionContext) -> None:
        if ends == "badly":
            raise StepError("no", "no", retryable=False)

    host.writer(form, during, timeout=60)
    ulid = await runtime.begun(chain(action("one", "write")))
    if ends == "refused":
        await runtime.pool.execute("INSERT INTO host_rows VALUES ($1, 0, 0)", ulid)
    deps = runtime.process()
    result = await take_turn(deps, ulid, activities=True)
    assert result.queued is not None
    (queued,) = result.queued
    await run_step(deps, ulid, queued.step)
    step = await runtime.step(ulid, "one")
    assert step["status"] == ("succeeded" if ends == "well" else "failed")
    assert await host.rows(ulid) == {"well": [(0, 1)], "badly": [], "refused": [(0, 0)]}[ends]


@pytest.mark.parametrize("form", FORMS)
async def test_a_time_out_rolls_back(host: Host, form: str) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def overrun(ctx: ActionContext) -> None:
        ctx.cancelled.wait(PATIENCE)
        loop.call_soon_threadsafe(over.set)

    host.writer(form, overrun, timeout=0.1)
    ulid = await host.runtime.ran(chain(action("one", "write")))
    assert (await host.runtime.step(ulid, "one"))["error_code"] == "step_timed_out"
    await asyncio.wait_for(over.wait(), PATIENCE)
    for runner in host.runtime.runners:
        runner.stop()
    assert await host.rows(ulid) == []


async def _ran(host: Host, count: int) -> list[str]:
    document = chain(action("one", "write"), action("two", "write", input={"n": 1}))
    version = await host.runtime.publish(document)
    deps = host.runtime.process()

    async def one() -> str:
        ulid = await host.runtime.start(version)
        await host.runtime.finish(deps, ulid)
        return ulid

    tasks: list[Awaitable[str]] = [partial(one)() for _ in range(count)]
    return list(await asyncio.gather(*tasks))


@pytest.mark.parametrize("form", FORMS)
async def test_many_instances_share_few_connections(host: Host, form: str) -> None:
    host.writer(form)
    for ulid in await _ran(host, 40):
        assert await host.rows(ulid) == [(0, 1), (1, 1)]
