"""The compiled graph: what the interpreter works with.

Everything is compiled once for each checksum and shared: configs, templates, conditions, edges.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from adapter.errors import InvalidDocument, InvalidInput
from adapter.graph import canonical
from adapter.graph.conditions import Condition, compile_condition
from adapter.graph.configs import FAILURE, NodeConfig
from adapter.graph.document import Edge, GraphDocument, GraphSettings, Node, RetryPolicy
from adapter.graph.durations import parse_duration
from adapter.graph.nodes import node_types
from adapter.graph.references import EVENT, ITEM, References
from adapter.graph.regions import find_regions
from adapter.graph.templates import Template, compile_template
from adapter.graph.validation import validate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

CACHED_GRAPHS: Final = 128

ONE_ATTEMPT: Final = RetryPolicy(max_attempts=1)
"""The policy of a node without ``retry``."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The edge that a finished node takes.

    Attributes:
        edge_index: Index in the document's ``edges``; None when there is none to take.
        to: The node it leads to; None likewise.
        by: Why: the outcome, a condition that held, the plain edge, or none.
    """

    edge_index: int | None
    to: str | None
    by: Literal["outcome", "condition", "plain", "none"]


_NO_EDGE: Final = Choice(None, None, "none")


@dataclass(frozen=True, slots=True)
class CompiledEdge:
    """One edge; ``condition`` is compiled from ``when``."""

    index: int
    to: str
    on: str | None
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class CompiledNode:
    """One node, ready to run.

    Attributes:
        id: Unique in the graph.
        type: The node type.
        name: For people; None if the document has none.
        config: The config model of the type.
        index: Index in the document's ``nodes``.
        template: The part of the config to render when the node begins: a dict by field.
        item_template: The part to render once for each item, likewise, with the name ``item``; None
            when the node has no items of its own. ``template`` is then without it.
        condition: The condition of the config of a trigger, wait or repeat.
        bodies: The node that each body begins with, by name: branches, or ``body`` alone.
        retry: Always there; one attempt when the document says nothing.
        timeout: Of one attempt; None when the document says nothing.
        edges: In the order of the document.
        refs: What all of its expressions read, its edges' conditions included: the scope to
            provide. Left out are ``event``, which the condition's caller adds, and the ``item``
            of ``item_template``, which its caller adds.
    """

    id: str
    type: str
    name: str | None
    config: NodeConfig
    index: int
    template: Template
    item_template: Template | None
    condition: Condition | None
    bodies: Mapping[str, str]
    retry: RetryPolicy
    timeout: timedelta | None
    edges: tuple[CompiledEdge, ...]
    refs: References
    _by_outcome: Mapping[str, Choice] = field(repr=False)
    _conditional: tuple[tuple[Condition, Choice], ...] = field(repr=False)
    _plain: Choice = field(repr=False)

    def choose(self, outcome: str, names: Mapping[str, Any]) -> Choice:
        """The edge to take: on the outcome, else the first condition that holds, else plain.

        A failure takes no edge but one that names it: a plain edge is not a handler of failures.

        Raises:
            EvaluationFailed: A condition that had to be tested failed.
        """
        named = self._by_outcome.get(outcome)
        if named is not None:
            return named
        if outcome == FAILURE:
            return _NO_EDGE
        for condition, choice in self._conditional:
            if condition.test(names):
                return choice
        return self._plain


@dataclass(frozen=True, slots=True)
class Graph:
    """A compiled graph document; immutable.

    Attributes:
        checksum: SHA-256 of the canonical document: its identity.
        key: The definition's key.
        settings: Actor mode and limits.
        trigger: Where every instance begins.
        nodes: By id, in the order of the document.
        owner_of: For each node inside a body, the node that owns the body.
    """

    checksum: str
    key: str
    settings: GraphSettings
    trigger: CompiledNode
    nodes: Mapping[str, CompiledNode]
    owner_of: Mapping[str, str]


_cache: OrderedDict[str, Graph] = OrderedDict()
_lock = threading.Lock()


def compile_graph(document: Mapping[str, Any], *, checksum: str | None = None) -> Graph:
    """Compiles a document, or returns the graph compiled before from the same document.

    It checks only what it needs to run, so that a document published by an older version, whose
    validation was less strict, keeps running.

    Args:
        document: A document that ``validate`` finds no error in.
        checksum: Its checksum where the caller knows it (a published version's row), which saves
            computing it.

    Raises:
        InvalidDocument: The document cannot be run; ``details["findings"]`` says why.
    """
    try:
        key = checksum or canonical.checksum(document)
        graph = cached_graph(key)
        if graph is None:
            graph = _compile(canonical.canonical(document), key)
    except InvalidDocument:
        raise
    except (InvalidInput, ValidationError) as error:
        raise _invalid(document, error) from error
    with _lock:
        _cache[key] = graph
        _cache.move_to_end(key)
        while len(_cache) > CACHED_GRAPHS:
            _cache.popitem(last=False)
    return graph


def cached_graph(checksum: str) -> Graph | None:
    """The graph compiled before under that checksum, if it is still kept."""
    with _lock:
        graph = _cache.get(checksum)
        if graph is not None:
            _cache.move_to_end(checksum)
        return graph


def _compile(value: Any, key: str) -> Graph:
    document = GraphDocument.model_validate(value)
    nodes: dict[str, CompiledNode] = {}
    leaving: dict[str, list[tuple[int, Edge]]] = {}
    for index, edge in enumerate(document.edges):
        leaving.setdefault(edge.from_, []).append((index, edge))
    for index, node in enumerate(document.nodes):
        nodes[node.id] = _compile_node(index, node, leaving.get(node.id, []))
    triggers = [node for node in nodes.values() if node.type == "trigger"]
    ends = {end for edge in document.edges for end in (edge.from_, edge.to)}
    if len(triggers) != 1 or len(nodes) != len(document.nodes) or ends - nodes.keys():
        raise InvalidInput("The nodes and edges do not form a graph with one trigger.")
    owner_of = MappingProxyType(_owners(nodes, triggers[0]))
    return Graph(
        key, document.key, document.settings, triggers[0], MappingProxyType(nodes), owner_of
    )


def _owners(nodes: Mapping[str, CompiledNode], trigger: CompiledNode) -> dict[str, str]:
    bodies = {node.id: node.config.bodies() for node in nodes.values() if node.bodies}
    if not bodies:
        return {}
    successors = {node.id: [edge.to for edge in node.edges] for node in nodes.values()}
    regions = find_regions(nodes, successors, bodies, [trigger.id])
    entries = {body.entry for all_ in bodies.values() for body in all_}
    if entries - nodes.keys() or not regions.sound:
        raise InvalidInput("The bodies of the nodes are not regions of the graph.")
    return regions.owner_of()


def _compile_node(index: int, node: Node, leaving: list[tuple[int, Edge]]) -> CompiledNode:
    model = node_types().get(node.type)
    if model is None:
        raise InvalidInput(f"Node {node.id!r} has type {node.type!r}, which cannot run.")
    config = model.model_validate(node.config)
    template = compile_template(config.template())
    per_item = config.item_template()
    item_template = None if per_item is None else compile_template(per_item)
    source = config.condition()
    condition = None
    if source is not None:
        condition = compile_condition(source, event=config.reads_event())
    edges = tuple(
        CompiledEdge(i, e.to, e.on, None if e.when is None else compile_condition(e.when))
        for i, e in leaving
    )
    by_outcome: dict[str, Choice] = {}
    conditional: list[tuple[Condition, Choice]] = []
    plain = _NO_EDGE
    for edge in edges:
        if edge.on is not None:
            by_outcome.setdefault(edge.on, Choice(edge.index, edge.to, "outcome"))
        elif edge.condition is not None:
            conditional.append((edge.condition, Choice(edge.index, edge.to, "condition")))
        elif plain is _NO_EDGE:
            plain = Choice(edge.index, edge.to, "plain")
    parts = [template.refs, *(c.refs for c, _ in conditional)]
    if condition is not None:
        parts.append(condition.refs)
    if item_template is not None:
        parts.append(References(item_template.names - {ITEM}, item_template.steps))
    refs = References.union(parts)
    return CompiledNode(
        id=node.id,
        type=node.type,
        name=node.name,
        config=config,
        index=index,
        template=template,
        item_template=item_template,
        condition=condition,
        bodies=MappingProxyType({body.name: body.entry for body in config.bodies()}),
        retry=node.retry or ONE_ATTEMPT,
        timeout=None if node.timeout is None else parse_duration(node.timeout),
        edges=edges,
        refs=References(refs.names - {EVENT}, refs.steps),
        _by_outcome=MappingProxyType(by_outcome),
        _conditional=tuple(conditional),
        _plain=plain,
    )


def _invalid(document: Any, error: InvalidInput | ValidationError) -> InvalidDocument:
    findings = [f.as_json() for f in validate(document) if f.severity == "error"]
    text = error.message if isinstance(error, InvalidInput) else "a part has a wrong shape."
    return InvalidDocument(f"The graph document cannot be run: {text}", findings=findings)
