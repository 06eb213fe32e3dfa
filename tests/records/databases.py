"""Databases that outlive one test: for modules that only read what a migration made."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from temporal_workflows.dev.stack import Stack


@contextmanager
def fresh_database(stack: Stack, *, template: str = "template1") -> Iterator[str]:
    """Gives the URL of an empty database, or of a copy, and drops it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield urlunsplit(urlsplit(stack.database_url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(stack.database_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
