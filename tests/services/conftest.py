from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from adapter.client.almanac import Almanac
from adapter.execution.registry import Registry
from adapter.settings import Settings

Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def almanac(database_url: str) -> Iterator[Almanac]:
    registry = Registry()

    @registry.action("permits.check")
    def check(case: str) -> bool:
        return bool(case)

    with Almanac(Settings(database_url=database_url), registry=registry) as almanac:
        yield almanac


@pytest.fixture
def rows(database_url: str) -> Rows:
    def rows(query: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(query, parameters)
            return cursor.fetchall() if cursor.description else []

    return rows


@pytest.fixture
def everything(rows: Rows) -> Callable[[], dict[str, Any]]:
    """What stands in the tables that use cases write."""

    def everything() -> dict[str, Any]:
        names = Settings().tables
        written = ("definitions", "versions", "instances", "inbox", "events", "event_fields")
        tables = [getattr(names, name) for name in (*written, "idempotency_keys")]
        return {table: rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables}

    return everything
