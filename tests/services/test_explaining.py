from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.errors import InvalidInput, NotFound
from tests.services.graphs import document
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from adapter.services.explaining import WhyView

UNKNOWN = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"


def deciding(*conditions: Any) -> dict[str, Any]:
    """A decision with an edge for each condition, to ends of its own, and a plain edge."""
    names = [f"end{place}" for place in range(len(conditions))]
    edges = zip(names, conditions, strict=True)
    return document(
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "size", "type": "decision"},
            *({"id": name, "type": "end"} for name in (*names, "other")),
        ],
        edges=[
            {"from": "begin", "to": "size"},
            *({"from": "size", "to": name, "when": when} for name, when in edges),
            {"from": "size", "to": "other"},
        ],
    )


def explained(almanac: Almanac, graph: dict[str, Any], payload: Any) -> tuple[WhyView, ...]:
    almanac.publish(graph, check_actions=False)
    ulid = almanac.start(graph["key"], payload).ulid
    take_turns(almanac.settings, ulid, registry=almanac.registry)
    return almanac.explain(ulid.lower())


def field(name: str, op: str, value: Any = True) -> dict[str, Any]:
    return {"field": f"trigger.{name}", "op": op, "value": value}


@pytest.mark.parametrize(
    ("condition", "holds", "because"),
    [
        (field("amount", "gt", 100), False, ("trigger.amount gt 100: it is the text 'lots'",)),
        (
            field("missing", "exists"),
            False,
            ("trigger.missing exists true: it is missing or null",),
        ),
        (field("n", "ge", 3), True, ("trigger.n ge 3: it is 5",)),
        (field("n", "ge", "${ trigger.n + 1 }"), False, ("trigger.n ge 6: it is 5",)),
        (
            field("rows", "contains", 9),
            False,
            ("trigger.rows contains 9: it is a list of 2: [1, 2]",),
        ),
        ({"not": field("n", "eq", 5)}, False, ("not trigger.n eq 5: it is 5",)),
        (
            {"all": [field("n", "eq", 5), field("n", "gt", 7), field("n", "lt", 2)]},
            False,
            ("trigger.n gt 7: it is 5", "trigger.n lt 2: it is 5"),
        ),
        (
            {"any": [field("n", "eq", 5), field("n", "gt", 7)]},
            True,
            ("trigger.n eq 5: it is 5",),
        ),
        (
            {"any": [field("n", "eq", 4), field("n", "gt", 7)]},
            False,
            ("trigger.n eq 4: it is 5", "trigger.n gt 7: it is 5"),
        ),
        ("trigger.n * 2 > 11", False, ("trigger.n * 2 > 11 is false: trigger.n is 5",)),
    ],
)
def test_a_condition_tells_what_it_compared(
    almanac: Almanac, condition: Any, holds: bool, because: tuple[str, ...]
) -> None:
    payload = {"amount": "lots", "n": 5, "rows": [1, 2]}

    (choice,) = explained(almanac, deciding(condition), payload)

    assert (choice.node, choice.note) == ("size", None)
    assert (choice.to, choice.by) == (("end0", "condition") if holds else ("other", "plain"))
    assert [(test.to, test.holds, test.because) for test in choice.tests] == [
        ("end0", holds, because)
    ]
    assert choice.tests[0].explanation["result"] is holds


def test_conditions_are_told_up_to_the_one_that_held(almanac: Almanac) -> None:
    graph = deciding(field("n", "eq", 1), field("n", "eq", 2), field("n", "eq", 3))

    (choice,) = explained(almanac, graph, {"n": 2})

    assert [(test.to, test.holds) for test in choice.tests] == [("end0", False), ("end1", True)]


def test_a_condition_that_failed_is_told_with_its_error(almanac: Almanac) -> None:
    (choice,) = explained(almanac, deciding("trigger.none > 1"), {})

    assert (choice.to, choice.note) == (None, None)
    (test,) = choice.tests
    assert test.holds is None
    assert "trigger.none is missing or null; it failed: " in test.because[0]


def test_each_visit_is_told_with_the_values_of_its_own_moment(almanac: Almanac) -> None:
    graph = document(
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "zero", "type": "set", "config": {"values": {"n": 0}}},
            {"id": "count", "type": "set", "config": {"values": {"n": "${ state.n + 1 }"}}},
            {"id": "check", "type": "action", "config": {
                "action": "permits.check", "input": {"case": "${ string(state.n) }"}}},
            {"id": "done", "type": "end"},
        ],
        edges=[
            {"from": "begin", "to": "zero"},
            {"from": "zero", "to": "count"},
            {"from": "count", "to": "check",
             "when": {"field": "state.n", "op": "gt", "value": 0}},
            {"from": "check", "to": "done", "when": {"all": [
                {"field": "state.n", "op": "ge", "value": 3},
                {"field": "steps.check.output", "op": "eq", "value": True}]}},
            {"from": "check", "to": "count"},
        ],
    )  # fmt: skip

    choices = explained(almanac, graph, {})

    assert [(choice.node, choice.to, choice.note) for choice in choices] == [
        ("count", "check", None), ("check", "count", None),
        ("count", "check", None), ("check", "count", None),
        ("count", "check", None), ("check", "done", None),
    ]  # fmt: skip
    assert [choice.tests[0].because[0] for choice in choices] == [
        "state.n gt 0: it is 1", "state.n ge 3: it is 1",
        "state.n gt 0: it is 2", "state.n ge 3: it is 2",
        "state.n gt 0: it is 3", "state.n ge 3: it is 3",
    ]  # fmt: skip
    assert choices[-1].tests[0].because[1] == "steps.check.output eq true: it is true"


def test_items_and_the_steps_of_their_lines_are_told(almanac: Almanac) -> None:
    graph = document(
        nodes=[
            {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
            {"id": "each", "type": "for_each",
             "config": {"items": "${ trigger.rows }", "body": "pick"}},
            {"id": "pick", "type": "decision"},
            {"id": "keep", "type": "set", "config": {"values": {"kept": "${ item }"}}},
            {"id": "drop", "type": "set", "config": {"values": {"dropped": "${ item }"}}},
        ],
        edges=[
            {"from": "begin", "to": "each"},
            {"from": "pick", "to": "keep", "when": {"field": "item", "op": "gt", "value": 1}},
            {"from": "pick", "to": "drop"},
        ],
    )  # fmt: skip

    choices = explained(almanac, graph, {"rows": [1, 2]})

    assert [(choice.line, choice.to, choice.tests[0].because) for choice in choices] == [
        ("each.1:0", "drop", ("item gt 1: it is 1",)),
        ("each.1:1", "keep", ("item gt 1: it is 2",)),
    ]


def test_a_choice_that_this_version_would_not_make_is_told_with_a_caution(
    almanac: Almanac, database_url: str
) -> None:
    import psycopg

    graph = deciding(field("n", "gt", 1))
    almanac.publish(graph)
    ulid = almanac.start("permits", {"n": 5}).ulid
    take_turns(almanac.settings, ulid)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE workflow_journal SET data = jsonb_set(data, '{edge}',"
            """ '{"to": "other", "by": "plain", "index": 2}') WHERE node_id = 'size'"""
        )

    (choice,) = almanac.explain(ulid)

    assert choice.note is not None
    assert "cannot be told exactly" in choice.note


def test_only_the_newest_choices_are_told(almanac: Almanac) -> None:
    almanac.publish(deciding(field("n", "gt", 1)))
    ulid = almanac.start("permits", {"n": 5}).ulid
    assert almanac.explain(ulid) == ()
    with pytest.raises(InvalidInput):
        almanac.explain(ulid, most=0)
    with pytest.raises(NotFound):
        almanac.explain(UNKNOWN)
