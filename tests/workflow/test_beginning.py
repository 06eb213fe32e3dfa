from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from temporalio.client import Client

from adapter.errors import Unavailable
from adapter.execution.registry import Registry
from adapter.settings import Settings
from temporal_workflows.worker import running_worker

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_a_worker_that_cannot_reach_its_database_says_so(
    temporal_address: str, unused_tcp_port_factory: Callable[[], int]
) -> None:
    port = unused_tcp_port_factory()
    settings = Settings(
        database_url=f"postgresql://nobody@127.0.0.1:{port}/none", temporal_address=temporal_address
    )
    client = await Client.connect(temporal_address)
    with pytest.raises(Unavailable, match="the database cannot be reached") as caught:
        async with running_worker(settings, Registry(), client=client):
            raise AssertionError("it runs without a database")
    assert caught.value.code == "database_unavailable"
