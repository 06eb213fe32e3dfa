from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from adapter.errors import Misconfigured
from adapter.records.pooling import make_pool
from adapter.records.urls import asyncpg_url, sqlalchemy_url
from adapter.settings import Settings


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://user@host/db",
            {"user": "user", "host": "host", "dbname": "db"},
        ),
        (
            "postgres://u%40x:p%2F%3A%25@host:6432/db?sslmode=require",
            {
                "user": "u@x",
                "password": "p/:%",
                "host": "host",
                "port": "6432",
                "dbname": "db",
                "sslmode": "require",
            },
        ),
        (
            "postgresql://u@/db?host=/var/run/postgresql",
            {"user": "u", "host": "/var/run/postgresql", "dbname": "db"},
        ),
        (
            "postgresql://u@%2Ftmp%2Fsocket/db",
            {"user": "u", "host": "/tmp/socket", "dbname": "db"},
        ),
        (
            "postgresql://u@one:1,two:2/db?target_session_attrs=read-write",
            {
                "user": "u",
                "host": "one,two",
                "port": "1,2",
                "dbname": "db",
                "target_session_attrs": "read-write",
            },
        ),
        ("postgresql://[::1]:5432/db", {"host": "::1", "port": "5432", "dbname": "db"}),
        (
            "postgresql:///db?options=-csearch_path%3Dother",
            {"dbname": "db", "options": "-csearch_path=other"},
        ),
        ("postgresql://", {}),
    ],
)
def test_psycopg_gets_what_libpq_would_read(url: str, expected: dict[str, str]) -> None:
    converted = sqlalchemy_url(url)
    assert converted.drivername == "postgresql+psycopg"
    _, arguments = create_engine(converted).dialect.create_connect_args(converted)
    arguments.pop("context", None)
    assert {name: str(value) for name, value in arguments.items()} == expected


def test_an_engine_reaches_the_database(database_url: str) -> None:
    engine = create_engine(sqlalchemy_url(database_url))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT current_database()")).scalar_one() in database_url
    engine.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@host:port:port/db",
        "postgresql://u:secret@[::1/db",
        "postgresql://u:secret%zz@host/db?nonsense=1",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_showing_the_password(url: str) -> None:
    with pytest.raises(Misconfigured, match="cannot be read") as refused:
        sqlalchemy_url(url)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_asyncpg_is_not_given_what_only_libpq_knows() -> None:
    url = "postgresql://u:p%40w@h:5432/d?sslmode=require&connect_timeout=2&keepalives_idle=9"
    assert asyncpg_url(url) == "postgresql://u:p%40w@h:5432/d?sslmode=require"
    options = "postgresql://h/d?options=-c%20search_path%3Da"
    assert asyncpg_url(options) == options
    assert asyncpg_url("postgresql:///d?host=%2Ftmp") == "postgresql:///d?host=%2Ftmp"


async def test_a_pool_connects_whatever_libpq_is_told(database_url: str) -> None:
    url = f"{database_url}?connect_timeout=3&keepalives=1&tcp_user_timeout=1000"
    pool = await make_pool(Settings(database_url=url), 1)
    assert await pool.fetchval("SELECT 1") == 1
    await pool.close()
