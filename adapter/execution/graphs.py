"""Published graphs, compiled once per version and process: a published version never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapter.errors import NotFound
from adapter.graph.compiled import Graph, compile_graph

if TYPE_CHECKING:
    from adapter.interpreter.state import Key
    from adapter.settings import Settings

MAX_GRAPHS = 500


class Graphs:
    """Compiled graphs by version id."""

    def __init__(self, settings: Settings) -> None:
        self._query = f"SELECT graph FROM {settings.tables.versions} WHERE id = $1"
        self._graphs: dict[Key, Graph] = {}

    async def get(self, connection: Any, version: Key) -> Graph:
        """The graph of a version.

        Raises:
            NotFound: No such version.
        """
        graph = self._graphs.get(version)
        if graph is None:
            text = await connection.fetchval(self._query, version)
            if text is None:
                raise NotFound(f"no version has the id {version}; was the record restored?")
            graph = compile_graph(orjson.loads(text))
            while len(self._graphs) >= MAX_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[version] = graph
        return graph
