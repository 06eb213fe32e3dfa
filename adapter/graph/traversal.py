"""Walks over the nodes and edges of a graph: what leads where, and which nodes lie on loops.

Iterative throughout: a chain of thousands of nodes must not exhaust the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Reach:
    """Which nodes lead to which, over one edge or more; a node leads to itself only on a loop.

    The answer for all pairs at once: a set of bits for each node, made from the strongly connected
    parts in the order in which they are completed, so that what follows is always known.
    """

    def __init__(self, nodes: Iterable[str], successors: Mapping[str, Sequence[str]]) -> None:
        parts = components(nodes, successors)
        self._bit = {node: 1 << i for i, node in enumerate(n for part in parts for n in part)}
        self._reach: dict[str, int] = {}
        for part in parts:
            beyond = 0
            for node in part:
                for after in successors.get(node, ()):
                    beyond |= self._bit[after] | self._reach.get(after, 0)
            self._reach.update(dict.fromkeys(part, beyond))

    def leads(self, begin: str, end: str) -> bool:
        """Whether a path leads from one node to the other."""
        return bool(self._reach[begin] & self._bit[end])


def loops(nodes: Iterable[str], successors: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected parts that hold a loop, each in the order in which it was entered."""
    return [
        part
        for part in components(nodes, successors)
        if len(part) > 1 or part[0] in successors.get(part[0], ())
    ]


def components(nodes: Iterable[str], successors: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected parts; each comes after all parts that it leads to.

    Tarjan's algorithm (SIAM J. Comput. 1, 1972), with an explicit stack.
    """
    search = _Search(successors)
    for node in nodes:
        if node not in search.index:
            search.begin_at(node)
    return search.parts


class _Search:
    def __init__(self, successors: Mapping[str, Sequence[str]]) -> None:
        self._successors = successors
        self.index: dict[str, int] = {}
        self.parts: list[list[str]] = []
        self._low: dict[str, int] = {}
        self._path: list[str] = []
        self._on_path: set[str] = set()

    def begin_at(self, root: str) -> None:
        work = [(root, 0)]
        while work:
            node, edge = work.pop()
            if edge == 0:
                self._enter(node)
            following = self._successors.get(node, ())
            if edge < len(following):
                work.append((node, edge + 1))
                after = following[edge]
                if after not in self.index:
                    work.append((after, 0))
                elif after in self._on_path:
                    self._low[node] = min(self._low[node], self.index[after])
                continue
            if work:
                parent = work[-1][0]
                self._low[parent] = min(self._low[parent], self._low[node])
            if self._low[node] == self.index[node]:
                self._complete(node)

    def _enter(self, node: str) -> None:
        self.index[node] = self._low[node] = len(self.index)
        self._path.append(node)
        self._on_path.add(node)

    def _complete(self, node: str) -> None:
        part = [self._path.pop()]
        while part[-1] != node:
            part.append(self._path.pop())
        part.reverse()
        self._on_path.difference_update(part)
        self.parts.append(part)
