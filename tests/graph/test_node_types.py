from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from adapter.graph.compiled import compile_graph
from adapter.graph.configs import NodeConfig
from adapter.graph.nodes import NOT_SUPPORTED, node_types
from adapter.graph.schema import schema_text
from adapter.graph.validation import validate
from adapter.interpreter.nodes import node_modules
from tests.graph.documents import document, findings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "graph-format.md").read_text(encoding="utf-8")


def example(node_type: str) -> Any:
    return json.loads((ROOT / "examples" / "nodes" / f"{node_type}.json").read_text())


def test_the_node_types_are_these() -> None:
    flow = {"trigger", "decision", "set", "end", "parallel", "for_each", "repeat"}
    assert set(node_types()) == flow | {"action", "delay", "wait", "wait_for", "start_workflow"}
    assert set(node_modules()) == set(node_types())
    assert not set(node_types()) & NOT_SUPPORTED


@pytest.mark.parametrize("node_type", node_types())
def test_every_node_type_has_a_model_a_decider_a_section_and_an_example(node_type: str) -> None:
    assert issubclass(node_types()[node_type], NodeConfig)
    assert node_type == node_modules()[node_type].TYPE
    assert f"\n### `{node_type}`\n" in PAGE
    assert node_type in {node["type"] for node in example(node_type)["nodes"]}


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "nodes").glob("*.json")), ids=str)
def test_every_example_is_of_a_node_type_and_without_findings(path: Path) -> None:
    assert path.stem in node_types()
    assert validate(path.read_text(encoding="utf-8")) == []
    assert compile_graph(json.loads(path.read_text(encoding="utf-8"))).nodes


@pytest.mark.parametrize("node_type", node_types())
def test_every_field_of_a_config_is_documented_in_its_section(node_type: str) -> None:
    section = PAGE.split(f"\n### `{node_type}`\n")[1].split("\n### ")[0].split("\n## ")[0]
    fields = node_types()[node_type].model_fields
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    assert documented == {field.alias or name for name, field in fields.items()}


def test_every_documented_example_in_the_page_can_run() -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    documents = [block for block in blocks if '"schema"' in block]

    assert documents
    for block in documents:
        assert validate(block) == []


@pytest.mark.parametrize("node_type", sorted(NOT_SUPPORTED))
def test_what_cannot_run_yet_differs_from_what_does_not_exist(node_type: str) -> None:
    later = {"id": "it", "type": node_type, "config": {"any": "thing"}}

    assert findings(document([later])) == {("not_supported", "/nodes/1/type")}
    assert findings(document([{**later, "type": f"{node_type}x"}])) == {
        ("unknown_node_type", "/nodes/1/type")
    }
    assert f"`{node_type}`" in PAGE


def test_the_published_schema_is_that_of_the_models() -> None:
    published = (ROOT / "docs" / "graph-v1.schema.json").read_text(encoding="utf-8")

    assert published == schema_text(), "write what schema_text() gives into the file"
