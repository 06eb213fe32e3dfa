"""The official conformance cases of CEL, read from ``tests/data/cel-spec``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.graph.textproto import Message, parse

DATA = Path(__file__).parents[1] / "data" / "cel-spec"

_PROTOBUF = re.compile(r"TestAllTypes|cel\.expr\.conformance")
_PRIMITIVES = {
    "BOOL": "bool",
    "BYTES": "bytes",
    "DOUBLE": "double",
    "INT64": "int",
    "STRING": "string",
    "UINT64": "uint",
}
_TYPE_NAMES = {
    "bool": "BOOL",
    "bytes": "BYTES",
    "double": "DOUBLE",
    "google.protobuf.Duration": "DURATION",
    "google.protobuf.Timestamp": "TIMESTAMP",
    "int": "INT",
    "list": "LIST",
    "map": "MAP",
    "null_type": "NULL",
    "string": "STRING",
    "type": "TYPE",
    "uint": "UINT",
}


@dataclass(frozen=True)
class Expected:
    """A value with the name of its CEL type; None as ``kind`` stands for any error."""

    kind: str | None
    value: Any


@dataclass(frozen=True)
class Case:
    name: str
    source: str
    check: bool
    declared: dict[str, str]
    bindings: dict[str, Any]
    expected: Expected


def message_free_cases() -> list[Case]:
    """All cases that need no protobuf message types, which JSON values do not have."""
    return [
        _case(f"{path.stem}/{text(section, 'name')}", test)
        for path in sorted(DATA.glob("*.textproto"))
        for section in messages(parse(path.read_text(encoding="utf-8")), "section")
        for test in messages(section, "test")
        if not _needs_messages(test)
    ]


def text(message: Message, name: str) -> str:
    found = dict(message)[name]
    return found.decode() if isinstance(found, bytes) else str(found)


def messages(message: Message, name: str) -> list[Message]:
    return [value for field, value in message if field == name and isinstance(value, list)]


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1, 1.0 and True apart, and takes NaN as equal to NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _needs_messages(test: Message) -> bool:
    return bool(_PROTOBUF.search(str(test)))


def _case(section: str, test: Message) -> Case:
    fields = dict(test)
    return Case(
        name=f"{section}/{text(test, 'name')}",
        source=text(test, "expr"),
        check=fields.get("disable_check") != "true",
        declared={
            text(variable, "name"): _type(messages(messages(variable, "ident")[0], "type")[0])
            for variable in messages(test, "type_env")
        },
        bindings={
            text(binding, "key"): _value(messages(messages(binding, "value")[0], "value")[0]).value
            for binding in messages(test, "bindings")
        },
        expected=_value(fields["value"]) if "value" in fields else Expected(None, None),
    )


def _type(message: Message) -> str:
    kind: str
    value: Any
    ((kind, value),) = message
    match kind:
        case "primitive":
            return _PRIMITIVES[str(value)]
        case "null":
            return "dyn"
        case "message_type":
            return bytes(value).decode()
        case "list_type":
            return f"list<{_type(messages(value, 'elem_type')[0])}>"
        case "map_type":
            key, item = messages(value, "key_type")[0], messages(value, "value_type")[0]
            return f"map<{_type(key)}, {_type(item)}>"
    raise AssertionError(f"unexpected type {message}")


def _value(message: Any) -> Expected:  # noqa: C901 - one line for each kind
    ((kind, value),) = message
    match kind:
        case "null_value":
            return Expected("NULL", None)
        case "bool_value":
            return Expected("BOOL", value == "true")
        case "int64_value":
            return Expected("INT", int(value, 0))
        case "uint64_value":
            return Expected("UINT", int(value, 0))
        case "double_value":
            return Expected("DOUBLE", float(value))
        case "string_value":
            return Expected("STRING", value.decode())
        case "bytes_value":
            return Expected("BYTES", value)
        case "type_value":
            return Expected("TYPE", _TYPE_NAMES.get(value.decode(), value.decode()))
        case "list_value":
            return Expected("LIST", [_value(item).value for item in messages(value, "values")])
        case "map_value":
            entries = messages(value, "entries")
            return Expected(
                "MAP",
                {
                    _value(messages(entry, "key")[0]).value: _value(
                        messages(entry, "value")[0]
                    ).value
                    for entry in entries
                },
            )
        case "object_value":
            return _well_known(value)
    raise AssertionError(f"unexpected value {message}")


def _well_known(message: Any) -> Expected:
    ((name, fields),) = message
    parts = {field: int(number) for field, number in fields}
    span = timedelta(seconds=parts.get("seconds", 0), microseconds=parts.get("nanos", 0) // 1000)
    if name.endswith("google.protobuf.Duration]"):
        return Expected("DURATION", span)
    assert name.endswith("google.protobuf.Timestamp]"), name
    return Expected("TIMESTAMP", datetime(1970, 1, 1, tzinfo=UTC) + span)
