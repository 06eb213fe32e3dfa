from __future__ import annotations

import psycopg

from adapter.records.migrating import current, head


def test_an_empty_database_has_no_tables(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)


def test_a_database_is_at_the_newest_revision(database_url: str) -> None:
    assert current(database_url) == head()


def test_a_test_has_its_database_to_itself(database_url: str, empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE mine ()")

    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
