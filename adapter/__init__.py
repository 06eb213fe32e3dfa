"""Almanac: published workflow graphs that run on Temporal and write every transition into SQL.

The public names are loaded when they are first used, so that importing a part (say the pure
interpreter) does not load the database drivers and Temporal's client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from adapter.errors import StepError
    from adapter.execution.door import Outcome
    from adapter.execution.registry import action

__all__ = ["Almanac", "Outcome", "StepError", "action"]

_HOMES = {
    "Almanac": "adapter.client.almanac",
    "Outcome": "adapter.execution.door",
    "StepError": "adapter.errors",
    "action": "adapter.execution.registry",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
