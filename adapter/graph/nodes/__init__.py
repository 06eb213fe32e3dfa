"""The node types: one module each, found by looking through this package.

A module has TYPE (the name in documents), Config (a ``NodeConfig``) and nothing that runs on
import.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapter.graph.configs import NodeConfig

NOT_SUPPORTED: Final = frozenset(
    {
        "approval",
        "task",
        "transition",
    }
)
"""Documented types that this version cannot run yet: well-formed, but refused by name."""


@lru_cache(maxsize=1)
def node_types() -> Mapping[str, type[NodeConfig]]:
    """The config model of every node type that can run, by type, in alphabetical order."""
    found: dict[str, type[NodeConfig]] = {}
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found[module.TYPE] = module.Config
    return MappingProxyType(found)
