"""Owners, subjects, starters and publishers of every key type, beside ids of ours of every type."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from ulid import ULID

from adapter.cli.inputs import read_reference
from adapter.client.almanac import Almanac
from adapter.errors import InvalidInput
from adapter.execution.registry import Registry
from adapter.records.migrating import upgrade
from adapter.services.matching import match_events
from adapter.services.morphs import Ref
from adapter.services.views import Reference
from adapter.settings import Settings
from tests.records.databases import fresh_database
from tests.services.graphs import document, triggered, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from temporal_workflows.dev.stack import Stack

PRIMARY = ("bigint", "uuid", "ulid")
MORPH = ("bigint", "uuid", "ulid", "string")
NAMES = ("primary_key_type", "owner_key_type", "subject_key_type", "key_type")

# Two orthogonal Latin squares: sixteen combinations that hold every pair.
_TWICE = (0, 2, 3, 1)
COMBINATIONS = [
    (PRIMARY[(i ^ _TWICE[j]) % 3], MORPH[i], MORPH[j], MORPH[i ^ j])
    for i, j in product(range(4), repeat=2)
]

GIVEN: dict[str, tuple[Any, ...]] = {
    "bigint": (0, 4711, -(2**53) + 1),
    "uuid": (
        UUID("01890000-0000-7000-8000-000000000001"),
        "01890000000070008000000000000002",
        "{01890000-0000-7000-8000-00000000000A}",
    ),
    "ulid": (
        "01J9ZQ3V0M4QF1S5W8E7R2T6YK",
        "01j9zq3v0m4qf1s5w8e7r2t6ym",
        ULID.from_str("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ),
    "string": ("7", "users/7: größe 'x' \"y\" %s {0} $1", "k" * 184),
}
KEPT: dict[str, tuple[str, ...]] = {
    "bigint": ("0", "4711", "-9007199254740991"),
    "uuid": (
        "01890000-0000-7000-8000-000000000001",
        "01890000-0000-7000-8000-000000000002",
        "01890000-0000-7000-8000-00000000000a",
    ),
    "ulid": (
        "01J9ZQ3V0M4QF1S5W8E7R2T6YK",
        "01J9ZQ3V0M4QF1S5W8E7R2T6YM",
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ),
    "string": ("7", "users/7: größe 'x' \"y\" %s {0} $1", "k" * 184),
}
WRONG: dict[str, tuple[Any, ...]] = {
    "bigint": ("4711", True, 7.0, 2**63, -(2**64), None, UUID(int=7), "01J9ZQ3V0M4QF1S5W8E7R2T6YK"),
    "uuid": (7, "7", "01J9ZQ3V0M4QF1S5W8E7R2T6YK", "01890000-0000-7000-8000-00000000000g", None),
    "ulid": (
        *(7, None, "7", "01890000-0000-7000-8000-000000000001", UUID(int=7)),
        *("01J9ZQ3V0M4QF1S5W8E7R2T6Y", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01J9ZQ3V0M4QF1S5W8E7R2T6YU"),
    ),
    "string": (7, None, "", "a\0b", "k" * 192, b"7", UUID(int=7)),
}
COLUMNS = {
    "bigint": "bigint",
    "uuid": "uuid",
    "ulid": "character",
    "string": "character varying",
}


@dataclass
class Place:
    """A database of one combination, and an Almanac on it."""

    url: str
    almanac: Almanac

    @property
    def settings(self) -> Settings:
        return self.almanac.settings

    def rows(self, query: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(query.encode()).fetchall()

    def match(self) -> None:
        with self.almanac.transaction() as connection:
            match_events(connection, self.settings)


@pytest.fixture(scope="module", params=COMBINATIONS, ids=[", ".join(one) for one in COMBINATIONS])
def place(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Place]:
    settings = Settings.model_validate(dict(zip(NAMES, request.param, strict=True)))
    with fresh_database(stack) as url:
        upgrade(url, settings)
        settings = settings.model_copy(update={"database_url": url})
        with Almanac(settings, registry=Registry()) as almanac:
            almanac.publish(waiting(match={"permit": "${ subject.id }"}))
            yield Place(url, almanac)


def test_the_combinations_hold_every_pair_of_two_settings() -> None:
    values = (PRIMARY, MORPH, MORPH, MORPH)
    for one, other in combinations(range(4), 2):
        met = {(row[one], row[other]) for row in COMBINATIONS}
        assert met == set(product(values[one], values[other])), (NAMES[one], NAMES[other])


def test_the_columns_have_the_types_of_the_settings(place: Place) -> None:
    of = place.settings
    found = {
        row["column_name"]: row["data_type"]
        for row in place.rows(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_name IN ('workflow_instances', 'workflow_versions')"
            " AND (column_name LIKE '%\\_id' OR column_name = 'id')"
        )
    }
    kinds = {"owner_id": of.owner_key_type, "subject_id": of.subject_key_type}
    kinds |= dict.fromkeys(("starter_id", "publisher_id"), of.key_type)
    kinds |= dict.fromkeys(("definition_id", "parent_instance_id"), of.primary_key_type)
    assert {name: found[name] for name in kinds} == {name: COLUMNS[k] for name, k in kinds.items()}


def test_an_instance_keeps_owner_subject_and_starter_as_they_were_given(place: Place) -> None:
    of = place.settings
    kinds = (of.owner_key_type, of.subject_key_type, of.key_type)
    for index in range(3):
        owner, subject, starter = (
            (name, GIVEN[kind][index])
            for name, kind in zip(("org", "Permit", "user"), kinds, strict=True)
        )
        kept = [KEPT[kind][index] for kind in kinds]
        started = place.almanac.start(
            "permits",
            {"n": index},
            owner=owner,
            subject=Ref(*subject, key="permit"),
            starter=starter,
            idempotency_key=f"once {index}",
        )
        again = place.almanac.start(
            "permits",
            {"n": index},
            owner=owner,
            subject=Ref(*subject, key="permit"),
            starter=starter,
            idempotency_key=f"once {index}",
        )
        assert (again.ulid, again.created) == (started.ulid, False)
        (row,) = place.rows(
            "SELECT owner_type, owner_id::text, subject_type, subject_id::text, subject_key,"
            f" starter_type, starter_id::text FROM workflow_instances WHERE ulid = '{started.ulid}'"
        )
        assert list(row.values()) == ["org", kept[0], "Permit", kept[1], "permit", "user", kept[2]]
        take_turns(of, started.ulid)
        view = place.almanac.show(started.ulid)
        assert view.status == "waiting"
        assert (view.owner, view.subject, view.starter) == (
            Reference("org", kept[0]),
            Reference("Permit", kept[1], "permit"),
            Reference("user", kept[2]),
        )
        for asked in (owner, ("org", kept[0] if kinds[0] != "bigint" else int(kept[0]))):
            page = place.almanac.list(owner=asked, subject=subject)
            assert [one.ulid for one in page.items] == [started.ulid]
        permit = subject[1] if kinds[1] == "bigint" else kept[1]
        place.almanac.emit("permits.moved", {"permit": permit}, owner=owner)
        place.match()
        take_turns(of, started.ulid)
        assert place.almanac.show(started.ulid).status == "completed"


def test_an_owner_has_definitions_and_starts_of_its_own(place: Place) -> None:
    kind = place.settings.owner_key_type
    for index, given in enumerate(GIVEN[kind]):
        owner, key = ("org", given), f"own.{index}"
        publisher = ("user", GIVEN[place.settings.key_type][0])
        place.almanac.publish(document(key), owner=owner, publisher=publisher)
        place.almanac.publish(triggered(f"on.{index}", f"filed.{index}"), owner=owner)
        started = place.almanac.start_many(key, [{}, {}], owner=owner)
        place.almanac.emit(f"filed.{index}", {}, owner=owner)
        place.match()
        scope = f"org:{KEPT[kind][index]}"
        scopes = place.rows(
            "SELECT owner_scope, owner_id::text AS id FROM workflow_definitions"
            f" WHERE key LIKE '%.{index}'"
        )
        assert scopes == [{"owner_scope": scope, "id": KEPT[kind][index]}] * 2
        page = place.almanac.list(owner=owner)
        assert {one.ulid for one in started} < {one.ulid for one in page.items}
        assert f"on.{index}" in {one.key for one in page.items}


@pytest.mark.parametrize("role", ["owner", "subject", "starter", "publisher"])
def test_an_id_of_another_type_is_refused_by_name(place: Place, role: str) -> None:
    setting = f"{role}_key_type" if role in ("owner", "subject") else "key_type"
    kind = getattr(place.settings, setting)
    before = place.rows("SELECT count(*) FROM workflow_instances")
    publishes = role == "publisher"
    call: Any = place.almanac.publish if publishes else place.almanac.start
    what: Any = document("other") if publishes else "permits"
    for wrong in WRONG[kind]:
        with pytest.raises(InvalidInput) as refused:
            call(what, **{role: ("thing", wrong)})
        assert refused.value.code == "invalid_reference"
        assert refused.value.details["role"] == role
        assert role in refused.value.message
        short = isinstance(wrong, str) and len(wrong) > 185
        assert short or f"must be a {kind} (setting {setting})" in refused.value.message
    assert place.rows("SELECT count(*) FROM workflow_instances") == before


def test_the_command_line_reads_ids_of_every_type(place: Place) -> None:
    of = place.settings
    for role, kind in (("owner", of.owner_key_type), ("subject", of.subject_key_type)):
        for kept in KEPT[kind]:
            reference = read_reference(f"org:{kept}", role, kind)
            assert reference is not None
            references: dict[str, Any] = {role: reference}
            started = place.almanac.start("permits", **references)
            shown = getattr(place.almanac.show(started.ulid), role)
            assert (shown.type, shown.id) == ("org", kept)


@pytest.mark.parametrize("number", [-(2**63) + 1, 2**63 - 1])
def test_a_bigint_is_kept_over_its_whole_range(place: Place, number: int) -> None:
    of = place.settings
    kinds = {"owner": of.owner_key_type, "subject": of.subject_key_type, "starter": of.key_type}
    given: dict[str, Any] = {
        role: ("thing", number) for role, kind in kinds.items() if kind == "bigint"
    }
    view = place.almanac.show(place.almanac.start("permits", **given).ulid)
    assert {role: getattr(view, role).id for role in given} == dict.fromkeys(given, str(number))
