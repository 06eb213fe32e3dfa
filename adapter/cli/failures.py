"""How a command fails: ``error[code]: message`` and a remedy on stderr, and an exit code.

With ``--json`` the error is one JSON object on stderr instead.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from adapter.cli.output import plain, print_json, stderr
from adapter.cli.remedies import REMEDIES
from adapter.errors import AlmanacError, Misconfigured

if TYPE_CHECKING:
    from pydantic import ValidationError
    from rich.console import Console

ENDED_BADLY = 7
"""The exit code of a wait for an instance that has failed or was cancelled."""

INTERRUPTED = 130
USAGE = 2


def report(error: Exception, *, as_json: bool, with_traceback: bool = False) -> int:
    """Prints an error and returns the exit code."""
    known = _known(error)
    if with_traceback:
        traceback.print_exception(error)
    if as_json:
        told = known.as_json()
        print_json({**told, "remedy": REMEDIES.get(known.code)}, error=True)
        return known.exit_code
    console = stderr()
    _say(console, f"error[{known.code}]", known.message, "bold red")
    for finding in known.details.get("findings", ()):
        _finding(console, finding)
    if (remedy := REMEDIES.get(known.code)) is not None:
        _say(console, "  help", remedy, "cyan")
    return known.exit_code


def report_usage(message: str, *, as_json: bool, command: str) -> int:
    """Prints what is wrong with the command line itself."""
    if as_json:
        told = {"code": "usage", "message": message, "details": {}}
        print_json({**told, "remedy": REMEDIES["usage"]}, error=True)
        return USAGE
    console = stderr()
    _say(console, "error[usage]", message, "bold red")
    _say(console, "  help", f"{command} --help", "cyan")
    return USAGE


def invalid_settings(error: ValidationError) -> Misconfigured:
    """The error for settings that pydantic refuses; values are left out, they may be secrets."""
    parts = []
    for flaw in error.errors(include_url=False, include_input=False, include_context=False):
        name = "__".join(str(part) for part in flaw["loc"]).upper()
        parts.append(f"ALMANAC_{name}: {flaw['msg']}")
    return Misconfigured(
        f"the settings cannot be used: {'; '.join(parts)}", code="invalid_settings"
    )


def _known(error: Exception) -> AlmanacError:
    if isinstance(error, AlmanacError):
        return error
    return AlmanacError(f"{type(error).__name__}: {error}")


def _finding(console: Console, finding: dict[str, Any]) -> None:
    style = "red" if finding.get("severity", "error") == "error" else "yellow"
    where = finding.get("pointer") or "the document"
    _say(console, f"  {finding.get('code')}", f"{where}: {finding.get('message')}", style)
    if finding.get("remedy"):
        console.print(f"    {plain(str(finding['remedy']))}", markup=False, soft_wrap=True)


def _say(console: Console, head: str, text: str, style: str) -> None:
    console.print(head, style=style, end=": ", markup=False, soft_wrap=True)
    console.print(plain(text), markup=False, soft_wrap=True)
