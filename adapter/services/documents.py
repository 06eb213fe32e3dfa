"""Graph documents at the door: read, validated with all findings, made ready for the record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from adapter.errors import InvalidDocument
from adapter.graph.canonical import canonical, checksum
from adapter.graph.compiled import Graph, compile_graph
from adapter.graph.validation import Finding, validate

if TYPE_CHECKING:
    from adapter.settings import Settings

Document = Mapping[str, Any] | str | bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """A document without errors.

    Attributes:
        document: Its canonical form.
        graph: Compiled from it.
        warnings: Findings that do not stop a publication.
    """

    document: dict[str, Any]
    graph: Graph
    warnings: tuple[Finding, ...]

    @property
    def checksum(self) -> str:
        """SHA-256 of the canonical form."""
        return self.graph.checksum


def accept_document(
    document: Document, settings: Settings, *, known_actions: Collection[str] | None
) -> Accepted:
    """Validates a document and returns what a publication needs of it.

    Args:
        document: The document, or its JSON text.
        settings: ``limits`` bound its size.
        known_actions: The names of all actions that workers have; None leaves them unchecked.

    Raises:
        InvalidDocument: ``details["findings"]`` lists every finding, errors and warnings.
    """
    findings = validate(document, known_actions=known_actions, limits=settings.limits)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise InvalidDocument(_summary(errors), findings=[asdict(finding) for finding in findings])
    value = orjson.loads(document) if isinstance(document, str | bytes) else document
    made: dict[str, Any] = canonical(dict(value))
    graph = compile_graph(made, checksum=checksum(made))
    return Accepted(made, graph, tuple(findings))


def waited_fields(graph: Graph) -> dict[str, list[list[str]]]:
    """Returns, for each event that a wait names, the sets of payload fields that waits match on.

    Fields are sorted by code point, which is the order of PostgreSQL's "C" collation.
    """
    found: dict[str, set[tuple[str, ...]]] = {}
    for node in graph.nodes.values():
        event = getattr(node.config, "event", None)
        if node.type == "wait" and event is not None:
            match = getattr(node.config, "match", None) or {}
            found.setdefault(event, set()).add(tuple(sorted(match)))
    return {event: [list(fields) for fields in sorted(sets)] for event, sets in found.items()}


def _summary(errors: list[Finding]) -> str:
    first = errors[0]
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    where = first.pointer or "the document"
    return f"the document was refused: {where}: {first.message}{more}; {first.remedy}"
