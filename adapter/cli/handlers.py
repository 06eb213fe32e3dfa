"""Importing the host's modules, whose decorators register its actions."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from adapter.errors import AlmanacError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence


NO_HANDLERS = (
    "name the modules that register them: --import MODULE; or do not check actions: --skip-actions"
)
"""What to do where a command knows no handler for an action."""


def import_handlers(modules: Sequence[str]) -> None:
    """Imports modules by their dotted names; the working directory is searched first.

    Raises:
        InvalidInput: ``import_failed``; the message names the module and what went wrong in it.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    for name in modules:
        try:
            import_module(name)
        except AlmanacError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"cannot import {name}: {type(error).__name__}: {error}",
                code="import_failed",
                module=name,
            ) from error
