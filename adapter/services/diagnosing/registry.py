"""Finds the checks: every module of the package ``checks``."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from adapter.services.diagnosing import checks
from adapter.services.diagnosing.check import Check


def all_checks() -> tuple[Check, ...]:
    """All checks, those that others need before these."""
    found: list[Check] = []
    for module in iter_modules(checks.__path__):
        check = import_module(f"{checks.__name__}.{module.name}").CHECK
        assert isinstance(check, Check), module.name
        found.append(check)
    return tuple(sorted(found, key=lambda one: (one.provides is None, len(one.needs), one.code)))
