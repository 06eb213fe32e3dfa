"""The end of a transactional step: appended through the handler's connection, then committed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapter.execution.cache import Folded
from adapter.execution.door import as_failure
from adapter.execution.instance import Instance, Superseded
from adapter.execution.offers import Offer, Offered, TransactionFailed
from adapter.interpreter.events import Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapter.interpreter.entries import Entry
    from adapter.records.connection import Connection

_LOGGER = logging.getLogger("almanac.action")


@dataclass(frozen=True, slots=True)
class Settled:
    """How a transactional step and its transaction have ended.

    Attributes:
        entries: What was appended; nothing when it was rolled back.
        failure: The failure of the step, still to be recorded, where the commit was refused.
        more: Whether inbox rows are to be applied.
    """

    entries: Sequence[Entry] = ()
    failure: Finished | None = None
    more: bool = False


async def settle(
    instance: Instance,
    connection: Connection,
    offered: Offered,
    may_begin: Callable[[], bool] = lambda: False,
) -> Settled:
    """Ends a step and its handler's transaction in one commit, or rolls the transaction back.

    Args:
        instance: As its writer knows it.
        connection: The writer's own, not in a transaction: it reads what others commit.
        offered: How the handler ended.
        may_begin: Whether the same commit may begin the step that follows.

    Raises:
        Superseded: The step is another writer's; everything is rolled back.
        ConnectionError: The handler's connection broke. Whether it was committed is seen when the
            instance is loaded anew.
    """
    assert offered.offer is not None
    try:
        return await _settle(instance, connection, offered, offered.offer, may_begin)
    finally:
        # Of no effect once it is committed.
        offered.offer.abandon()


async def _settle(
    instance: Instance,
    connection: Connection,
    offered: Offered,
    offer: Offer,
    may_begin: Callable[[], bool],
) -> Settled:
    news = False
    try:
        while True:
            try:
                entries, more = await instance.advance(
                    connection, [offered], begin=may_begin() and not news, through=offer
                )
                break
            except Superseded:
                # Another entry came first. From here on there is none, until the commit.
                table = instance.deps.settings.tables.instances
                await offer.fetchrow(
                    f"SELECT 1 AS locked FROM {table} WHERE ulid = $1 FOR NO KEY UPDATE",
                    instance.ulid,
                )
                news = bool(await instance.load(connection))
                if not _is_own(instance, offered):
                    raise
    except TransactionFailed as failed:
        return Settled(failure=_failure(offered, failed), more=news)
    if not entries:
        return Settled(more=news)
    try:
        await offer.commit()
    except TransactionFailed as failed:
        # What was appended is not there; what the process knows of it must not stay either.
        instance.folded = Folded()
        news = bool(await instance.load(connection))
        return Settled(failure=_failure(offered, failed), more=news)
    return Settled(entries, more=more)


def _is_own(instance: Instance, offered: Finished) -> bool:
    step = instance.state.steps.get(offered.step)
    return step is not None and step.status == "running" and step.token == offered.token


def _failure(offered: Finished, failed: TransactionFailed) -> Finished:
    """The failure of a step whose transaction was refused.

    Raises:
        ConnectionError: Nobody knows whether it was.
    """
    if failed.lost:
        raise ConnectionError(
            f"step {offered.step}: its handler's connection broke before the commit was confirmed"
        ) from failed
    _LOGGER.warning(
        "the transaction of step %s could not be committed", offered.step, exc_info=failed.error
    )
    return Finished(offered.step, offered.token, failure=as_failure(failed.error))
