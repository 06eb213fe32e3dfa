from __future__ import annotations

import dataclasses
import decimal
from collections import OrderedDict
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, model_serializer

from adapter.settings import Limits
from tests.execution.runtime import action, chain, graph

if TYPE_CHECKING:
    from tests.execution.runtime import Runtime


class Level(IntEnum):
    HIGH = 2


class Color(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: int


class Receipt(BaseModel):
    number: int
    at: datetime
    id: UUID = Field(default=UUID(int=7))


class Silent(BaseModel):
    @model_serializer
    def refuse(self) -> Any:
        raise KeyError("no form")


@dataclasses.dataclass
class Fee:
    amount: int


class Sly(list[int]):
    def __iter__(self) -> Any:
        raise ZeroDivisionError("items")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.extend([value] * 10)
    return value


async def coroutine() -> int:
    return 1


AT = datetime(2026, 5, 4, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        (None, None),
        (True, True),
        ("ä€😀\u2028", "ä€😀\u2028"),
        (2.0, 2),
        (-0.0, 0),
        (1.5, 1.5),
        (1e-300, 1e-300),
        (2**53 - 1, 2**53 - 1),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({Color.RED: Level.HIGH}, {"red": 2}),
        ({"": {"": []}}, {"": {"": []}}),
        (nested(64), nested(64)),
        (
            Receipt(number=1, at=AT),
            {"number": 1, "at": "2026-05-04T10:00:00Z", "id": str(UUID(int=7))},
        ),
        ({"cut": True, "value": 1}, {"cut": True, "value": 1}),
    ],
)
async def test_json_values_come_back_as_they_were_or_in_their_one_form(
    runtime: Runtime, returned: Any, kept: Any
) -> None:
    runtime.registry.action("give")(lambda: returned)
    seen = {"id": "seen", "type": "set", "config": {"values": {"seen": "${ steps.one.output }"}}}
    document = chain(action("one", "give"), seen)
    ulid = await runtime.ran(document)
    output = (await runtime.step(ulid, "one"))["output"]
    assert (output, type(output)) == (kept, type(kept))
    passed = (await runtime.rows("journal", ulid))[-2]
    assert passed["data"]["set"] == {"seen": kept}


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (float("nan"), "the number is not finite"),
        ({"a": [1, float("inf")]}, "at /a/1 cannot be kept as JSON: the number is not finite"),
        (-float("inf"), "the number is not finite"),
        (2**53, "the number is beyond 2^53 - 1"),
        ([-(2**53)], "at /0 cannot be kept as JSON: the number is beyond 2^53 - 1"),
        (1e300, "the number is beyond 2^53 - 1"),
        ("a\0b", "holds a NUL character"),
        ({"a\0": 1}, "a key holds a NUL character"),
        ("\ud800", "holds a lone surrogate"),
        ({"\udfff": 1}, "a key holds a lone surrogate"),
        (b"bytes", "bytes is not a JSON type"),
        (AT, "datetime is not a JSON type"),
        ({"fee": Fee(1)}, "at /fee cannot be kept as JSON: Fee is not a JSON type"),
        (Fee(1), "Fee is not a JSON type"),
        ({"receipt": Receipt(number=1, at=AT)}, "Receipt is not a JSON type"),
        (decimal.Decimal("1.5"), "Decimal is not a JSON type"),
        ({1, 2}, "set is not a JSON type"),
        ({1: "one"}, "the key 1 is not text"),
        (nested(65), "nested more than 64 levels deep"),
        (cyclic(), "nested more than 64 levels deep"),
        (object(), "object is not a JSON type"),
        ((n for n in range(3)), "generator is not a JSON type"),
        (Silent(), "KeyError: 'no form'"),
        (Sly([1]), "ZeroDivisionError: items"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isprintable() else "value",
)
async def test_what_is_not_json_fails_the_step_and_is_not_tried_again(
    runtime: Runtime, returned: Any, why: str
) -> None:
    runtime.registry.action("give", retry={"max_attempts": 5, "initial": "PT0S"})(lambda: returned)
    end = {"id": "end", "type": "end", "config": {}}
    failure = {"from": "one", "to": "end", "on": "failure"}
    for edges, status, node in (([], "failed", "one"), ([failure], "completed", "end")):
        document = graph(action("one", "give"), end, edges=[("trigger", "one"), *edges])
        ulid = await runtime.ran(document)
        instance = await runtime.instance(ulid)
        assert (instance["status"], instance["current_node_id"]) == (status, node)
        step = await runtime.step(ulid, "one")
        assert (step["status"], step["attempt"], step["output"]) == ("failed", 1, None)
        assert (step["error_code"], step["error_retryable"]) == ("invalid_output", False)
        assert step["error_message"].startswith("node 'one' returned what cannot be kept as JSON: ")
        assert why in step["error_message"]
        assert instance["failure_code"] == ("invalid_output" if status == "failed" else None)


@pytest.mark.filterwarnings("ignore:coroutine 'coroutine' was never awaited:RuntimeWarning")
async def test_a_plain_function_that_returns_a_coroutine_has_returned_no_json(
    runtime: Runtime,
) -> None:
    runtime.registry.action("give")(lambda: coroutine())
    ulid = await runtime.ran(chain(action("one", "give")))
    step = await runtime.step(ulid, "one")
    assert step["error_code"] == "invalid_output"
    assert "coroutine is not a JSON type" in step["error_message"]


async def test_an_output_may_be_as_large_as_the_limit_and_no_larger(runtime: Runtime) -> None:
    runtime.limit(Limits(max_output_bytes=2048))
    for characters, status in ((2046, "succeeded"), (2047, "failed")):
        runtime.registry.actions.clear()
        runtime.registry.action("give", retry={"max_attempts": 3})(lambda c=characters: "x" * c)
        ulid = await runtime.ran(chain(action("one", "give")))
        step = await runtime.step(ulid, "one")
        assert (step["status"], step["attempt"]) == (status, 1)
    assert step["error_code"] == "output_too_large"
    assert step["error_message"] == (
        "node 'one' returned 2049 bytes, the limit is 2048; store it elsewhere and return a"
        " reference"
    )
    assert (await runtime.instance(ulid))["failure_code"] == "output_too_large"


async def test_bytes_are_counted_not_characters(runtime: Runtime) -> None:
    runtime.limit(Limits(max_output_bytes=1024))
    runtime.registry.action("give")(lambda: "ü" * 600)
    ulid = await runtime.ran(chain(action("one", "give")))
    assert (await runtime.step(ulid, "one"))["error_code"] == "output_too_large"


async def test_many_large_outputs_are_kept_and_read_one_by_one(runtime: Runtime) -> None:
    runtime.registry.action("give")(lambda n: {"n": n, "text": "x" * 200_000})
    nodes = [action(f"give{n}", "give", input={"n": n}) for n in range(6)]
    sums = " + ".join(f"steps.give{n}.output.n" for n in range(6))
    end = {"id": "end", "type": "end", "config": {"output": f"${{ {sums} }}"}}
    ulid = await runtime.ran(chain(*nodes, end))
    assert (await runtime.step(ulid, "end"))["output"] == 15
