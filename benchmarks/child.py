"""The process of one contender: a JSON line on standard input, a JSON line on standard output.

    {"do": "setup", "servers": {...}}   ->  {"ok": {"facts": {...}}}
    {"do": "run", "load": "20x50"}      ->  {"ok": {"seconds": 2.31}}
    {"do": "teardown"}                  ->  {"ok": {"extra": {...}}}, then the process ends

A failure is answered by {"error": "...", "left_out": true or false}, and its traceback goes to
standard error, as does everything that is printed. A process of its own gives each contender its
own event loop, threads and logging, and spares the others how it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TextIO

import uvloop

from benchmarks.contenders import CONTENDERS
from benchmarks.contenders.contract import Servers
from benchmarks.errors import NotInstalled
from benchmarks.loads import Load
from temporal_workflows.exiting import leave

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.contenders.contract import Contender


class Conversation:
    """Carries out what the parent asks of one contender.

    Args:
        name: Whose process this is.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._contender: Contender | None = None

    async def hold(self, ask: Callable[[], str], answer: TextIO) -> None:
        """Answers until the parent asks for the teardown or is gone."""
        loop = asyncio.get_running_loop()
        # its own thread, since a contender may change the loop's default executor
        with ThreadPoolExecutor(1) as reader:
            torn_down = False
            while not torn_down:
                line = await loop.run_in_executor(reader, ask)
                request = json.loads(line) if line else {"do": "teardown"}
                torn_down = request["do"] == "teardown"
                reply = await self._reply(request)
                if line:
                    print(json.dumps(reply), file=answer, flush=True)

    async def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": await self._carry_out(request)}
        except NotInstalled as error:
            return {"error": str(error), "left_out": True}
        except Exception as error:
            traceback.print_exc()
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            return {"error": f"{type(error).__name__}: {error}", "left_out": False}

    async def _carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._contender is None:
            self._contender = CONTENDERS[self._name].load()
        match request["do"]:
            case "setup":
                await self._contender.setup(Servers.from_json(request["servers"]))
                return {"facts": self._contender.facts}
            case "run":
                return {"seconds": await self._contender.run(Load.parse(request["load"]))}
            case "teardown":
                await self._contender.teardown()
                return {"extra": self._contender.extra}
            case unknown:
                raise ValueError(f"nobody can {unknown!r}")


def main(name: str) -> None:
    """Talks over the descriptors that the parent gave, and turns what is printed to stderr."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    uvloop.run(Conversation(name).hold(sys.stdin.readline, answer))
    leave(0)


if __name__ == "__main__":
    main(sys.argv[1])
