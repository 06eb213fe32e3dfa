"""Temporal behind the engine's protocol: one workflow execution per unfinished instance."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from adapter.engine.names import (
    DEFINITION_ATTRIBUTE,
    LOOK_SIGNAL,
    OWNER_ATTRIBUTE,
    TASK_TIMEOUT,
    WORKFLOW_TYPE,
    workflow_id,
)
from adapter.engine.unreachable import NO_ANSWER, reason_of
from adapter.errors import Unavailable

if TYPE_CHECKING:
    from temporalio.client import Client

    from adapter.engine.protocol import Labels

LOGGER = logging.getLogger("almanac.engine")

UNLABELLED: Final = 60.0
"""Seconds without labels after the server has refused them."""

_DEFINITION = SearchAttributeKey.for_keyword(DEFINITION_ATTRIBUTE)
_OWNER = SearchAttributeKey.for_keyword(OWNER_ATTRIBUTE)


class TemporalEngine:
    """Starts and signals executions of the driver.

    Labels become search attributes, which a server refuses that does not know them: the call is
    then repeated without, and for a minute no labels are sent.

    Args:
        client: Connected to the namespace.
        task_queue: Where the workers poll.
        deadline: How long one call may take.
    """

    def __init__(
        self, client: Client, task_queue: str, *, deadline: timedelta = timedelta(seconds=2)
    ) -> None:
        self._client = client
        self._task_queue = task_queue
        self._deadline = deadline
        self._unlabelled_until = 0.0
        self._told = False

    async def start(self, ulid: str, labels: Labels | None = None) -> None:
        """Starts the execution, eagerly if a worker of this process can take it.

        A run that exists already may be about to close without having seen what this start is for,
        so it is signalled.

        Raises:
            Unavailable: The server did not answer in time.
        """
        try:
            await self._start(
                ulid,
                labels,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                request_eager_start=True,
            )
        except WorkflowAlreadyStartedError:
            await self.poke(ulid, labels)

    async def poke(self, ulid: str, labels: Labels | None = None) -> None:
        """Signals the execution, starting one if none is open.

        The server refuses to close a run over a signal it has not handled, so a poke that meets a
        closing run is seen by it or by the next one.

        Raises:
            Unavailable: The server did not answer in time.
        """
        await self._start(
            ulid,
            labels,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=LOOK_SIGNAL,
        )

    async def _start(self, ulid: str, labels: Labels | None, **how: Any) -> None:
        try:
            if labels is None or time.monotonic() < self._unlabelled_until:
                await self._ask(ulid, **how)
            else:
                await self._start_labelled(ulid, labels, **how)
        except NO_ANSWER as error:
            raise Unavailable(
                f"Temporal did not take {workflow_id(ulid)}: {reason_of(error)}"
            ) from error

    async def _start_labelled(self, ulid: str, labels: Labels, **how: Any) -> None:
        shown = TypedSearchAttributes(
            [
                SearchAttributePair(_DEFINITION, labels.definition),
                SearchAttributePair(_OWNER, labels.owner),
            ]
        )
        try:
            await self._ask(ulid, search_attributes=shown, static_summary=labels.definition, **how)
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT:
                raise
            try:
                await self._ask(ulid, **how)
            except RPCError:
                # It was not for the labels.
                raise
            except WorkflowAlreadyStartedError:
                self._do_without(error)
                raise
            self._do_without(error)

    async def _ask(self, ulid: str, **how: Any) -> None:
        await self._client.start_workflow(
            WORKFLOW_TYPE,
            ulid,
            id=workflow_id(ulid),
            task_queue=self._task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            task_timeout=TASK_TIMEOUT,
            rpc_timeout=self._deadline,
            **how,
        )

    def _do_without(self, error: RPCError) -> None:
        self._unlabelled_until = time.monotonic() + UNLABELLED
        if self._told:
            return
        self._told = True
        LOGGER.warning(
            "Temporal refuses the search attributes %s and %s (%s); executions go on without them."
            " A worker registers them when it starts, where the server allows it; else register"
            " them once by hand: temporal operator search-attribute create --namespace %s"
            " --name %s --type Keyword --name %s --type Keyword",
            DEFINITION_ATTRIBUTE,
            OWNER_ATTRIBUTE,
            error.message,
            self._client.namespace,
            DEFINITION_ATTRIBUTE,
            OWNER_ATTRIBUTE,
        )
