"""What is recorded of a version: where it lies, and how it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapter.interpreter.entries import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).resolve().parents[1] / "data"
HISTORIES = DATA / "histories"
JOURNALS = DATA / "journals"
RECORDS = DATA / "records"


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one instance.

    Attributes:
        document: The graph that it ran.
        entries: In order, without what only the documented rows keep.
        interpreters: Which interpreter wrote each of them.
        states: What the entries up to some of them came to, by the last one's number, as JSON.
    """

    name: str
    document: dict[str, Any]
    entries: Sequence[Entry]
    interpreters: Sequence[int]
    states: dict[int, dict[str, Any]]


def versions() -> list[str]:
    """The versions that are recorded, the oldest first."""
    found = (path.name for path in HISTORIES.iterdir() if path.is_dir())
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


def histories(version: str) -> dict[str, str]:
    """The histories of a version's runs as JSON, by name."""
    return {
        path.stem: path.read_text("utf-8") for path in sorted((HISTORIES / version).glob("*.json"))
    }


def journals(version: str) -> list[Journal]:
    """The journals of a version's instances."""
    return [
        _journal(path.stem, json.loads(path.read_text("utf-8")))
        for path in sorted((JOURNALS / version).glob("*.json"))
    ]


def record(version: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a version's instances that were in the midst of things, by table."""
    tables: dict[str, list[dict[str, Any]]] = json.loads(
        (RECORDS / f"{version}.json").read_text("utf-8")
    )
    return tables


def _journal(name: str, data: dict[str, Any]) -> Journal:
    entries = [Entry(kind, node, step, data) for _, kind, node, step, data in data["entries"]]
    states = {int(seq): state for seq, state in data["states"].items()}
    return Journal(name, data["document"], entries, [row[0] for row in data["entries"]], states)
