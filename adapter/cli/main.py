"""The entry point ``almanac``: the commands put together, and errors mapped to exit codes.

``run`` is what the installed script calls; ``main`` is the same without ending the process.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer

from adapter.cli.commands import (
    cancel,
    dev,
    doctor,
    emit,
    inbox,
    install,
    listing,
    migrate,
    pause,
    publish,
    rebuild,
    resume,
    retry,
    show,
    signal,
    start,
    validate,
    worker,
)
from adapter.cli.failures import INTERRUPTED, report, usage
from adapter.cli.helping import Command, Group
from adapter.cli.opening import Globals
from adapter.errors import AlmanacError

app = typer.Typer(
    name="almanac",
    cls=Group,
    epilog="Exit codes: 0 done, 1 defect, or doctor found something, 2 invalid input, 3 not found, "
    "4 conflict, 5 unavailable, 6 misconfigured, 7 the instance ended badly, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = (
    *(dev, migrate, install, worker, validate, publish, start, emit, show, listing),
    *(signal, pause, resume, cancel, retry, inbox),
    *(doctor, rebuild),
)
for module in _COMMANDS:
    app.command(module.NAME, cls=Command)(module.command)

# Typer brings a copy of click of its own; only this exception of it is public.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

_BEFORE = {
    "--database-url": "URL",
    "--temporal-address": "HOST:PORT",
    "--traceback": "",
    "--version": "",
}
"""The options that go before the command, and what each one takes."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"almanac {version('temporal-almanac')}")
        raise typer.Exit


@app.callback()
def almanac(
    ctx: typer.Context,
    database_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="PostgreSQL: postgresql://user@host/db. Default: $ALMANAC_DATABASE_URL.",
            show_default=False,
        ),
    ] = None,
    temporal_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Temporal's frontend. Default: $ALMANAC_TEMPORAL_ADDRESS.",
            show_default=False,
        ),
    ] = None,
    _traceback: Annotated[
        bool, typer.Option("--traceback", help="Print the traceback of an error, too.")
    ] = False,
    _show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Published workflow graphs that run on Temporal and record every transition in SQL.

    Start here: `almanac dev` runs all servers on this machine and prints how to reach them.
    """
    ctx.obj = Globals(database_url, temporal_address)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Args:
        arguments: Without the program's name; those of the process when None.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        code = app(given, prog_name="almanac", standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        if not given:
            # Typer has printed the help by itself.
            return 0
        return report(_usage(error), as_json=as_json, command=_command(given))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return report(
            error,
            as_json=as_json,
            command=_command(given),
            with_traceback="--traceback" in given,
        )
    return code if isinstance(code, int) else 0


def run() -> None:
    """Runs the command of this process and ends it."""
    from temporal_workflows.exiting import leave

    leave(main())


def _usage(error: Any) -> AlmanacError:
    context, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if option in _BEFORE and context is not None and context.parent is not None:
        value = f" {_BEFORE[option]}" if _BEFORE[option] else ""
        right = f"almanac {option}{value} {context.info_name}"
        return usage(error.format_message(), remedy=f"{option} goes before the command: {right}")
    return usage(error.format_message())


def _command(given: Sequence[str]) -> str:
    """What was called, as far as it can be told from arguments that may be wrong."""
    names = {module.NAME for module in _COMMANDS}
    return " ".join(["almanac", *[one for one in given if one in names][:1]])


if __name__ == "__main__":
    run()
