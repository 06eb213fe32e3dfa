"""Handlers of the workers that are killed: each writes down what it does to the world.

A worker runs in a directory of its test. ``effects`` there has a line for each effect, ``received``
a file for each key that a receiver which dedupes has taken.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text

from adapter import action

if TYPE_CHECKING:
    from adapter.execution.context import ActionContext

BRIEF, LONG = 0.03, 0.15

BOOK = "INSERT INTO booked (key, pid) VALUES (:key, :pid)"
FAILURES = """
SELECT count(*) FROM workflow_step_runs WHERE idempotency_key = :key AND status = 'failed'"""


def wrote(word: str, key: str) -> None:
    """Appends a line in one write, so that lines of several processes do not mix."""
    with Path("effects").open("ab", buffering=0) as effects:
        effects.write(f"{word} {key} {os.getpid()} {time.time():.3f}\n".encode())


def received(key: str) -> None:
    """What a receiver does that takes each key once."""
    Path("received").mkdir(exist_ok=True)
    with suppress(FileExistsError):
        Path("received", key).touch(exist_ok=False)


@action("note")
async def note(ctx: ActionContext) -> dict[str, int]:
    await asyncio.sleep(BRIEF)
    return {"visit": ctx.step.visit}


@action("queued", timeout=30)
def queued(ctx: ActionContext) -> dict[str, int]:
    time.sleep(LONG)
    return {"visit": ctx.step.visit}


@action("book", transactional=True)
async def book(ctx: ActionContext) -> None:
    await ctx.connection.execute(
        text(BOOK), {"key": ctx.step.idempotency_key, "pid": str(os.getpid())}
    )
    await asyncio.sleep(BRIEF)


@action("book.queued", transactional=True, timeout=30)
def book_queued(ctx: ActionContext) -> None:
    ctx.connection.execute(text(BOOK), {"key": ctx.step.idempotency_key, "pid": str(os.getpid())})
    time.sleep(LONG)


@action(
    "fails.once",
    transactional=True,
    retry={"max_attempts": 2, "backoff": "constant", "initial": "PT0.3S"},
)
def fails_once(ctx: ActionContext) -> int:
    """Fails until the record has a failure: a killed attempt leaves none."""
    row = ctx.connection.execute(text(FAILURES), {"key": ctx.step.idempotency_key})
    failures = int(row.scalar_one())
    if not failures:
        raise ValueError("the first time")
    return failures


@action("effect.run")
async def effect_run(ctx: ActionContext) -> int:
    async def effect(key: str) -> int:
        wrote("run", ctx.step.idempotency_key)
        received(key)
        await asyncio.sleep(BRIEF)
        return 1

    value: int = await ctx.once("run", effect, if_uncertain="run")
    return value


@action("effect.fail", timeout=30)
def effect_fail(ctx: ActionContext) -> int:
    def effect(key: str) -> int:
        wrote("fail", ctx.step.idempotency_key)
        time.sleep(LONG)
        return 1

    value: int = ctx.once("fail", effect, if_uncertain="fail")
    return value


@action("slow.run", timeout=30)
def slow_run(ctx: ActionContext) -> int:
    return _slow(ctx, "run")


@action("slow.fail", timeout=30)
def slow_fail(ctx: ActionContext) -> int:
    return _slow(ctx, "fail")


def _slow(ctx: ActionContext, uncertain: str) -> int:
    """An effect that stays without a result until the file ``go`` is there."""

    def effect(key: str) -> int:
        wrote(uncertain, ctx.step.idempotency_key)
        received(key)
        _until_go(ctx)
        return 1

    if uncertain == "run":
        value: int = ctx.once("slow", effect, if_uncertain="run")
    else:
        value = ctx.once("slow", effect, if_uncertain="fail")
    return value


@action("held", timeout=60)
def held(ctx: ActionContext) -> int:
    """Books when the file ``go`` is there, and not before."""
    wrote("held", ctx.step.idempotency_key)
    _until_go(ctx)
    wrote("freed", ctx.step.idempotency_key)
    return os.getpid()


@action("held.book", transactional=True, timeout=60)
def held_book(ctx: ActionContext) -> None:
    """As ``held``, and its row is not committed before."""
    wrote("held", ctx.step.idempotency_key)
    ctx.connection.execute(text(BOOK), {"key": ctx.step.idempotency_key, "pid": str(os.getpid())})
    _until_go(ctx)


def _until_go(ctx: ActionContext) -> None:
    while not Path("go").exists() and not ctx.cancelled.wait(0.05):
        pass
