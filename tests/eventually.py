"""The one place in which tests wait: an assertion is tried until it holds or its time is up."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
_POLL = 0.02


def eventually(assertion: Callable[[], T], deadline: float = 10) -> T:
    """Calls ``assertion`` until it raises no AssertionError any more, and returns its result.

    After ``deadline`` seconds the last AssertionError is raised; any other error passes at once.
    """
    until = time.monotonic() + deadline
    while True:
        try:
            return assertion()
        except AssertionError:
            if time.monotonic() > until:
                raise
        time.sleep(_POLL)


async def eventually_async(assertion: Callable[[], Awaitable[T]], deadline: float = 10) -> T:
    """As :func:`eventually`, for an assertion that is awaited."""
    until = time.monotonic() + deadline
    while True:
        try:
            return await assertion()
        except AssertionError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(_POLL)
