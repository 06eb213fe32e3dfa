"""``almanac validate``: tells everything that is wrong with graph documents."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.padding import Padding

from adapter.cli.columns import MIDDLE
from adapter.cli.failures import USAGE
from adapter.cli.handlers import NO_HANDLERS, import_handlers
from adapter.cli.inputs import read_file
from adapter.cli.opening import AsJson, Imports, SkipActions, open_almanac
from adapter.cli.output import cell, print_json, stderr, stdout, table

NAME = "validate"


def command(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="JSON; - is stdin.")],
    imports: Imports = None,
    skip_actions: SkipActions = False,
    as_json: AsJson = False,
) -> None:
    """Checks graph documents and lists every finding with its place and remedy.

    Needs no server. Actions are looked up among those that the imported modules register. Ends
    with 2 when a document has errors; warnings alone let it pass.

        almanac validate permits.json --import permits.actions
        almanac validate graphs/*.json --skip-actions
    """
    import_handlers(imports or [])
    almanac = open_almanac(ctx)
    found: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        findings = almanac.validate(read_file(file), check_actions=not skip_actions)
        found[file] = [asdict(finding) for finding in findings]
    bad = {file for file, findings in found.items() if any(map(_is_error, findings))}
    if as_json:
        print_json(
            [{"file": f, "valid": f not in bad, "findings": listed} for f, listed in found.items()]
        )
    else:
        for file, listed in found.items():
            _print(file, listed, valid=file not in bad)
        codes = {finding["code"] for findings in found.values() for finding in findings}
        if "unknown_action" in codes:
            stderr().print(f"actions that are not known: {NO_HANDLERS}", soft_wrap=True)
    raise typer.Exit(USAGE if bad else 0)


def _is_error(finding: dict[str, Any]) -> bool:
    return bool(finding["severity"] == "error")


def _print(file: str, findings: list[dict[str, Any]], *, valid: bool) -> None:
    console = stdout()
    errors = sum(map(_is_error, findings))
    told = "valid" if valid else f"{errors} {'error' if errors == 1 else 'errors'}"
    if warnings := len(findings) - errors:
        told += f", {warnings} {'warning' if warnings == 1 else 'warnings'}"
    console.print(cell(f"{file}: {told}"), style="green" if valid else "red")
    if findings and console.width < MIDDLE:
        for finding in findings:
            console.print(cell(f"  {finding['severity']} {finding['code']}: {finding['pointer']}"))
            console.print(Padding(cell(f"{finding['message']}; {finding['remedy']}"), (0, 0, 0, 4)))
    elif findings:
        listed = table("", "place", "code*", "what is wrong", "what to do")
        for finding in findings:
            names = ("severity", "pointer", "code", "message", "remedy")
            listed.add_row(*(cell(finding[name]) for name in names))
        console.print(listed)
