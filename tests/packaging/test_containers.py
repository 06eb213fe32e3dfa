"""The files for containers, held to the package and to each other; no container is started."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import typer
import yaml

from adapter.cli import main
from adapter.settings import Settings

if TYPE_CHECKING:
    from temporal_workflows.dev.stack import Stack

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOTS = {"temporal-schema", "temporal-namespace", "migrate"}
OURS = {"migrate", "worker"}

_VARIABLE = re.compile(r"(?<!\$)\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")


def defaults() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(value: Any, **given: str) -> Any:
    """A value as compose would see it, with the variables of .env.example."""
    if isinstance(value, dict):
        return {name: filled(part, **given) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, **given) for part in value]
    if not isinstance(value, str):
        return value
    known = {**defaults(), **given}
    return _VARIABLE.sub(lambda found: known[found[1]], value).replace("$$", "$")


def test_every_service_has_a_health_check_or_ends_by_itself() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == ONE_SHOTS
    for name, service in SERVICES.items():
        if name in ONE_SHOTS:
            assert service["restart"].startswith("on-failure:")
            continue
        assert service["restart"] == "unless-stopped"
        check = service["healthcheck"]
        assert check["test"][0] in ("CMD", "CMD-SHELL")
        assert {"interval", "timeout", "retries", "start_period"} <= check.keys()


def test_services_wait_for_what_they_need() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, (name, needed)
            ends = "service_completed_successfully"
            assert how == {"condition": ends if needed in ONE_SHOTS else "service_healthy"}

    def before(name: str) -> set[str]:
        needed = set(SERVICES[name].get("depends_on", {}))
        return needed.union(*(before(one) for one in needed))

    assert before("worker") == SERVICES.keys() - {"worker", "temporal-ui"}


def test_images_are_pinned_to_a_tag() -> None:
    for name, service in SERVICES.items():
        image = filled(service["image"])
        assert re.fullmatch(r"[a-z/-]+:[\w.-]+", image), (name, image)
        assert not image.endswith(":latest")
    version = filled(SERVICES["temporal"]["image"]).split(":")[1]
    assert tuple(map(int, version.split("."))) >= (1, 31)
    assert filled(SERVICES["temporal-schema"]["image"]).endswith(f":{version}")
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("FROM "):
            assert re.match(r"FROM python:3\.\d+-slim-\w+( AS build)?$", line)


def test_no_password_stands_in_the_files() -> None:
    secret = re.compile("password|passwd|pwd|secret|auth", re.IGNORECASE)
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if secret.search(name):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), name
            for found in re.findall(r"://[^:@/]*:([^@]*)@", str(value)):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", found), name
    assert not re.search(r"(?i)password '[^:$]", TEXT)
    blank = {name for name, value in defaults().items() if not value}
    assert blank == {name for name in defaults() if secret.search(name)}
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_every_variable_is_explained_once_with_the_same_default() -> None:
    known = defaults()
    used: dict[str, set[tuple[str, str]]] = {}
    for name, mark, default in _VARIABLE.findall(TEXT):
        used.setdefault(name, set()).add((mark, default))
    assert used.keys() == known.keys()
    for name, uses in used.items():
        assert len(uses) == 1, name
        ((mark, default),) = uses
        assert (mark, default if mark == "-" else "") == ("-" if known[name] else "?", known[name])


def test_ports_are_published_on_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in filled(service.get("ports", []))]
    assert published
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in published)


def test_configs_and_volumes_exist() -> None:
    used = {one["source"] for s in SERVICES.values() for one in s.get("configs", ())}
    assert used == COMPOSE["configs"].keys()
    named = {v.split(":")[0] for s in SERVICES.values() for v in filled(s.get("volumes", []))}
    assert {name for name in named if not name.startswith((".", "/"))} == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_services_use_settings_and_commands_of_the_package(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = filled(SERVICES[name], ALMANAC_DB_PASSWORD="a", VALKEY_PASSWORD="b")
    assert SERVICES[name]["build"] == "."
    fields = {f"ALMANAC_{field.upper()}": field for field in Settings.model_fields}
    assert service["environment"].keys() <= fields.keys()
    for variable, value in service["environment"].items():
        monkeypatch.setenv(variable, value)
    settings = Settings()
    for variable, value in service["environment"].items():
        assert getattr(settings, fields[variable]) == value
    parsed(service["command"])
    if "healthcheck" in service:
        marker, program, *arguments = service["healthcheck"]["test"]
        assert (marker, program) == ("CMD", "almanac")
        parsed(arguments)


def parsed(arguments: list[str]) -> None:
    """Holds the command line to the command's own parser, without running it."""
    commands: Any = typer.main.get_command(main.app)
    name, *rest = arguments
    commands.commands[name].make_context(name, rest)


def test_the_default_handlers_can_be_imported_from_their_directory() -> None:
    code = (
        "from adapter.cli.handlers import import_handlers\n"
        "from adapter.execution.registry import default_registry\n"
        f"import_handlers([{defaults()['HANDLERS_MODULE']!r}])\n"
        "print(*default_registry)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / defaults()["HANDLERS_DIRECTORY"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "permits.record\n"), done.stderr


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_made_of_what_the_checkout_has() -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignore if line.startswith("!")]
    copied = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert sorted(copied) == sorted(kept)
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_runs_our_command_without_rights() -> None:
    last = [index for index, (word, _) in enumerate(instructions()) if word == "FROM"][-1]
    final = dict(instructions()[last:])
    assert final["USER"] == "10001:10001"
    assert final["ENTRYPOINT"] == '["almanac"]'
    parsed(yaml.safe_load(final["CMD"]))
    assert '\nalmanac = "adapter.cli.main:run"\n' in (ROOT / "pyproject.toml").read_text()
    for name in OURS:
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["read_only"] is True


def test_the_constraints_of_the_image_are_the_locked_versions(tmp_path: Path) -> None:
    (line,) = [rest for word, rest in instructions() if word == "RUN" and rest.startswith("sed")]
    (tmp_path / "requirements").symlink_to(ROOT / "requirements")
    subprocess.run(["sh", "-euc", line], cwd=tmp_path, check=True)
    locked = re.findall(r"^([a-z0-9.-]+==\S+)", (ROOT / "requirements/dev.txt").read_text(), re.M)
    made = (tmp_path / "constraints.txt").read_text().splitlines()
    assert [line.split()[0] for line in made] == locked
    assert len(locked) > 50


def test_temporals_databases_are_made_by_the_sql_of_the_file(
    stack: Stack, empty_database_url: str
) -> None:
    script = filled(COMPOSE["configs"]["temporal-databases"]["content"])
    statements = re.search(r"<<'SQL'\n(.*)\nSQL\n", script, re.DOTALL)
    assert statements is not None
    mark = empty_database_url.rsplit("_", 1)[1][:6]
    made = statements[1].replace("temporal", f"temporal_{mark}").replace(":'password'", "'x y'")
    names = [f"temporal_{mark}_visibility", f"temporal_{mark}"]
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        try:
            for statement in made.splitlines():
                connection.execute(statement.encode())
            found = connection.execute(
                "SELECT datname FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba"
                " WHERE rolname = %s ORDER BY 1 DESC",
                [f"temporal_{mark}"],
            ).fetchall()
            assert [row[0] for row in found] == names
        finally:
            for name in names:
                connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            connection.execute(f"DROP ROLE IF EXISTS temporal_{mark}".encode())


def test_the_namespace_is_made_once_by_the_commands_of_the_file(temporal_address: str) -> None:
    service = filled(SERVICES["temporal-namespace"], TEMPORAL_NAMESPACE="cases")
    assert service["entrypoint"] == ["/bin/sh", "-euc"]
    environment = {**service["environment"], "TEMPORAL_ADDRESS": temporal_address}
    for _ in range(2):
        done = subprocess.run(
            [*service["entrypoint"], *service["command"]],
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "script",
    [
        filled(part)
        for service in SERVICES.values()
        for part in (
            *service.get("command", ()),
            service.get("healthcheck", {}).get("test", [""])[-1],
        )
        if " " in part
    ]
    + [
        filled(one["content"])
        for name, one in COMPOSE["configs"].items()
        if name != "temporal-dynamic"
    ],
)
def test_the_shell_can_read_what_it_is_given(script: str) -> None:
    subprocess.run(["sh", "-n", "-c", script], check=True)
    assert shlex.split(script.split("<<")[0])
