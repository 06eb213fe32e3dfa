from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from adapter.cli.main import main
from tests.services.graphs import document, triggered, waiting
from tests.services.turns import take_turns

if TYPE_CHECKING:
    from pathlib import Path

    from adapter.client.almanac import Almanac
    from tests.cli.conftest import Cli, Written

CALLING = document(
    "calling",
    nodes=[
        {"id": "begin", "type": "trigger", "config": {"type": "manual"}},
        {"id": "call", "type": "action", "config": {"action": "permits.seen"}},
    ],
    edges=[{"from": "begin", "to": "call"}],
)


def test_migrating_tells_what_it_applied(
    empty_database_url: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALMANAC_DATABASE_URL", empty_database_url)

    assert cli("list").err.startswith("error[not_migrated]")
    assert len(cli("migrate", "--json").data["applied"]) >= 3
    assert cli("migrate").out == "nothing to do: the database is at the newest revision\n"
    assert "CREATE TABLE workflow_instances" in cli("migrate", "--sql").out


def test_the_option_wins_over_the_environment(empty_database_url: str, cli: Cli) -> None:
    assert cli("--database-url", empty_database_url, "list").err.startswith("error[not_migrated]")


def test_a_valid_document_passes(cli: Cli, written: Written) -> None:
    run = cli("validate", written("a.json", document()), written("b.json", waiting()))

    assert run.code == 0
    assert run.out.count(": valid") == 2


def test_an_invalid_document_is_listed_with_places_and_remedies(cli: Cli, written: Written) -> None:
    good, bad = written("good.json", document()), written("bad.json", document(colour=1))

    run = cli("validate", good, bad)

    assert run.code == 2
    assert f"{good}: valid" in run.out
    assert f"{bad}: 1 error" in run.out
    assert "/colour" in run.out
    assert "unknown_field" in run.out
    told = cli("validate", good, bad, "--json")
    assert (told.code, told.err) == (2, "")
    assert [(one["file"], one["valid"]) for one in told.data] == [(good, True), (bad, False)]
    assert told.data[1]["findings"][0]["pointer"] == "/colour"


def test_actions_are_those_that_the_imported_modules_register(
    cli: Cli, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written("calling.json", CALLING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    written(
        "seen_actions.py",
        "import adapter\n@adapter.action('permits.seen')\ndef seen() -> None: ...\n",
    )

    assert cli("validate", path).code == 2
    assert cli("validate", path, "--skip-actions").code == 0
    refused = cli("publish", path)
    assert refused.err.startswith(f"error[invalid_document]: {path} was refused: 1 error\n")
    assert refused.err.count("no handler is registered for action") == 1
    assert "\n  help: name the modules that register them: --import MODULE" in refused.err
    assert "--skip-actions" in refused.err
    assert "--import MODULE" in cli("publish", path, "--json").error["remedy"]
    assert "--import MODULE" in cli("validate", path).err
    assert cli("validate", path, "--import", "seen_actions").code == 0
    assert cli("publish", path, "--import", "seen_actions").code == 0
    wrong = written("wrong.json", json.loads(json.dumps(CALLING).replace(
        '"permits.seen"', '"permits.seen", "input": {"x": 1}')))  # fmt: skip
    assert "unknown_argument" in cli("validate", wrong, "--import", "seen_actions").out


@pytest.mark.parametrize("content", ["raise RuntimeError('boom')", "import no_such_thing"])
def test_a_module_that_cannot_be_imported_is_named(
    cli: Cli, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    written("broken_actions.py", content)

    run = cli("validate", written("a.json", document()), "--import", "broken_actions")

    assert run.code == 2
    assert run.err.startswith("error[import_failed]: cannot import broken_actions")


def test_publishing_prints_number_and_checksum(cli: Cli, written: Written) -> None:
    first = cli("publish", written("a.json", document()), "--json").data[0]
    again = cli("publish", written("a.json", document()), "--json").data[0]
    run = cli(
        "publish",
        written("a.json", document(name="New")),
        "--expected-checksum",
        first["checksum"],
        "--publisher",
        "user:3",
    )

    assert (first["number"], first["created"], again["created"]) == (1, True, False)
    assert run.code == 0
    assert "permits" in run.out
    assert "published" in run.out


def test_several_documents_are_published_together_or_not_at_all(
    cli: Cli, written: Written, almanac: Almanac
) -> None:
    good, bad = written("good.json", document()), written("bad.json", document(colour=1))

    assert cli("publish", good, bad).code == 2
    assert cli("start", "permits").code == 3
    assert len(cli("publish", good, written("b.json", document("b")), "--json").data) == 2


def test_a_wrong_checksum_is_a_conflict(cli: Cli, written: Written) -> None:
    path = written("a.json", document())

    run = cli("publish", path, "--expected-checksum", "0" * 64, "--json")

    assert (run.code, run.out) == (4, "")
    assert run.error["code"] == "checksum_mismatch"
    assert run.error["remedy"] not in run.error["message"]
    assert cli("publish", path, path, "--expected-checksum", "0" * 64).code == 2


def test_a_start_prints_the_ulid_alone(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(document())

    run = cli("start", "permits", "--payload", '{"case": "A"}', "--subject", "permit:7")

    ulid = run.out.strip()
    view = almanac.show(ulid)
    assert run.code == 0
    assert view.trigger_payload == {"case": "A"}
    assert view.subject is not None
    assert (view.subject.type, view.subject.id) == ("permit", "7")
    assert f"almanac show {ulid}" in run.err


def test_a_payload_comes_from_a_file_or_from_standard_input(
    cli: Cli, almanac: Almanac, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    almanac.publish(document())
    stdin = io.TextIOWrapper(io.BytesIO(b'{"case": "stdin"}'))
    monkeypatch.setattr(sys, "stdin", stdin)

    file = cli("start", "permits", "-p", "@" + written("p.json", {"case": "file"})).out.strip()
    piped = cli("start", "permits", "-p", "-").out.strip()

    assert almanac.show(file).trigger_payload == {"case": "file"}
    assert almanac.show(piped).trigger_payload == {"case": "stdin"}


def test_the_same_idempotency_key_prints_the_same_ulid(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(document())
    start = ("start", "permits", "--idempotency-key", "k", "--json", "-p")

    first, again, other = (cli(*start, payload) for payload in ('{"a":1}', '{"a": 1.0}', "2"))

    assert (first.data["created"], again.data["created"]) == (True, False)
    assert first.data["ulid"] == again.data["ulid"]
    assert (other.code, other.error["code"]) == (4, "idempotency_conflict")


def test_an_idempotency_key_is_kept_as_long_as_the_start_says(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(document())
    start = ("start", "permits", "--idempotency-key", "k", "--json", "--idempotency-ttl")

    brief, kept, wrong = (cli(*start, ttl) for ttl in ("PT0.000001S", "P7D", "7 days"))

    assert (brief.data["created"], kept.data["created"]) == (True, True)
    assert (wrong.code, wrong.error["code"]) == (2, "invalid_idempotency_ttl")


def test_lines_of_a_file_are_started_all_or_none(
    cli: Cli, almanac: Almanac, written: Written
) -> None:
    almanac.publish(document())
    lines = "\n".join(f'{{"n": {n}}}' for n in range(1_500)) + "\n\n"

    run = cli("start", "permits", "--lines", written("good.jsonl", lines), "--owner", "team:1")
    bad = cli("start", "permits", "--lines", written("bad.jsonl", '{"n": 1}\n{"n": NaN}\n'))

    assert run.code == 0
    assert len(run.out.split()) == 1_501
    assert "1500 started" in run.err
    assert bad.code == 2
    assert "line 2" in bad.err
    assert len(almanac.list(limit=1_000).items) == 1_000
    assert cli("start", "permits", "--lines", "x", "--wait", "1").code == 2


def test_waiting_shows_the_end_and_tells_it_by_the_exit_code(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(document())
    failing = document("failing")
    failing["nodes"][1]["config"] = {"status": "failed", "code": "no_permit"}
    almanac.publish(failing)
    start = ("--idempotency-key", "k", "--wait", "0")
    for key in ("permits", "failing"):
        take_turns(almanac.settings, almanac.start(key, idempotency_key="k").ulid)

    good, bad = cli("start", "permits", *start), cli("start", "failing", *start)
    late = cli("start", "permits", "--wait", "0.01")

    assert (good.code, bad.code, late.code) == (0, 7, 5)
    assert "completed" in good.out
    assert "no_permit" in bad.out
    assert late.err.startswith("error[wait_timeout]")
    assert f"almanac show {late.out.strip()}" in late.err
    assert good.out.split()[0] == good.out.split()[2]


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e400"])
def test_a_time_that_cannot_be_waited_for_starts_nothing(
    cli: Cli, almanac: Almanac, seconds: str
) -> None:
    almanac.publish(document())
    ulid = almanac.start("permits").ulid

    commands = [("start", "permits"), ("signal", ulid, "moved"), ("cancel", ulid)]
    for command in commands:
        run = cli(*command, "--wait", seconds)
        assert (run.code, run.out) == (2, "")
        assert run.err.startswith("error[invalid_timeout]")

    assert [one.ulid for one in almanac.list().items] == [ulid]
    assert [row.kind for row in almanac.inbox(ulid).items] == ["start"]


def test_an_event_is_emitted(cli: Cli, almanac: Almanac, written: Written) -> None:
    one = cli("emit", "permits.moved", "-p", '{"case": "A"}', "--owner", "team:1")
    many = cli("emit", "permits.moved", "--lines", written("e.jsonl", '{"n":1}\n{"n":2}'), "--json")

    assert int(one.out) > 0
    assert len(many.data["ids"]) == 2
    assert one.err == "warning: nobody listens to 'permits.moved' yet; kept for 30 days\n"
    assert many.data["warning"] == one.err.removeprefix("warning: ").strip()


def test_an_event_tells_who_listens(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(waiting())
    almanac.publish(triggered("orders", "permits.moved"))

    run = cli("emit", "permits.moved", "-p", "{}")
    told = cli("emit", "permits.moved", "-p", "{}", "--json").data

    assert run.err == "named by 1 wait and 1 trigger of published graphs\n"
    assert (told["listeners"]["waits"], told["listeners"]["triggers"]) == (1, 1)
    assert told["warning"] is None
    assert "yet" in cli("emit", "permits.mvoed", "-p", "{}").err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-p", "[1]"), "invalid_payload"),
        (("-p", "{"), "invalid_json"),
        (("-p", '{"a": NaN}'), "invalid_json"),
        (("-p", '{"a": "\\u0000"}'), "invalid_value"),
        (("-p", "@/no/such/file"), "no_such_file"),
        (("-p", "@/"), "no_such_file"),
        (("--lines", "/no/such/file"), "no_such_file"),
        ((), "usage"),
        (("-p", "{}", "--lines", "x"), "usage"),
        (("-p", "{}", "--owner", "team"), "invalid_reference"),
        (("-p", "{}", "--owner", "team:x"), "invalid_reference"),
    ],
)
def test_bad_input_ends_with_two_and_names_its_code(
    cli: Cli, arguments: tuple[str, ...], code: str
) -> None:
    run = cli("emit", "permits.moved", *arguments)

    assert run.code == 2
    assert run.err.startswith(f"error[{code}]: ")
    assert "\n  help: " in run.err
    assert run.out == ""


def test_an_instance_is_shown_with_its_way(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(waiting(match={"case": "${ trigger.case }"}))
    ulid = almanac.start("permits", {"case": "A"}).ulid
    take_turns(almanac.settings, ulid)

    run = cli("show", ulid)

    assert run.code == 0
    for part in (ulid, "permits version 1", "waiting", "begin", "move", "the only edge"):
        assert part in run.out
    assert 'waits for event permits.moved with {"case": "A"} (move)' in run.out
    assert cli("show", ulid, "--json").data["steps"][1]["node"] == "move"
    assert len(cli("show", ulid, "--json", "--most", "1").data["steps"]) == 1


def test_an_instance_tells_why(cli: Cli, almanac: Almanac) -> None:
    over = {"field": "trigger.amount", "op": "gt", "value": 100}
    graph = document()
    graph["nodes"].append({"id": "large", "type": "end"})
    graph["edges"] = [
        {"from": "begin", "to": "large", "when": over},
        {"from": "begin", "to": "done"},
    ]
    almanac.publish(graph)
    ulid = almanac.start("permits", {"amount": "lots"}).ulid
    take_turns(almanac.settings, ulid)

    run = cli("show", ulid, "--why")

    assert run.code == 0
    assert "why begin: to done, by the plain edge" in run.out
    assert "no     to large: trigger.amount gt 100: it is the text 'lots'" in run.out
    assert "why" not in cli("show", ulid).out
    (choice,) = cli("show", ulid, "--why", "--json").data["why"]
    assert choice["tests"][0]["explanation"]["actual"] == "lots"


def test_text_of_users_cannot_act_on_the_terminal(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(document())
    ulid = almanac.start("permits", "[bold]\x1b[31mred").ulid

    out = cli("show", ulid).out

    assert "\x1b" not in out
    assert "[bold]" in out


def test_instances_are_listed_by_the_page(cli: Cli, almanac: Almanac) -> None:
    almanac.publish(document())
    almanac.publish(triggered("orders", "order.made"))
    ulids = [one.ulid for one in almanac.start_many("permits", [{}] * 3)]

    first = cli("list", "--key", "permits", "--limit", "2", "--json").data
    rest = cli("list", "--limit", "2", "--cursor", first["next"], "--json").data

    assert [one["ulid"] for one in first["items"] + rest["items"]] == ulids[::-1]
    assert rest["next"] is None
    table = cli("list", "--status", "pending", "--since", "PT1H", "--limit", "2")
    assert ulids[2] in table.out
    assert f"--cursor {ulids[1]}" in table.err
    assert cli("list", "--since", "2100-01-01T00:00:00Z").err == "no instance fits\n"
    for wrong in (("--since", "yesterday"), ("--status", "done"), ("--cursor", "x")):
        assert cli("list", *wrong).err.startswith("error[invalid_filter]")


def test_unknown_ulids_end_with_three(cli: Cli) -> None:
    unknown = "01JZ8X0V5M6T3C2R9Q4K7W1N8B"

    assert cli("show", unknown).code == 3
    assert cli("show", unknown, "--wait", "1", "--json").error["code"] == "instance_not_found"
    assert cli("show", "x").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("start",),
        ("nothing",),
        ("list", "--limit", "x"),
        ("list", "--limti", "1"),
        ("show", "a", "b"),
    ],
)
def test_a_wrong_command_line_ends_with_two(cli: Cli, arguments: tuple[str, ...]) -> None:
    run = cli(*arguments)

    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("error[usage]: ")
    assert "--help" in run.err
    assert cli(*arguments, "--json").error["code"] == "usage"


@pytest.mark.parametrize("arguments", [("emit", "x"), ("emit", "x", "--limti"), ("emit",)])
def test_the_remedy_of_a_wrong_command_line_names_the_command(
    cli: Cli, arguments: tuple[str, ...]
) -> None:
    assert cli(*arguments).err.endswith("\n  help: see: almanac emit --help\n")
    assert cli(*arguments, "--json").error["remedy"] == "see: almanac emit --help"


def test_an_option_that_goes_before_the_command_is_told_so(cli: Cli) -> None:
    assert "--database-url goes before the command" in cli("list", "--database-url", "x").err
    error = cli("list", "--traceback", "--json").error
    assert "--traceback goes before the command" in error["remedy"]
    assert error["details"] == {}


def test_bad_json_is_told_once_with_its_place(cli: Cli, written: Written) -> None:
    told = "is not JSON: line 2, column 8: a value is expected"
    document = cli("publish", written("bad.json", '{\n  "a": x}'))
    payload = cli("start", "permits", "-p", '{\n  "a": x}')
    lines = cli("emit", "moved", "--lines", written("bad.jsonl", '{}\n  "a": x\n'))

    assert document.err.count(told) == 1
    assert payload.err.startswith(f"error[invalid_json]: the payload {told}")
    assert lines.err.count("line ") == 1
    assert "bad.jsonl is not JSON: line 2, column 6: something follows" in lines.err


def test_where_dev_runs_it_says_how_to_reach_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMANAC_DATABASE_URL", raising=False)
    monkeypatch.delenv("ALMANAC_TEMPORAL_ADDRESS", raising=False)
    (tmp_path / ".almanac").mkdir()
    (tmp_path / ".almanac" / "environment").touch()

    assert main(["list"]) == 6
    assert ". .almanac/environment" in capsys.readouterr().err


def test_without_a_database_it_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ALMANAC_DATABASE_URL", raising=False)

    assert main(["list"]) == 6
    assert "ALMANAC_DATABASE_URL" in capsys.readouterr().err


def test_a_setting_that_cannot_be_is_named_without_its_value(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALMANAC_DATABASE_URL", "mysql://root:secret@host/db")

    run = cli("list")

    assert run.code == 6
    assert run.err.startswith("error[invalid_settings]")
    assert "ALMANAC_DATABASE_URL" in run.err
    assert "Value error" not in run.err
    assert "secret" not in run.err


def test_a_defect_ends_with_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("adapter.client.almanac.Almanac.list", broken)

    assert cli("list").err.startswith("error[internal_error]: ZeroDivisionError: of ours")
    assert cli("list").code == 1
    assert "Traceback" in cli("--traceback", "list").err


def test_help_teaches_with_examples(cli: Cli) -> None:
    assert "almanac dev" in cli("--help").out
    assert cli().out.strip() == cli("--help").out.strip()
    assert "<bool>" not in cli("--help").out + cli("emit", "--help").out
    assert "JSON, @FILE" in cli("emit", "--help").out
    assert cli("--version").out.startswith("almanac ")
    for name in (
        "dev", "migrate", "worker", "validate", "publish", "start", "emit", "show", "list",
    ):  # fmt: skip
        run = cli(name, "--help")
        assert run.code == 0
        assert f"  almanac {name}" in run.out


def test_an_event_without_data_is_said_to_be_an_empty_object(cli: Cli) -> None:
    run = cli("emit", "permits.moved")

    assert run.code == 2
    assert "give either --payload ('{}' for an event without data)" in run.err
