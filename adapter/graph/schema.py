"""The JSON Schema of graph documents, made from the same models that check them.

It is for editors and other programs: it says what ``docs/graph-format.md`` says about shapes. What
fields mean to one another is checked by ``adapter.graph.validation`` alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from adapter.graph.comparisons import OPERATORS
from adapter.graph.document import SCHEMA, GraphDocument
from adapter.graph.nodes import node_types

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adapter.graph.configs import NodeConfig

_LATER = ("escalations", "compensate")


def graph_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of a whole document; a new dict each time."""
    schema = _of(GraphDocument)
    definitions = schema.pop("$defs")
    node = definitions["Node"]
    node["properties"] = {k: v for k, v in node["properties"].items() if k not in _LATER}
    node["properties"]["type"] = {"enum": list(node_types())}
    node["allOf"] = [_of_type(name, model) for name, model in node_types().items()]
    for name, model in node_types().items():
        config = _of(model)
        definitions |= config.pop("$defs", {})
        definitions[f"{name}_config"] = config
    definitions["Condition"] = _condition()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA.replace('/', ':')}",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    """The schema as it is published: indented, with a newline at the end."""
    return json.dumps(graph_schema(), indent=2, ensure_ascii=False) + "\n"


def _of(model: type[BaseModel]) -> dict[str, Any]:
    tidied: dict[str, Any] = _tidy(model.model_json_schema(by_alias=True))
    return tidied


def _tidy(part: Any) -> Any:
    """Without the titles that repeat names; the one that means something becomes a reference."""
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("title") == "Condition":
        return {"$ref": "#/$defs/Condition"}
    return {
        key: _tidy(item)
        for key, item in part.items()
        if not (key == "title" and isinstance(item, str))
    }


def _of_type(name: str, model: type[NodeConfig]) -> dict[str, Any]:
    """What a node of one type must have besides what all nodes have."""
    properties: dict[str, Any] = {"config": {"$ref": f"#/$defs/{name}_config"}}
    if not model.MAY_RETRY:
        properties["retry"] = {"type": "null"}
    if not model.MAY_TIME_OUT:
        properties["timeout"] = {"type": "null"}
    required = any(field.is_required() for field in model.model_fields.values())
    then = {"properties": properties} | ({"required": ["config"]} if required else {})
    return {"if": {"properties": {"type": {"const": name}}}, "then": then}


def _condition() -> dict[str, Any]:
    several = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Condition"}}
    return {
        "description": "a comparison, a combination of conditions, or a CEL text",
        "oneOf": [
            {"type": "string", "description": "CEL, without ${ and }"},
            _only({"all": several}),
            _only({"any": several}),
            _only({"not": {"$ref": "#/$defs/Condition"}}),
            {
                "type": "object",
                "properties": {
                    "field": {"type": "string", "description": "a dotted path from a name"},
                    "op": {"enum": list(OPERATORS)},
                    "value": {"description": "what to compare with; a template for most ops"},
                },
                "required": ["field", "op"],
                "additionalProperties": False,
            },
        ],
    }


def _only(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
