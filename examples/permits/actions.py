"""The action of the replay: what a real one would do with a row, this one only writes down."""

from __future__ import annotations

import asyncio
from typing import Any

from adapter import action


@action("permits.record")
async def record(row: dict[str, Any]) -> dict[str, str]:
    """Records that an activity took place; the output stands in the step run."""
    await asyncio.sleep(0)
    return {name: row[name] for name in ("activity", "timestamp", "resource")}
