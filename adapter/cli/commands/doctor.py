"""``almanac doctor``: what is wrong, since when, and what repairs it."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from adapter.cli.opening import AsJson, open_almanac
from adapter.cli.output import moment, plain, print_json, stderr, stdout

if TYPE_CHECKING:
    from rich.console import Console

    from adapter.services.diagnosing.report import Finding, Report

NAME = "doctor"

FOUND = 1
"""The exit code when something was found."""

_STYLES = {"error": "bold red", "warning": "yellow"}


def command(
    ctx: typer.Context,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 for warnings, too.")] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Mend what needs no decision, then tell what is left."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compares database, Temporal and clocks, and tells what is wrong and what repairs it.

    It only looks, unless told to --fix, and works while a server is down. Ends with 0 when there
    is no error, else with 1; with --strict warnings count, too.

        almanac doctor
        almanac doctor --strict --json
        almanac doctor --fix
    """
    with open_almanac(ctx) as almanac, stderr().status("Examining"):
        report = almanac.doctor(fix=fix)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    bad = ("errors", "warnings") if strict else ("errors",)
    if report.status in bad:
        raise typer.Exit(FOUND)


def _print(report: "Report") -> None:
    console = stdout()
    for fix in report.fixes:
        console.print(
            Text(f"fix {fix.code}: {plain(fix.done)}", style="red" if fix.failed else "green"),
            soft_wrap=True,
        )
    for finding in report.findings:
        _finding(console, finding)
    failed = [one for one in report.unseen if one.failed]
    for one in failed:
        console.print(
            Text(f"error {one.code}: could not be seen: {plain(one.reason)}", style="bold red"),
            soft_wrap=True,
        )
    left_out = [one.code for one in report.unseen if not one.failed]
    if left_out:
        console.print(f"not seen until that is mended: {', '.join(left_out)}", soft_wrap=True)
    if not report.findings and not failed:
        console.print(f"healthy: {len(report.checked)} checks found nothing", style="green")


def _finding(console: "Console", finding: "Finding") -> None:
    many = f"{finding.count}{' or more' if finding.at_least else ''}"
    console.print(
        Text.assemble(
            (f"{finding.severity} {finding.code}", _STYLES[finding.severity]),
            f": {many}" if finding.samples else "",
            f", the oldest for {_for(finding.age)} ({moment(finding.oldest_at)})"
            if finding.age is not None
            else "",
        ),
        soft_wrap=True,
    )
    console.print(Text(f"  {plain(finding.meaning)}"), soft_wrap=True)
    if finding.samples:
        more = ", ..." if finding.count > len(finding.samples) else ""
        console.print(Text(f"  such as {', '.join(finding.samples)}{more}"), soft_wrap=True)
    console.print(Text(f"  repair: {finding.command}"), soft_wrap=True)


def _for(seconds: float) -> str:
    """A duration as people say it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
