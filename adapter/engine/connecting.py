"""Connecting to Temporal, with errors that say what to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from adapter.engine.threads import threads
from adapter.engine.unreachable import reason_of
from adapter.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from adapter.settings import Settings

CONNECT_TIMEOUT = 10.0
"""Seconds until Temporal counts as unreachable."""


async def connect(settings: Settings, seconds: float = CONNECT_TIMEOUT) -> Client:
    """Connects to Temporal and sees that the namespace is there.

    Args:
        settings: Name the server and the namespace.
        seconds: After which it counts as unreachable.

    Raises:
        Misconfigured: No address is set, or the server has no such namespace.
        Unavailable: It does not answer in time (``temporal_unavailable``).
    """
    address, namespace = settings.temporal_address, settings.temporal_namespace
    if address is None:
        raise Misconfigured("no Temporal server is named; set ALMANAC_TEMPORAL_ADDRESS")
    try:
        async with asyncio.timeout(seconds):
            client = await Client.connect(address, namespace=namespace, runtime=threads.get())
            threads.serves(client)
            request = DescribeNamespaceRequest(namespace=namespace)
            await client.workflow_service.describe_namespace(request)
            return client
    except Exception as error:
        if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
            raise Misconfigured(
                f"Temporal at {address} has no namespace {namespace!r}: correct"
                " ALMANAC_TEMPORAL_NAMESPACE, or make it with"
                f" `temporal operator namespace create -n {namespace}`"
            ) from error
        # Temporal's client raises what it likes; all of it means that it is not connected.
        raise Unavailable(
            f"Temporal cannot be reached at {address!r}: {reason_of(error)}",
            code="temporal_unavailable",
            address=address,
        ) from error
