from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.ext.asyncio import create_async_engine

import adapter
from adapter.client.almanac import Almanac
from adapter.errors import InvalidInput, Misconfigured, Unavailable
from adapter.execution.registry import Registry
from adapter.settings import Settings, TableNames
from temporal_workflows.dev.ports import free_ports
from tests.client.proxy import Proxy
from tests.services.graphs import document

if TYPE_CHECKING:
    from collections.abc import Iterator


UNKNOWN = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"


@pytest.fixture
def almanac(database_url: str) -> Iterator[Almanac]:
    with Almanac(Settings(database_url=database_url), registry=Registry()) as almanac:
        almanac.publish(document())
        yield almanac


def with_options(url: str, **options: str) -> Settings:
    listed = "&".join(f"{name}={value}" for name, value in options.items())
    return Settings(database_url=f"{url}{'&' if '?' in url else '?'}{listed}")


def test_the_package_exports_it() -> None:
    assert adapter.Almanac is Almanac


def test_settings_come_from_the_environment(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALMANAC_DATABASE_URL", database_url)

    with Almanac(registry=Registry()) as almanac:
        assert almanac.publish(document()).created


def test_without_a_database_it_still_validates() -> None:
    almanac = Almanac(Settings(), registry=Registry())

    assert almanac.validate(document()) == []
    assert [f.pointer for f in almanac.validate(document(colour=1))] == ["/colour"]
    with pytest.raises(Misconfigured, match="ALMANAC_DATABASE_URL"):
        almanac.start("permits")
    with pytest.raises(Misconfigured, match="ALMANAC_DATABASE_URL"):
        almanac.migrate()


def test_migrating_again_does_nothing(empty_database_url: str) -> None:
    with Almanac(Settings(database_url=empty_database_url), registry=Registry()) as almanac:
        with pytest.raises(Misconfigured) as refused:
            almanac.list()
        assert refused.value.code == "not_migrated"
        assert almanac.migrate()
        assert almanac.migrate() == []
        assert almanac.list().items == ()


def test_tables_may_have_other_names(empty_database_url: str) -> None:
    names = TableNames(instances="cases", inbox="letters", events="news")
    settings = Settings(database_url=empty_database_url, tables=names)
    with Almanac(settings, registry=Registry()) as almanac:
        almanac.migrate()
        almanac.publish(document())
        started = almanac.start("permits", idempotency_key="k")
        almanac.emit("moved", {})

        assert almanac.show(started.ulid).key == "permits"


def test_a_server_that_is_not_there_is_unavailable() -> None:
    settings = Settings(database_url=f"postgresql://127.0.0.1:{free_ports(1)[0]}/almanac")
    with Almanac(settings, registry=Registry()) as almanac, pytest.raises(Unavailable) as refused:
        almanac.start("permits")

    assert (refused.value.code, refused.value.retryable) == ("database_unavailable", True)


def test_a_server_that_does_not_answer_is_given_up(silent_port: int) -> None:
    settings = Settings(database_url=f"postgresql://127.0.0.1:{silent_port}/x?connect_timeout=2")
    began = time.monotonic()
    with Almanac(settings, registry=Registry()) as almanac, pytest.raises(Unavailable):
        almanac.list()

    assert time.monotonic() - began < 8


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_wrong_password_or_database_names_no_secret(database_url: str) -> None:
    settings = Settings(database_url=database_url.rsplit("/", 1)[0] + "/no_such_database")
    with Almanac(settings, registry=Registry()) as almanac, pytest.raises(Unavailable) as refused:
        almanac.list()

    assert "no_such_database" in refused.value.message
    password = psycopg.conninfo.conninfo_to_dict(database_url).get("password")
    assert not password or str(password) not in refused.value.message


def test_a_start_that_waits_for_a_lock_is_given_up(database_url: str, almanac: Almanac) -> None:
    settings = with_options(database_url, options="-c%20statement_timeout%3D300")
    with (
        Almanac(settings, registry=Registry()) as hurried,
        almanac.transaction() as connection,
    ):
        almanac.start("permits", idempotency_key="k", connection=connection)
        with pytest.raises(Unavailable) as refused:
            hurried.start("permits", idempotency_key="k")

    assert refused.value.code == "database_timeout"
    assert len(almanac.list().items) == 1


def test_every_statement_has_a_deadline_by_itself(almanac: Almanac) -> None:
    with almanac.transaction() as connection:
        timeout = connection.exec_driver_sql("SHOW statement_timeout").scalar_one()

    assert timeout == "30s"


def test_a_server_that_falls_silent_is_given_up(database_url: str, almanac: Almanac) -> None:
    parts = urlsplit(database_url)
    assert parts.hostname is not None
    with Proxy(parts.hostname, parts.port or 5432) as proxy:
        way = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
        url = parts._replace(netloc=way).geturl()
        options = "-c%20statement_timeout%3D100ms"
        settings = with_options(url, options=options, connect_timeout="2")
        with Almanac(settings, registry=Registry()) as hurried:
            hurried.start("permits")
            proxy.silence()
            began = time.monotonic()
            with pytest.raises(Unavailable) as refused:
                hurried.start("permits")

    assert refused.value.code == "database_unavailable"
    assert time.monotonic() - began < 20


def test_connections_that_a_server_ended_are_replaced(database_url: str, almanac: Almanac) -> None:
    almanac.list()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert almanac.start("permits").created


def test_a_failed_transaction_of_the_caller_is_told(almanac: Almanac) -> None:
    with almanac.transaction() as connection:
        with pytest.raises(Exception, match="division by zero"):
            connection.exec_driver_sql("SELECT 1 / 0")
        with pytest.raises(InvalidInput) as refused:
            almanac.start("permits", connection=connection)
        connection.rollback()

    assert refused.value.code == "transaction_aborted"


def test_settings_of_another_key_type_are_told(database_url: str) -> None:
    settings = Settings(database_url=database_url, primary_key_type="uuid")
    with Almanac(settings, registry=Registry()) as almanac, pytest.raises(Misconfigured):
        almanac.publish(document())


def test_threads_share_one_almanac(almanac: Almanac) -> None:
    with ThreadPoolExecutor(20) as together:
        started = list(together.map(lambda n: almanac.start("permits", {"n": n}), range(100)))

    assert len({one.ulid for one in started}) == 100


def test_a_forked_process_opens_connections_of_its_own(almanac: Almanac) -> None:
    almanac.start("permits")

    child = os.fork()
    if not child:
        try:
            almanac.start_many("permits", [{}] * 3)
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    almanac.start("permits")
    assert len(almanac.list().items) == 5


def test_a_closed_one_refuses_work(almanac: Almanac) -> None:
    almanac.close()
    almanac.close()

    with pytest.raises(Misconfigured) as refused:
        almanac.start("permits")

    assert refused.value.code == "closed"


def test_waiting_returns_the_instance_at_its_end(database_url: str, almanac: Almanac) -> None:
    started = almanac.start("permits")

    def end() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("UPDATE workflow_instances SET status = 'completed'")

    timer = threading.Timer(0.2, end)
    timer.start()
    view = almanac.wait(started.ulid, timeout=10)
    timer.join()

    assert view.status == "completed"


@pytest.mark.parametrize("timeout", [0, 0.05, timedelta(milliseconds=50)])
def test_waiting_ends_when_its_time_is_up(almanac: Almanac, timeout: Any) -> None:
    started = almanac.start("permits")

    with pytest.raises(Unavailable) as refused:
        almanac.wait(started.ulid, timeout=timeout)

    assert refused.value.code == "wait_timeout"
    assert refused.value.details["status"] == "pending"
    assert refused.value.details["ulid"] == started.ulid


def test_a_time_out_says_when_no_worker_is_alive(almanac: Almanac, database_url: str) -> None:
    started = almanac.start("permits")
    signal = almanac.signal(started.ulid, "moved")
    seen = "INSERT INTO workflow_workers (id, name, task_queue, started_at, seen_at, details)"
    row = f"{seen} VALUES (%s, 'w', 'q', now(), now() - interval '1 s' * %s, '{{}}')"
    waits: Any = (lambda: almanac.wait(started.ulid, 0), lambda: almanac.wait_applied(signal, 0))

    with psycopg.connect(database_url, autocommit=True) as connection:
        for living in (0, 1):
            connection.execute(row, ("0" * 25 + str(living), 60 * (1 - living)))
            for wait in waits:
                with pytest.raises(Unavailable) as refused:
                    wait()
                assert refused.value.details["workers"] == living
                assert ("no worker is alive" in refused.value.message) is (living == 0)


@pytest.mark.parametrize("connection", ["foo", 7, object(), {}])
def test_what_is_no_connection_is_refused(almanac: Almanac, connection: Any) -> None:
    calls: Any = (
        lambda: almanac.start("permits", connection=connection),
        lambda: almanac.publish(document(), connection=connection),
        lambda: almanac.emit("moved", {}, connection=connection),
        lambda: almanac.show(UNKNOWN, connection=connection),
        lambda: almanac.cancel(UNKNOWN, connection=connection),
    )
    for call in calls:
        with pytest.raises(InvalidInput, match="SQLAlchemy Connection or Session") as refused:
            call()
        assert refused.value.code == "invalid_connection"


def test_a_closed_connection_is_refused(almanac: Almanac) -> None:
    with almanac.transaction() as connection:
        pass

    with pytest.raises(InvalidInput, match="was closed"):
        almanac.start("permits", connection=connection)


def test_an_engine_and_an_async_connection_are_told_what_to_pass(
    almanac: Almanac, database_url: str
) -> None:
    url = make_url(database_url)
    engine: Any = create_engine(url.set(drivername="postgresql+psycopg"))
    asynchronous: Any = create_async_engine(url.set(drivername="postgresql+asyncpg")).connect()

    for connection, remedy in ((engine, "engine.begin()"), (asynchronous, "run_sync")):
        with pytest.raises(InvalidInput) as refused:
            almanac.start("permits", connection=connection)
        assert remedy in refused.value.details["remedy"]


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 10**400, "soon", None])
def test_a_time_out_must_be_a_time(almanac: Almanac, timeout: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        almanac.wait(almanac.start("permits").ulid, timeout=timeout)

    assert refused.value.code == "invalid_timeout"


def test_reads_do_not_write(almanac: Almanac) -> None:
    ulid = almanac.start("permits").ulid

    view, again = almanac.show(ulid), almanac.show(ulid)

    assert view == again
