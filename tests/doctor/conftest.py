from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from ulid import ULID

from tests.doctor.patient import Patient
from tests.workflow.system import open_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def patient(database_url: str, temporal_address: str) -> AsyncIterator[Patient]:
    async with open_system(database_url, temporal_address, queue=str(ULID())) as system:

        @system.almanac.registry.action("echo")
        async def echo() -> str:
            return "done"

        yield Patient(system)
