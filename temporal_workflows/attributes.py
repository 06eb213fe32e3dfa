"""Sees to it that Temporal knows the search attributes that executions carry."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.service import RPCError

from adapter.engine.names import DEFINITION_ATTRIBUTE, OWNER_ATTRIBUTE

if TYPE_CHECKING:
    from temporalio.client import Client

LOGGER = logging.getLogger("almanac.worker")

PATIENCE: Final = 2.0
"""Seconds that a worker's start may take longer for this."""

_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def register_attributes(client: Client) -> bool:
    """Registers the search attributes that the namespace does not have.

    Not all servers let a worker do this, and nothing depends on it: where it fails, an operator
    may have registered them by other means, and executions do without them if not.

    Returns:
        Whether the namespace has them now, as far as can be told.
    """
    namespace = client.namespace
    try:
        async with asyncio.timeout(PATIENCE):
            known = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=namespace)
            )
            missing = {DEFINITION_ATTRIBUTE, OWNER_ATTRIBUTE} - known.custom_attributes.keys()
            if missing:
                await client.operator_service.add_search_attributes(
                    AddSearchAttributesRequest(
                        namespace=namespace,
                        search_attributes=dict.fromkeys(sorted(missing), _KEYWORD),
                    )
                )
                LOGGER.info("registered the search attributes %s", ", ".join(sorted(missing)))
    except (RPCError, OSError, RuntimeError, TimeoutError) as error:
        LOGGER.info(
            "Temporal does not let this worker look after search attributes: %s",
            str(error) or f"no answer within {PATIENCE:g} s",
        )
        return False
    return True
