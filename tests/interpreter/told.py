"""One instance in a world of its own: told what happens, asked what it made of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from adapter.interpreter.events import Arrived, Event, Failure, Finished, StoredEvent, Tick
from adapter.interpreter.state import State, Step
from tests.interpreter.random_graphs import World
from tests.interpreter.test_decider_properties import answer

if TYPE_CHECKING:
    from adapter.interpreter.entries import Entry
    from adapter.interpreter.state import Wait


class Told:
    """Keeps the state and the entries of each answer."""

    def __init__(self, *nodes: dict[str, Any], edges: list[Any], trigger: Any = None) -> None:
        document = {
            "schema": "roundly.workflows.graph/v1",
            "key": "told",
            "name": "Told",
            "nodes": [
                {"id": "trigger", "type": "trigger", "config": {"type": "manual"}},
                *nodes,
            ],
            "edges": [
                {"from": edge[0], "to": edge[1]} if isinstance(edge, tuple) else edge
                for edge in edges
            ],
        }
        self.world = World.of(document, trigger)
        self.state = State()

    def tell(self, event: Event) -> list[Entry]:
        decision = answer(self.world, self.state, event)
        self.state = decision.state
        return list(decision.entries)

    def begin(self) -> list[Entry]:
        return self.tell(Arrived(self.world.draw(), "start", {"snapshot": None}))

    def later(self, **span: float) -> list[Entry]:
        """Lets time pass, then looks."""
        self.world.now += timedelta(**span)
        return self.tell(Tick())

    def finish(self, output: Any = None, outcome: str = "success") -> list[Entry]:
        step = self.step
        return self.tell(Finished(step.id, step.token or "", output, outcome=outcome))

    def fail(self, code: str = "boom", *, retryable: bool = True) -> list[Entry]:
        step = self.step
        return self.tell(
            Finished(step.id, step.token or "", failure=Failure(code, code, retryable))
        )

    def store(self, **payload: Any) -> StoredEvent:
        """An event that was emitted just now and that a look has brought."""
        event = StoredEvent(self.world.draw(), payload, self.world.now)
        self.world.stored.append(event)
        return event

    @property
    def step(self) -> Step:
        (step,) = self.state.steps.values()
        return step

    @property
    def wait(self) -> Wait:
        (wait,) = self.state.waits.values()
        return wait


def kinds_of(entries: list[Entry]) -> list[str]:
    return [entry.kind for entry in entries]
