from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING, Any

import pytest

from adapter import errors
from adapter.cli import main
from adapter.cli.failures import ENDED_BADLY, INTERRUPTED
from adapter.cli.remedies import REMEDIES
from adapter.services.faults import FAULTS
from adapter.services.refusals import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILURES = """
step_failed step_timed_out worker_lost effect_uncertain no_edge expression_failed unknown_action
invalid_output output_too_large state_too_large max_steps_exceeded max_depth_exceeded
max_items_exceeded max_transitions_exceeded max_cost_exceeded max_started_exceeded
deadline_exceeded wait_unsatisfiable child_failed cancelled_by_parent
"""
IN_THE_RECORD = {"StepError", "Failure", "EvaluationFailed"}
"""What becomes a failure of a step, not an error of a call."""


@pytest.fixture(scope="module")
def errors_page(pytestconfig: pytest.Config) -> str:
    return (pytestconfig.rootpath / "docs" / "errors.md").read_text()


@pytest.fixture(scope="module")
def cli_page(pytestconfig: pytest.Config) -> str:
    return (pytestconfig.rootpath / "docs" / "cli.md").read_text()


@pytest.fixture(scope="module")
def codes(pytestconfig: pytest.Config) -> dict[str, set[str]]:
    """Codes in the sources: those of calls, and those in the record."""
    found: dict[str, set[str]] = {"calls": set(), "record": set()}
    for package in ("adapter", "temporal_workflows"):
        for file in (pytestconfig.rootpath / package).rglob("*.py"):
            for name, code in _codes(ast.parse(file.read_text())):
                found["record" if name in IN_THE_RECORD else "calls"].add(code)
    return found


def _codes(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields (class, code) of class attributes, ``code=`` keywords and first arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                targets = getattr(part, "targets", [getattr(part, "target", None)])
                if [getattr(target, "id", None) for target in targets] == ["code"]:
                    yield from _text(node.name, getattr(part, "value", None))
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in IN_THE_RECORD and node.args:
                yield from _text(name, node.args[0])
            for keyword in node.keywords:
                if keyword.arg == "code" and name and name[0].isupper():
                    yield from _text(name, keyword.value)


def _text(name: str, node: Any) -> Iterator[tuple[str, str]]:
    text = node.value if isinstance(node, ast.Constant) else None
    if isinstance(text, str) and re.fullmatch("[a-z_]+", text):
        yield name, text


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """The cells of the rows whose first cell is a code, below a heading."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([a-z_]+)` \|(.+)\|$", section, re.MULTILINE)
    return {code: [cell.strip() for cell in cells.split("|")] for code, cells in found}


def test_the_page_lists_every_error_of_a_call_with_its_remedy(
    errors_page: str, codes: dict[str, set[str]]
) -> None:
    listed = rows(errors_page, "Errors of calls")
    raised = codes["calls"] | {code for _, code, _ in FAULTS.values()}

    assert raised - listed.keys() == set()
    assert {code: cells[2] for code, cells in listed.items()} == dict(REMEDIES)


def test_the_page_lists_every_reason_for_which_an_instance_refuses(
    errors_page: str, pytestconfig: pytest.Config
) -> None:
    source = (pytestconfig.rootpath / "adapter/interpreter/commands.py").read_text()
    reasons = {
        part.value
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "refuse"
        for argument in call.args
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant)
    }

    assert reasons == set(REFUSALS)
    assert reasons <= rows(errors_page, "Errors of calls").keys()


def test_the_page_gives_each_code_its_class_and_exit_code(errors_page: str) -> None:
    for code, (name, exit_code, _) in rows(errors_page, "Errors of calls").items():
        kind = getattr(errors, name)
        assert int(exit_code) == kind.exit_code, code
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.AlmanacError):
            row = rf"^\| [^|]*\b{kind.__name__}\b[^|]* \| {kind.exit_code} \| {kind.http_status} \|"
            assert re.search(row, errors_page, re.MULTILINE), kind
            assert rows(errors_page, "Errors of calls")[kind.code][0] == kind.__name__


def test_the_page_lists_every_failure_code(errors_page: str, codes: dict[str, set[str]]) -> None:
    listed = set(rows(errors_page, "Failure codes"))

    assert set(FAILURES.split()) <= listed
    assert listed == set(FAILURES.split()) | codes["record"]


def test_the_page_of_commands_lists_every_command_and_option(cli_page: str) -> None:
    import typer

    commands: dict[str, Any] = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]
    assert sorted(re.findall(r"^## `almanac (\w+)`$", cli_page, re.MULTILINE)) == sorted(commands)
    for name, command in commands.items():
        section = cli_page.split(f"\n## `almanac {name}`\n")[1].split("\n## ")[0]
        listed = set(re.findall(r"`(-[-a-z]+)`", "".join(re.findall(r"^\| .+", section, re.M))))
        options = {
            option
            for parameter in command.params
            if parameter.param_type_name == "option" and parameter.name != "help"
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {o for o in listed if o.startswith("-")} == options, name


def test_the_page_of_commands_lists_every_exit_code(cli_page: str) -> None:
    section = cli_page.split("\n## Exit codes\n")[1].split("\n## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, errors.AlmanacError)
    }

    assert listed == {0, ENDED_BADLY, INTERRUPTED} | raised
