"""Findings about the input of an action whose handler is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.graph.findings import Finding, find
from adapter.graph.suggestions import Suggester

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a handler takes.

    Attributes:
        required: Whether each of its parameters has to be given, by name.
        open: Whether it takes others too.
    """

    required: Mapping[str, bool]
    open: bool = False


def check_arguments(
    action: str, given: Mapping[str, Any], takes: Parameters, path: tuple[str | int, ...]
) -> list[Finding]:
    """Tells which arguments the handler does not know, and which are missing.

    Args:
        action: Its name, for messages.
        given: The node's ``input``.
        takes: The handler's parameters.
        path: Where the config of the node stands.
    """
    where = (*path, "input")
    left = [name for name in takes.required if name not in given]
    hints = Suggester(left)
    known = ", ".join(takes.required) or "none"
    findings = []
    for name in given:
        if name in takes.required:
            continue
        hint = hints.closest(name)
        if takes.open and not hint:
            continue
        code = "suspect_argument" if takes.open else "unknown_argument"
        message = f"action {action!r} has no parameter {name!r:.80}{hint}"
        remedy = f"rename or remove it; its parameters: {known}"
        findings.append(find(code, (*where, name), message, remedy=remedy))
    findings += [
        find("missing_argument", where, f"action {action!r} needs the argument {name!r}")
        for name in left
        if takes.required[name]
    ]
    return findings
