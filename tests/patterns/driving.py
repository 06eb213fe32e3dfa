"""One case of a pattern: published and commanded by the SDK, driven turn by turn on the record."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ulid import ULID

from adapter.client.almanac import Almanac
from adapter.execution.context import ActionContext  # noqa: TC001 - handlers are called with it
from tests.driving.turns import take_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapter.execution.deps import TurnDeps
    from tests.execution.runtime import Runtime


@dataclass(slots=True)
class Driver:
    """A worker, the SDK, and the instances that a test has started, children included."""

    runtime: Runtime
    almanac: Almanac
    process: TurnDeps
    ulids: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, runtime: Runtime) -> Iterator[Driver]:
        """A driver with the handlers that patterns name.

        ``do`` gives back what it was given; ``tell`` sends a signal to its own instance.
        """
        almanac = Almanac(runtime.settings, registry=runtime.registry)

        @runtime.registry.action("do")
        def do(value: Any = None) -> Any:
            return value

        @runtime.registry.action("tell", timeout=60)
        def tell(
            ctx: ActionContext,
            signal: str,
            payload: dict[str, Any] | None = None,
            correlation: str | None = None,
        ) -> None:
            almanac.signal(ctx.instance.ulid, signal, payload, correlation)

        with almanac:
            yield cls(runtime, almanac, runtime.process())

    def publish(self, document: dict[str, Any]) -> str:
        """Publishes a document as it is; returns its key. It must have no finding at all."""
        findings = self.almanac.validate(document)
        assert findings == [], findings
        return self.almanac.publish(document).key

    async def start(self, document: dict[str, Any], payload: Any = None) -> str:
        """Publishes a document under a key of its own, starts it and goes as far as it goes."""
        key = self.publish({**document, "key": f"{document['key']}-{ULID()}".lower()})
        return await self.start_again(key, payload)

    async def start_again(self, key: str, payload: Any = None) -> str:
        """Starts what was published and goes as far as it goes; returns the ulid."""
        ulid = self.almanac.start(key, payload).ulid
        self.ulids.append(ulid)
        await self.settle()
        return ulid

    async def signal(
        self,
        name: str,
        payload: dict[str, Any] | None = None,
        *,
        to: str | None = None,
        **more: Any,
    ) -> None:
        """Sends a signal to the first instance or another one, and goes as far as it goes."""
        self.almanac.signal(to or self.ulids[0], name, payload, **more)
        await self.settle()

    async def signals(self, *names: str) -> None:
        """Sends signals to the first instance one after another, each after the last had effect."""
        for name in names:
            await self.signal(name)

    async def emit(self, key: str, payload: dict[str, Any]) -> None:
        """Emits an event, delivers it to the first instance, and goes as far as it goes."""
        await self.runtime.deliver(self.ulids[0], self.almanac.emit(key, payload))
        await self.settle()

    async def settle(self) -> None:
        """Takes turns in all instances until none has anything left to do."""
        progressed = True
        while progressed:
            progressed = False
            for ulid in await self.family():
                while (result := await take_turn(self.process, ulid)).progressed:
                    progressed = True
                assert not result.stuck

    async def family(self) -> list[str]:
        """The instances started by the test, and those that they have started, oldest first."""
        table = self.runtime.settings.tables.instances
        rows = await self.runtime.pool.fetch(
            f"WITH RECURSIVE f AS (SELECT id, ulid FROM {table} WHERE ulid = ANY($1::varchar[])"
            f" UNION SELECT c.id, c.ulid FROM {table} c JOIN f ON c.parent_instance_id = f.id)"
            " SELECT ulid FROM f ORDER BY id",
            self.ulids,
        )
        return [row["ulid"] for row in rows]

    async def children(self) -> list[str]:
        """The instances below those that the test has started, oldest first."""
        return [ulid for ulid in await self.family() if ulid not in self.ulids]

    async def trace(self, ulid: str | None = None) -> list[str]:
        """The nodes that were left, in order: ``node``, or ``node:outcome`` if not success."""
        path = await self.runtime.path(ulid or self.ulids[0])
        return [node if outcome == "success" else f"{node}:{outcome}" for node, outcome, *_ in path]

    async def status(self, ulid: str | None = None) -> str:
        """The status of an instance."""
        return str((await self.runtime.instance(ulid or self.ulids[0]))["status"])

    async def told(self, ulid: str | None = None) -> str:
        """The trace and the status, in one line of text."""
        return f"{' '.join(await self.trace(ulid))} = {await self.status(ulid)}"

    async def runs(self, node: str, ulid: str | None = None) -> list[str]:
        """The status of each step run of a node."""
        rows = await self.runtime.rows("step_runs", ulid or self.ulids[0])
        return [row["status"] for row in rows if row["node_id"] == node]

    async def output(self, node: str, ulid: str | None = None) -> Any:
        """The output of the latest step run of a node."""
        return (await self.runtime.step(ulid or self.ulids[0], node))["output"]
