"""Restate: a service handler with one ``ctx.run`` per step, each an entry in Restate's journal.

Its server is a process of its own, in place of PostgreSQL; handlers and callers share one Python
process, as for every contender. Server and handlers talk over HTTP/2 in both directions at once,
which spares a round trip per step. Granian serves the handlers: the pure Python servers that speak
HTTP/2 took twice as long for a step. One partition per core is the fastest; 24 are the default.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import restate
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server

from benchmarks.contenders.contract import Contender, Servers, drive
from benchmarks.contenders.restate_server import RestateServer, installed, server_version
from temporal_workflows.dev.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.loads import Load

PARTITIONS: Final = os.cpu_count() or 1

service: Final = restate.Service("chains")


async def step(n: int) -> dict[str, int]:
    """One step of a chain."""
    await asyncio.sleep(0)
    return {"n": n}


@service.handler()
async def run(ctx: restate.Context, steps: int) -> int:
    """Runs the steps one after the other; returns the sum of their ``n``."""
    total = 0
    for n in range(steps):
        total += (await ctx.run_typed("step", step, n=n))["n"]
    return total


class Contestant(Contender):
    """One Restate node and one endpoint; chains are called through the node's ingress."""

    def __init__(self) -> None:
        super().__init__()
        self._running = contextlib.AsyncExitStack()

    async def setup(self, servers: Servers) -> None:
        await asyncio.to_thread(installed)
        server = RestateServer(servers.directory, partitions=PARTITIONS)
        self._running.push_async_callback(asyncio.to_thread, server.stop)
        await asyncio.to_thread(server.start)
        endpoint = await self._running.enter_async_context(_endpoint())
        self._http = await self._running.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        self._call = f"{server.ingress_url}/chains/run"
        await self._register(server.admin_url, endpoint)
        self.facts = {
            "restate-server": server_version(),
            "restate-sdk": version("restate-sdk"),
            "granian": version("granian"),
            "settings": {"partitions": PARTITIONS, "protocol": "bidi", "log_synced": True},
        }

    async def run(self, load: Load) -> float:
        async def call(steps: int) -> Any:
            async with self._http.post(self._call, json=steps) as response:
                response.raise_for_status()
                return await response.json()

        return await drive(load, call)

    async def teardown(self) -> None:
        await self._running.aclose()

    async def _register(self, admin_url: str, endpoint: str) -> None:
        """Tells the server where the endpoint is; repeated while either is still coming up."""
        answer = ""
        for _ in range(100):
            async with self._http.post(
                f"{admin_url}/deployments", json={"uri": endpoint}
            ) as response:
                if response.ok:
                    return
                answer = await response.text()
            await asyncio.sleep(0.1)
        raise RuntimeError(f"Restate did not accept the endpoint: {answer}")


@contextlib.asynccontextmanager
async def _endpoint() -> AsyncIterator[str]:
    """Serves the handlers on this loop; gives their URL."""
    (port,) = free_ports(1)
    application: Any = restate.app([service], protocol="bidi")
    server = Server(
        application,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http2,
        log_enabled=False,
    )
    serving = asyncio.create_task(server.serve())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await serving
