from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.eventually import eventually
from tests.services.graphs import document, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter.client.almanac import Almanac
    from tests.cli.conftest import Cli, Written

UNKNOWN = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"
COMMANDS = ("signal", "pause", "resume", "cancel", "retry")


@pytest.fixture
def ulid(almanac: Almanac) -> str:
    almanac.publish(document())
    return almanac.start("permits").ulid


@pytest.fixture
def sql(database_url: str) -> Callable[..., None]:
    def sql(query: str, *parameters: object) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(query, parameters)

    return sql


@pytest.fixture
def answers(sql: Callable[..., None]) -> Callable[[str], None]:
    """Has the database stamp every row with the result given, as an instance would later."""

    def answers(result: str) -> None:
        sql(
            "CREATE FUNCTION answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" NEW.applied_at := clock_timestamp(); NEW.result := '{result}'; RETURN NEW; END $$"
        )
        sql(
            "CREATE TRIGGER answer BEFORE INSERT ON workflow_inbox"
            " FOR EACH ROW EXECUTE FUNCTION answer()"
        )

    return answers


def arguments(name: str, ulid: str) -> list[str]:
    return [name, ulid, *(["moved"] if name == "signal" else [])]


def test_a_signal_prints_the_id_of_its_row(cli: Cli, almanac: Almanac, ulid: str) -> None:
    run = cli("signal", ulid, "moved", "-p", '{"n": 1}', "--correlation", "A", "--sender", "user:3")

    row = almanac.inbox(ulid).items[-1]
    assert (run.code, run.out) == (0, f"{row.id}\n")
    assert run.err == (
        f"written; see what becomes of it: almanac inbox {ulid}\n"
        "no step waits for moved now: it is kept\n"
    )
    assert row.payload == {"name": "moved", "payload": {"n": 1}, "correlation": "A"}
    assert row.sender == "user:3"


def test_a_signal_tells_whether_a_step_waits_for_it(cli: Cli, almanac: Almanac) -> None:
    wait = {"id": "ask", "type": "wait", "config": {"signals": ["paid", "waived"], "mode": "any"}}
    made = document()
    made["nodes"].insert(1, wait)
    made["edges"] = [{"from": "begin", "to": "ask"}, {"from": "ask", "to": "done"}]
    almanac.publish(made)
    ulid = almanac.start("permits").ulid
    take_turns(almanac.settings, ulid)

    assert cli("signal", ulid, "payed", "--json").data["awaited"] is False
    told = cli("signal", ulid, "payed").err
    assert "no step waits for payed now: it is kept; it waits for paid, waived\n" in told
    assert "no step waits" not in cli("signal", ulid, "paid").err
    assert cli("signal", ulid, "paid", "--json").data["awaited"] is True


def test_waiting_tells_that_a_signal_is_kept(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(waiting())
    ulid = almanac.start("permits").ulid
    take_turns(almanac.settings, ulid)
    turns = Thread(target=turn_when_told, args=(almanac, ulid))
    turns.start()

    run = cli("signal", ulid, "paid", "--wait", "60")

    turns.join()
    assert (run.code, run.err) == (
        0,
        f"done: it is kept, no step has taken it yet; see it with: almanac show {ulid}\n",
    )
    (row,) = [row for row in almanac.inbox(ulid).items if row.kind == "signal"]
    assert cli("show", ulid, "--json").data["signals"][0]["id"] == row.id
    out = cli("show", ulid).out
    assert "signal kept" in out
    assert "paid" in out


def turn_when_told(almanac: Almanac, ulid: str) -> None:
    def told() -> None:
        assert almanac.inbox(ulid, unapplied=True).items

    eventually(told, 60)
    take_turns(almanac.settings, ulid)


def test_a_payload_of_a_signal_comes_from_a_file(
    cli: Cli, almanac: Almanac, ulid: str, written: Written
) -> None:
    assert cli("signal", ulid, "moved", "-p", "@" + written("p.json", {"n": 2})).code == 0

    assert almanac.inbox(ulid).items[-1].payload["payload"] == {"n": 2}


def test_every_command_prints_its_receipt_as_json(
    cli: Cli, almanac: Almanac, ulid: str, sql: Callable[..., None]
) -> None:
    for name in COMMANDS:
        status = {"resume": "paused", "retry": "failed"}.get(name, "running")
        sql("UPDATE workflow_instances SET status = %s", status)
        run = cli(*arguments(name, ulid), "--json")
        assert (run.code, run.err) == (0, "")
        row = almanac.inbox(ulid).items[-1]
        awaited = {"awaited": False} if name == "signal" else {}
        assert run.data == {"id": row.id, "ulid": ulid, "kind": name, **awaited}
        assert row.kind == name
        assert cli(*arguments(name, UNKNOWN), "--json").error["code"] == "instance_not_found"


def test_reasons_are_kept(cli: Cli, almanac: Almanac, ulid: str) -> None:
    cli("pause", ulid, "--reason", "the register is down")
    cli("cancel", ulid, "--reason", "withdrawn")

    assert [row.payload for row in almanac.inbox(ulid).items[1:]] == [
        {"reason": "the register is down"},
        {"reason": "withdrawn"},
    ]


def test_waiting_tells_what_was_done(cli: Cli, ulid: str, answers: Callable[[str], None]) -> None:
    answers('{"status": "done"}')

    told, data = cli("pause", ulid, "--wait", "10"), cli("cancel", ulid, "--wait", "10", "--json")

    assert (told.code, told.err) == (0, "done\n")
    assert int(told.out) > 0
    assert (data.code, data.err) == (0, "")
    assert (data.data["status"], data.data["reason"], data.data["kind"]) == ("done", None, "cancel")


def test_waiting_ends_with_four_when_the_instance_refuses(
    cli: Cli, ulid: str, answers: Callable[[str], None]
) -> None:
    answers('{"status": "refused", "reason": "already_paused"}')

    told, data = cli("pause", ulid, "--wait", "10"), cli("pause", ulid, "--wait", "10", "--json")

    assert told.code == data.code == 4
    assert told.err.startswith("error[already_paused]: pause refused: instance ")
    assert f"almanac resume {ulid}" in told.err
    assert data.out == ""
    assert data.error["code"] == "already_paused"
    assert data.error["details"]["ulid"] == ulid


def test_waiting_ends_with_five_when_nobody_gets_to_it(cli: Cli, ulid: str) -> None:
    run = cli("pause", ulid, "--wait", "0.01", "--json")

    assert (run.code, run.out, run.error["code"]) == (5, "", "wait_timeout")


def test_what_does_not_fit_the_status_ends_with_four(cli: Cli, almanac: Almanac, ulid: str) -> None:
    assert cli("resume", ulid).err.startswith("error[not_paused]: ")
    assert cli("retry", ulid).err.startswith("error[not_failed]: ")
    take_turns(almanac.settings, ulid)

    run = cli("signal", ulid, "moved")

    assert (run.code, run.out) == (4, "")
    assert run.err.startswith(
        f"error[ended]: signal refused: instance {ulid} has ended; it completed at 20"
    )
    assert "  help: nothing changes it any more; to begin again: almanac start KEY" in run.err


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("signal", ("-p", "[1]"), "invalid_payload"),
        ("signal", ("-p", "{"), "invalid_json"),
        ("signal", ("--correlation", ""), "invalid_correlation"),
        ("pause", ("--reason", ""), "invalid_reason"),
        ("cancel", ("--sender", "user"), "invalid_reference"),
        ("cancel", ("--sender", "user:x"), "invalid_reference"),
        ("resume", ("--wait", "x"), "usage"),
        ("retry", ("--reason", "x"), "usage"),
    ],
)
def test_bad_input_writes_nothing(
    cli: Cli, almanac: Almanac, ulid: str, name: str, options: tuple[str, ...], code: str
) -> None:
    run = cli(*arguments(name, ulid), *options, "--json")

    assert (run.code, run.error["code"]) == (2, code)
    assert [row.kind for row in almanac.inbox(ulid).items] == ["start"]


def test_a_signal_that_no_wait_has_taken_is_listed_as_kept(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(waiting())
    ulid = almanac.start("permits").ulid
    almanac.signal(ulid, "moved")
    take_turns(almanac.settings, ulid)

    assert cli("inbox", ulid).out.splitlines()[2].split()[-2:] == ["done", "kept"]


def test_an_inbox_is_listed_newest_last(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(waiting())
    ulid = almanac.start("permits").ulid
    take_turns(almanac.settings, ulid)
    almanac.signal(ulid, "moved", {"n": 1}, sender=("user", 3))
    almanac.pause(ulid, "the register is down")

    run = cli("inbox", ulid)
    lines = run.out.splitlines()

    assert run.code == 0
    assert [line.split()[1] for line in lines[1:]] == ["start", "signal", "pause"]
    assert "done" in lines[1]
    assert 'moved {"n": 1}' in lines[2]
    assert "user:3" in lines[2]
    assert "the register is down" in lines[3]
    assert "open" in lines[3]
    unapplied = cli("inbox", ulid, "--open", "--json").data
    assert [row["kind"] for row in unapplied["items"]] == ["signal", "pause"]
    page = cli("inbox", ulid, "--limit", "2")
    assert "start" not in page.out
    cursor = page.err.split()[-1]
    assert [r["kind"] for r in cli("inbox", ulid, "--json", "--cursor", cursor).data["items"]] == [
        "start"
    ]
    assert cli("inbox", UNKNOWN).code == 3
    assert cli("inbox", ulid, "--cursor", "x").err.startswith("error[invalid_filter]")


def test_instances_are_listed_by_being_paused(
    cli: Cli, ulid: str, sql: Callable[..., None]
) -> None:
    sql("UPDATE workflow_instances SET status = 'paused'")

    assert [one["ulid"] for one in cli("list", "--status", "paused", "--json").data["items"]] == [
        ulid
    ]
    assert cli("list", "--status", "running", "--json").data["items"] == []


def test_a_list_can_be_of_what_was_started_by_others_or_by_none(
    cli: Cli, almanac: Almanac, ulid: str, sql: Callable[..., None]
) -> None:
    child = almanac.start("permits").ulid
    sql(
        "UPDATE workflow_instances SET depth = 1, parent_instance_id ="
        " (SELECT id FROM workflow_instances WHERE ulid = %s) WHERE ulid = %s",
        ulid,
        child,
    )

    def found(*options: str) -> list[str]:
        return [one["ulid"] for one in cli("list", *options, "--json").data["items"]]

    assert found("--top") == [ulid]
    assert found("--parent", ulid) == [child]
    assert cli("list", "--parent", UNKNOWN).code == 3


@pytest.mark.parametrize("name", [*COMMANDS, "inbox"])
def test_help_teaches_with_examples(cli: Cli, name: str) -> None:
    run = cli(name, "--help")

    assert run.code == 0
    assert f"  almanac {name} 01JZ8X0V5M6T3C2R9Q4K7W1N8B" in run.out
