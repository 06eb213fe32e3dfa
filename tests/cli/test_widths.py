from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapter.execution.registry import Registry
from tests.services.graphs import document, waiting
from tests.services.recorded import Recorded
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from adapter.client.almanac import Almanac
    from tests.cli.conftest import Cli, Written

KEY = "permits.review.of.the.fire.brigade.with.a.long.name"
LONG = "ask-the-fire-brigade-for-its-advice-on-the-escape-routes"


def failing() -> dict[str, Any]:
    end = {"status": "failed", "code": "no_permit", "message": "it lacks a second escape route"}
    made = document(KEY)
    made["nodes"][1] = {"id": LONG, "type": "end", "config": end}
    made["edges"] = [{"from": "begin", "to": LONG}]
    return made


@pytest.fixture(params=[80, 120, 160])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


@pytest.fixture
def ulids(almanac: Almanac) -> list[str]:
    almanac.publish(failing())
    almanac.publish(waiting())
    found = [almanac.start(key, {"case": "A" * 100}).ulid for key in (KEY, "permits")]
    take_turns(almanac.settings, *found, registry=Registry())
    return found


def test_a_list_fits_the_terminal_and_can_be_read(cli: Cli, width: int, ulids: list[str]) -> None:
    lines = cli("list").out.splitlines()

    assert max(map(len, lines)) <= width
    assert [line[:26] for line in lines if line[:2] == "01"] == ulids[::-1]
    assert len(lines) <= {80: 9, 120: 6, 160: 5}[width]
    for heading in ("ulid", "key", "status", "node", "created", "failure"):
        assert heading in lines[0]


def test_an_instance_fits_the_terminal_and_can_be_read(
    cli: Cli, width: int, ulids: list[str]
) -> None:
    for ulid in ulids:
        lines = cli("show", ulid).out.splitlines()
        told = [line for line in lines if not line.startswith(("waits for", "failed at"))]

        assert max(map(len, told)) <= width
        assert any(ulid in line for line in lines)
        steps = next(line for line in lines if line.startswith("node  ") and "status" in line)
        assert ("started" in steps) is (width >= 100)
        assert len(lines) <= 36


def test_many_attempts_of_many_children_fit_the_terminal(
    cli: Cli, almanac: Almanac, width: int, database_url: str
) -> None:
    almanac.publish(document())
    ulid = almanac.start("permits").ulid
    recorded = Recorded(database_url, ulid)
    for attempt in (1, 2):
        step = recorded.step("ship", type="start_workflow", status="failed", attempt=attempt,
                             code="child_failed")  # fmt: skip
        recorded.adopt(step, [almanac.start("permits").ulid for _ in range(2)])

    lines = cli("show", ulid).out.splitlines()

    assert max(map(len, lines)) <= width
    table = next(line for line in lines if line.startswith("node  "))
    assert "attempt" in table
    assert "output or error" in table
    assert ("outcome" in table) is (width >= 100)
    assert len([line for line in lines if line.startswith("  01")]) == 4


def test_an_inbox_fits_the_terminal(cli: Cli, width: int, ulids: list[str]) -> None:
    lines = cli("inbox", ulids[1]).out.splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) == 2


def test_findings_fit_the_terminal_and_are_all_told(cli: Cli, width: int, written: Written) -> None:
    path = written("bad.json", document(colour=1, weight=2))

    out = cli("validate", path).out

    assert max(map(len, out.splitlines()[1:])) <= width
    for part in ("/colour", "/weight", "unknown_field"):
        assert part in out


def test_a_checksum_is_whole_or_folded_but_never_cut(
    cli: Cli, almanac: Almanac, width: int, written: Written
) -> None:
    checksum = almanac.publish(document()).checksum

    out = cli("publish", written("a.json", document())).out

    assert checksum in "".join(line.split()[-1] for line in out.splitlines()[1:])
