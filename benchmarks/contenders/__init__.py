"""The contenders, by name. Each is a module with one class, loaded only in its own process."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.errors import NotInstalled

if TYPE_CHECKING:
    from benchmarks.contenders.contract import Contender

_OURS: Final = ("adapter", "benchmarks", "temporal_workflows")


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a contender is found, and what people read about it.

    Args:
        title: Its name in the table.
        about: One line on what it runs and what it keeps of each step.
        module: Below ``benchmarks.contenders``; has a class ``Contestant``.
        ratio: The part of the ratios' names that stands for it, as in throughput_vs_dbos.
    """

    title: str
    about: str
    module: str
    ratio: str

    def load(self) -> Contender:
        """Imports the module, and with it the contender's libraries, and makes the contender.

        Raises:
            NotInstalled: A library is missing.
        """
        try:
            module = importlib.import_module(f"benchmarks.contenders.{self.module}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in _OURS:
                raise
            raise NotInstalled(
                f"{error.name} is not installed: pip install -e '.[bench,dev]'"
            ) from error
        contestant: Contender = module.Contestant()
        return contestant


ALMANAC: Final = "almanac"
CONTENDERS: Final = {
    ALMANAC: Entry(
        "Almanac",
        "a published graph; each step is one commit to the documented tables",
        "almanac",
        "almanac",
    ),
    "dbos": Entry(
        "DBOS",
        "an async workflow of async steps; a row for each step in PostgreSQL",
        "dbos_steps",
        "dbos",
    ),
    "dbos-tuned": Entry(
        "DBOS, tuned",
        "the same with the fastest settings that keep its guarantees",
        "dbos_tuned",
        "dbos_tuned",
    ),
    "restate": Entry(
        "Restate",
        "a handler with one ctx.run per step; a journal entry for each in Restate's own log",
        "restate_steps",
        "restate",
    ),
    "temporal-activity": Entry(
        "Temporal, activities",
        "a hand-written workflow, one activity per step; Temporal's history, no tables",
        "temporal_activities",
        "temporal_activity",
    ),
    "temporal-local": Entry(
        "Temporal, local activities",
        "the same with local activities; nothing is kept until the workflow task ends",
        "temporal_local_activities",
        "temporal_local",
    ),
}
