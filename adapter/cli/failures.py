"""How a command fails: ``error[code]: message`` and a remedy on stderr, and an exit code.

With ``--json`` the error is one JSON object on stderr instead.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapter.cli.output import plain, print_json, stderr
from adapter.cli.remedies import REMEDIES
from adapter.errors import AlmanacError, InvalidInput, Misconfigured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import ValidationError
    from rich.console import Console

ENDED_BADLY = 7
"""The exit code of a wait for an instance that has failed or was cancelled."""

_ENVIRONMENT = Path(".almanac/environment")
_ADDRESSES = ("ALMANAC_DATABASE_URL", "ALMANAC_TEMPORAL_ADDRESS")

INTERRUPTED = 130
USAGE = 2


def report(error: Exception, *, as_json: bool, command: str, with_traceback: bool = False) -> int:
    """Prints an error and returns the exit code.

    Args:
        error: An error of ours, or a defect.
        as_json: As one JSON object.
        command: What was called, such as ``almanac start``.
        with_traceback: Print the traceback first.
    """
    known = _known(error)
    if with_traceback:
        traceback.print_exception(error)
    if as_json:
        told = known.as_json()
        told["details"].pop("remedy", None)
        print_json({**told, "remedy": _remedy(known, command)}, error=True)
        return known.exit_code
    console = stderr()
    findings = known.details.get("findings", ())
    _say(console, f"error[{known.code}]", _headline(known, findings), "bold red")
    for finding in findings:
        _finding(console, finding)
    if (remedy := _remedy(known, command)) is not None:
        _say(console, "  help", remedy, "cyan")
    return known.exit_code


def usage(message: str, *, remedy: str | None = None) -> InvalidInput:
    """The error for a command line that is itself not valid.

    Args:
        message: What is wrong with it.
        remedy: What to do, when that is more than to look at the command's help.
    """
    details = {} if remedy is None else {"remedy": remedy}
    return InvalidInput(message, code="usage", **details)


def invalid_settings(error: ValidationError) -> Misconfigured:
    """The error for settings that pydantic refuses; values are left out, they may be secrets."""
    parts = []
    for flaw in error.errors(include_url=False, include_input=False, include_context=False):
        name = "__".join(str(part) for part in flaw["loc"]).upper()
        parts.append(f"ALMANAC_{name}: {flaw['msg'].removeprefix('Value error, ')}")
    return Misconfigured(
        f"the settings cannot be used: {'; '.join(parts)}", code="invalid_settings"
    )


def _remedy(error: AlmanacError, command: str) -> str | None:
    """What to do: what the error itself says, else what its code says."""
    remedy = error.details.get("remedy") or _sourcing(error) or REMEDIES.get(error.code)
    if remedy is None:
        return None
    ulid = error.details.get("ulid")
    told = str(remedy).replace("almanac COMMAND", command)
    return told if ulid is None else told.replace(" ULID", f" {ulid}")


def _sourcing(error: AlmanacError) -> str | None:
    """What to do where servers run that this shell has not been told of."""
    named = any(os.environ.get(name) for name in _ADDRESSES)
    if error.code != Misconfigured.code or named or not _ENVIRONMENT.exists():
        return None
    return f"name the servers of `almanac dev` to this shell: . {_ENVIRONMENT}"


def _known(error: Exception) -> AlmanacError:
    if isinstance(error, AlmanacError):
        return error
    return AlmanacError(f"{type(error).__name__}: {error}")


def _headline(error: AlmanacError, findings: Sequence[dict[str, Any]]) -> str:
    """The message; where findings follow, only how many, since it tells the first of them."""
    if not findings:
        return error.message
    count = sum(finding.get("severity", "error") == "error" for finding in findings)
    told = f"{count} {'error' if count == 1 else 'errors'}"
    return f"{error.details.get('file', 'the document')} was refused: {told}"


def _finding(console: Console, finding: dict[str, Any]) -> None:
    style = "red" if finding.get("severity", "error") == "error" else "yellow"
    where = finding.get("pointer") or "the document"
    _say(console, f"  {finding.get('code')}", f"{where}: {finding.get('message')}", style)
    if finding.get("remedy"):
        console.print(f"    {plain(str(finding['remedy']))}", markup=False, soft_wrap=True)


def _say(console: Console, head: str, text: str, style: str) -> None:
    console.print(head, style=style, end=": ", markup=False, soft_wrap=True)
    console.print(plain(text), markup=False, soft_wrap=True)
