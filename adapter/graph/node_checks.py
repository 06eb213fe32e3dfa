"""Findings about single nodes: shape, type, config, and what only some types may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.graph.arguments import Parameters, check_arguments
from adapter.graph.document import Node
from adapter.graph.findings import Finding, find
from adapter.graph.nodes import NOT_SUPPORTED, node_types
from adapter.graph.shapes import check_shape
from adapter.graph.suggestions import Suggester

if TYPE_CHECKING:
    from collections.abc import Collection

    from adapter.graph.configs import NodeConfig
    from adapter.graph.expression_checks import ExpressionChecks

_LATER = ("escalations", "compensate")
"""Fields that are documented but cannot run yet."""


class KnownActions:
    """The registered actions, and the hints for names that are none.

    Args:
        names: Their names; a mapping also tells what each handler takes.
    """

    def __init__(self, names: Collection[str] | Mapping[str, Parameters]) -> None:
        self.names = frozenset(names)
        self.takes = names if isinstance(names, Mapping) else {}
        self.suggester = Suggester(self.names)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """What can be said about one node, however broken it is.

    Attributes:
        index: In the document's ``nodes``.
        id: None if it has none that is text.
        type: None if it has none that is text.
        config: None if the config is wrong or the type unknown.
    """

    index: int
    id: str | None
    type: str | None
    config: NodeConfig | None

    @property
    def owns(self) -> bool:
        """Whether nodes of its type own others."""
        model = node_types().get(self.type or "")
        return model is not None and model.OWNS

    @property
    def binds_item(self) -> bool:
        """Whether nodes of its type give others an item."""
        model = node_types().get(self.type or "")
        return model is not None and model.BINDS_ITEM


def check_node(
    index: int,
    value: Any,
    expressions: ExpressionChecks,
    actions: KnownActions | None,
) -> tuple[NodeSeen, list[Finding]]:
    """Everything that is wrong with one node by itself; its expressions go to ``expressions``."""
    path = ("nodes", index)
    if not isinstance(value, dict):
        return NodeSeen(index, None, None, None), [
            find("invalid_field", path, "a node is an object")
        ]
    shape = {key: item for key, item in value.items() if key not in ("config", *_LATER)}
    node, findings = check_shape(Node, shape, path)
    if node is not None and node.retry is not None and (flaw := node.retry.flaw):
        findings.append(find("retry_max_below_initial", (*path, "retry", "initial"), flaw))
    findings += [
        find("not_supported", (*path, field), f"{field!r} cannot run yet")
        for field in _LATER
        if value.get(field) not in (None, [], {})
    ]
    node_type, config = value.get("type"), None
    if isinstance(node_type, str):
        config = _check_type(node_type, value, index, findings, expressions)
    if config is not None and actions is not None:
        findings += _check_action(config, actions, path)
    node_id = value.get("id")
    return NodeSeen(
        index,
        node_id if isinstance(node_id, str) else None,
        node_type if isinstance(node_type, str) else None,
        config,
    ), findings


def _check_type(
    node_type: str,
    value: dict[str, Any],
    index: int,
    findings: list[Finding],
    expressions: ExpressionChecks,
) -> NodeConfig | None:
    path = ("nodes", index)
    model = node_types().get(node_type)
    if model is None:
        if node_type in NOT_SUPPORTED:
            message = f"nodes of type {node_type!r} cannot run yet"
            findings.append(find("not_supported", (*path, "type"), message))
        else:
            known = [*node_types(), *sorted(NOT_SUPPORTED)]
            message = f"no node type {node_type!r:.80}{Suggester(known).closest(node_type)}"
            findings.append(find("unknown_node_type", (*path, "type"), message))
        return None
    for field, code, allowed in (
        ("retry", "retry_not_allowed", model.MAY_RETRY),
        ("timeout", "timeout_not_allowed", model.MAY_TIME_OUT),
    ):
        if not allowed and value.get(field) is not None:
            message = f"nodes of type {node_type!r} have no {field!r} of their own"
            findings.append(find(code, (*path, field), message))
    return _check_config(model, value.get("config", {}), (*path, "config"), findings, expressions)


def _check_config(
    model: type[NodeConfig],
    raw: Any,
    path: tuple[str | int, ...],
    findings: list[Finding],
    expressions: ExpressionChecks,
) -> NodeConfig | None:
    config, wrong = check_shape(model, raw, path)
    findings += wrong
    if config is not None:
        findings += [
            find(flaw.code, (*path, *flaw.path), flaw.message, remedy=flaw.remedy)
            for flaw in config.flaws()
        ]
    if isinstance(raw, dict):
        for field in model.TEMPLATES:
            expressions.template(raw.get(field), (*path, field))
        for field, event in model.CONDITIONS.items():
            if raw.get(field) is not None:
                expressions.condition(raw[field], (*path, field), event=event)
    return config


def _check_action(
    config: NodeConfig, actions: KnownActions, path: tuple[str | int, ...]
) -> list[Finding]:
    name = getattr(config, "action", None)
    if name is None:
        return []
    if name in actions.names:
        takes, given = actions.takes.get(name), getattr(config, "input", {})
        return [] if takes is None else check_arguments(name, given, takes, (*path, "config"))
    message = f"no handler is registered for action {name!r}{actions.suggester.closest(name)}"
    return [find("unknown_action", (*path, "config", "action"), message)]
