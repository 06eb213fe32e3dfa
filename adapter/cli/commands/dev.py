"""``almanac dev``: all servers on this machine, for development."""

import os
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapter.cli.handlers import import_handlers
from adapter.cli.opening import AsJson, Imports, settings_of
from adapter.cli.output import cell, print_json, stderr, stdout
from adapter.cli.serving import serve, set_up_logging
from adapter.errors import Unavailable

if TYPE_CHECKING:
    from adapter.settings import Settings
    from temporal_workflows.dev.stack import Stack

NAME = "dev"
ENVIRONMENT = "environment"
"""The file in the data directory that a shell can source."""

_NO_ANSWER = (
    "ALMANAC_DATABASE_URL names a server that does not answer; unset it to run embedded ones"
)


def command(
    ctx: typer.Context,
    data_dir: Annotated[
        Path, typer.Option(help="Where the data stay, and with them the ports.")
    ] = Path(".almanac"),
    temporary: Annotated[
        bool, typer.Option("--temporary", help="Keep nothing: the data go with the servers.")
    ] = False,
    ui: Annotated[bool, typer.Option(help="Serve Temporal's web console.")] = True,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Runs PostgreSQL, Temporal and Valkey, migrates, prints every address, until Ctrl-C.

    Servers that ALMANAC_* variables name are used as they are, unless they are those of the data
    directory itself. With --import a worker runs here too. In another shell,
    `. .almanac/environment` leads every other command here.

        almanac dev
        almanac dev --import permits.actions
        almanac dev --temporary --json
    """
    from temporal_workflows.dev.own import without_own
    from temporal_workflows.dev.stack import VARIABLES, Stack

    set_up_logging("warning")
    import_handlers(imports or [])
    # A shell starts what it runs in the background with SIGINT ignored.
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.default_int_handler)
    home = None if temporary else data_dir
    fresh = home is not None and not home.exists()
    environ = os.environ if home is None else without_own(os.environ, home)
    stack = Stack.from_environment(data_dir=home, ui=ui, environ=environ)
    if stack.addresses:
        given = ", ".join(VARIABLES[piece] for piece in stack.addresses)
        stderr().print(f"used as they are: the servers of {given}")
    try:
        began = time.monotonic()
        with stderr().status("Starting the servers"):
            stack.start()
        settings = settings_of(
            ctx, database_url=stack.database_url, temporal_address=stack.temporal_address
        )
        with stderr().status("Migrating"):
            _migrate(settings, given="postgres" in stack.addresses)
        environment = stack.environment()
        if home is not None:
            _write(home / ENVIRONMENT, environment)
        fresh = False
        _print(environment, _console(stack), as_json=as_json)
        stderr().print(f"ready after {time.monotonic() - began:.1f} s; Ctrl-C ends it")
        if imports:
            serve(settings)
        else:
            stderr().print("no worker runs here; start one: almanac worker --import MODULE")
            while True:
                signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        with stderr().status("Stopping the servers"):
            stack.stop()
        if fresh and home is not None:
            # It never came to be of use.
            shutil.rmtree(home, ignore_errors=True)


def _migrate(settings: "Settings", *, given: bool) -> None:
    from adapter.client.almanac import Almanac

    try:
        with Almanac(settings) as almanac:
            almanac.migrate()
    except Unavailable as error:
        if given and error.code == "database_unavailable":
            raise Unavailable(
                error.message, code="database_unavailable", remedy=_NO_ANSWER
            ) from error
        raise


def _write(path: Path, environment: dict[str, str]) -> None:
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
    # Nobody has made it where all servers are somebody else's.
    path.parent.mkdir(parents=True, exist_ok=True)
    # It holds the passwords of the servers.
    path.touch(mode=0o600)
    path.write_text("".join(lines))


def _print(environment: dict[str, str], console_url: str | None, *, as_json: bool) -> None:
    told = environment if console_url is None else {**environment, "console": console_url}
    if as_json:
        print_json(told)
        return
    # Each on a line of its own, however long, to be copied.
    for name, value in told.items():
        stdout().print(cell(f"{name:<28}{value}"), soft_wrap=True)


def _console(stack: "Stack") -> str | None:
    return None if "temporal" in stack.addresses else stack.temporal.ui_url
