from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from ulid import ULID

from adapter.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.doctor.patient import Patient

    Cli = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def cli(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    settings = patient.system.settings
    monkeypatch.setenv("ALMANAC_DATABASE_URL", settings.database_url or "")
    monkeypatch.setenv("ALMANAC_TEMPORAL_ADDRESS", settings.temporal_address or "")
    monkeypatch.setenv("ALMANAC_TASK_QUEUE", settings.task_queue)
    monkeypatch.delenv("COLUMNS", raising=False)

    async def cli(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, arguments)
        return code, *capsys.readouterr()

    return cli


async def test_a_healthy_system_ends_with_zero(cli: Cli) -> None:
    code, out, err = await cli("doctor", "--strict")
    assert (code, err) == (0, "")
    assert out.startswith("healthy: ")


async def test_errors_end_with_one_and_are_told_with_what_repairs_them(
    patient: Patient, cli: Cli
) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.terminate(ulid)
        code, out, _ = await cli("doctor")
        assert code == 1
        assert "error execution_terminated: 1, the oldest for 10 min (" in out
        assert f"  such as {ulid}\n  repair: almanac rebuild {ulid}\n" in out

        code, out, _ = await cli("rebuild", ulid, "--json")
        assert code == 0
        assert json.loads(out) == {
            "unfinished": 1,
            "open": 0,
            "ended": [],
            "poked": 1,
            "refused": [],
        }
        await patient.healthy()
        assert (await cli("doctor", "--strict"))[0] == 0


async def test_warnings_end_with_one_only_when_they_are_to(patient: Patient, cli: Cli) -> None:
    patient.alive(3600)
    assert (await cli("doctor"))[0] == 0
    code, out, _ = await cli("doctor", "--strict", "--json")
    assert code == 1
    (document,) = [json.loads(line) for line in out.splitlines()]
    assert document["status"] == "warnings"
    (finding,) = document["findings"]
    assert finding.keys() == {
        "code",
        "severity",
        "count",
        "at_least",
        "oldest_at",
        "age",
        "samples",
        "meaning",
        "command",
        "fixable",
    }
    assert (finding["code"], finding["severity"]) == ("clock_skew", "warning")


async def test_a_fix_tells_what_it_did(patient: Patient, cli: Cli) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.forget(ulid)
        _, out, _ = await cli("doctor", "--fix")
        assert "fix execution_missing: poked 1 of 1" in out
        await patient.healthy()


async def test_a_server_that_is_down_is_a_finding(cli: Cli) -> None:
    code, out, _ = await cli("--temporal-address", "127.0.0.1:1", "doctor")
    assert code == 1
    assert "error temporal_unreachable\n" in out
    assert "not seen until that is mended: execution_missing, " in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 2), (("--all", str(ULID())), 2), ((str(ULID()),), 3), (("x",), 2)],
)
async def test_a_rebuild_of_what_is_not_there(
    cli: Cli, arguments: tuple[Any, ...], code: int
) -> None:
    assert (await cli("rebuild", *arguments))[0] == code


async def test_a_rebuild_of_all(patient: Patient, cli: Cli) -> None:
    async with patient.quiet():
        ulid = await patient.waiting()
        await patient.forget(ulid)
        code, out, _ = await cli("rebuild", "--all")
        assert code == 0
        assert out == "poked 1 of 1 unfinished instances\n0 had one already\n"
        assert (await cli("--temporal-address", "127.0.0.1:1", "rebuild", "--all"))[0] == 5
