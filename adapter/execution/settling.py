"""The end of a transactional step: appended through the handler's connection, then committed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adapter.execution.cache import Folded
from adapter.execution.door import as_failure
from adapter.execution.instance import Instance, Superseded
from adapter.execution.transactions import Offer, Offered, TransactionFailed
from adapter.interpreter.events import Finished, Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapter.interpreter.entries import Entry
    from adapter.interpreter.events import Event
    from adapter.records.connection import Connection

_LOGGER = logging.getLogger("almanac.action")


async def settle(
    instance: Instance,
    connection: Connection,
    offered: Offered,
    may_begin: Callable[[], bool] = lambda: False,
) -> tuple[Sequence[Entry], list[Event]]:
    """Ends a step and its handler's transaction in one commit, or rolls the transaction back.

    Args:
        instance: As its writer knows it.
        connection: The writer's own, not in a transaction: it reads what others commit.
        offered: How the handler ended.
        may_begin: Whether the same commit may begin the step that follows.

    Returns:
        The entries that were appended, and what is to be decided on next: rows that came in, and
        the failure of the step where the transaction could not be committed.

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
) -> tuple[Sequence[Entry], list[Event]]:
    arrived: list[Event] = []
    try:
        while True:
            try:
                entries, more = await instance.advance(
                    connection, [offered], begin=may_begin() and not arrived, through=offer
                )
                break
            except Superseded:
                # Another entry came first. From here on there is none, until the commit.
                table = instance.deps.settings.tables.instances
                await offer.fetchrow(
                    f"SELECT 1 AS locked FROM {table} WHERE ulid = $1 FOR NO KEY UPDATE",
                    instance.ulid,
                )
                arrived = [*await instance.load(connection)]
                if not _is_own(instance, offered):
                    raise
        if not entries:
            await offer.rollback()
            return (), [*arrived, Tick()]
    except TransactionFailed as failed:
        return (), [*arrived, _failure(offered, failed), Tick()]
    try:
        await offer.commit()
    except TransactionFailed as failed:
        # What was appended is not there; what the process knows of it must not stay either.
        instance.folded = Folded()
        failure = _failure(offered, failed)
        return (), [*await instance.load(connection), failure, Tick()]
    if more:
        arrived = [*await instance.load(connection)]
    return entries, [*arrived, Tick()]


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
