"""Servers and databases for every test: one stack per test process, one database per test.

A stack costs about a second and has only the servers that somebody asks for, so ``pytest -n 2``
runs two. ``ALMANAC_DATABASE_URL`` and ``ALMANAC_TEMPORAL_ADDRESS`` put servers of your own in
their place.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import psycopg
import pytest
from psycopg import sql

from temporal_workflows.dev import temporal
from temporal_workflows.dev.stack import Stack
from temporal_workflows.exiting import leave
from tests.driving import modes
from tests.driving import session as driven

if TYPE_CHECKING:
    from collections.abc import Iterator


# How long an example takes says something of the machine, not of the code.
hypothesis.settings.register_profile("almanac", deadline=None)
hypothesis.settings.load_profile("almanac")


AT_ONCE = 'history.workflowIdReuseMinimalInterval="0s"'
"""Lets executions that continue as new do so at once: the server has them wait for a second."""


@pytest.fixture(scope="session", autouse=True)
def _driven() -> Iterator[None]:
    """Has workers drive instances as the environment asks for; see tests/driving/modes.py."""
    if not os.environ.get(modes.VARIABLE):
        yield
        return
    from tests.driving.parts import driving

    with driving(modes.chosen()):
        yield


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The servers of this test process, PostgreSQL running; who stops one starts it again."""
    stack = Stack.from_environment("postgres", "temporal", durable=False)
    stack.start("postgres")
    yield stack
    stack.stop()


@pytest.fixture(scope="session")
def temporal_address(stack: Stack) -> str:
    """host:port of a Temporal server with the namespace of ``stack.temporal_namespace``."""
    with patch.object(temporal, "SETTINGS", (*temporal.SETTINGS, AT_ONCE)):
        return stack.start("temporal").temporal_address


@pytest.fixture
def empty_database_url(stack: Stack) -> Iterator[str]:
    """The libpq URL of a database of this test's own, with nothing in it."""
    name = _create_database(stack)
    yield _url_of(stack, name)
    _drop_database(stack, name)


@pytest.fixture(scope="session")
def migrated_template(stack: Stack) -> Iterator[str]:
    """The name of a migrated database that others are copied from; nobody connects to it."""
    from adapter.records.migrating import upgrade
    from adapter.settings import Settings

    name = _create_database(stack)
    upgrade(_url_of(stack, name), Settings())
    yield name
    _drop_database(stack, name)


@pytest.fixture
def database_url(stack: Stack, migrated_template: str) -> Iterator[str]:
    """The libpq URL of a migrated database of this test's own."""
    name = _create_database(stack, template=migrated_template)
    yield _url_of(stack, name)
    _drop_database(stack, name)


def _create_database(stack: Stack, template: str = "template1") -> str:
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    return name


def _drop_database(stack: Stack, name: str) -> None:
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


def _url_of(stack: Stack, name: str) -> str:
    return urlunsplit(urlsplit(stack.database_url)._replace(path=f"/{name}"))


def pytest_configure(config: pytest.Config) -> None:
    """Counts what a driven run does: see tests/driving/session.py."""
    driven.count(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Makes the process end by ``leave``: see temporal_workflows.exiting.

    Registered this early, it runs after nearly all other exit functions, when pytest has written
    everything and every plugin has had its say about the exit code.
    """

    def end() -> None:
        if "temporalio" in sys.modules:
            leave(int(session.exitstatus))

    atexit.register(end)
