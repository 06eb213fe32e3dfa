"""``almanac worker``: runs instances until it is told to stop."""

from typing import Annotated

import typer

from adapter.cli.handlers import import_handlers
from adapter.cli.opening import Imports, settings_of
from adapter.cli.serving import check_alive, serve, set_up_logging

NAME = "worker"


def command(
    ctx: typer.Context,
    imports: Imports = None,
    task_queue: Annotated[
        str | None, typer.Option(help="Default: $ALMANAC_TASK_QUEUE or almanac.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    alive: Annotated[
        bool,
        typer.Option(
            "--alive", help="Run none: end with 0 if one lives on this host, else with 5."
        ),
    ] = False,
) -> None:
    """Runs a worker: takes turns of instances, calls handlers, relays commands and events.

    Run as many as you like, on as many machines, and give all of them the same modules: a step
    whose action a worker does not have waits until another one takes it. It checks the database
    and Temporal first. On SIGTERM or Ctrl-C it finishes what runs at the next step boundary and
    ends with 0; a second signal ends it at once, which loses nothing that is recorded.

        almanac worker --import permits.actions
        almanac worker --import permits.actions --import billing.actions --log-level debug
        almanac worker --alive
    """
    if alive:
        check_alive(settings_of(ctx, task_queue=task_queue))
        return
    set_up_logging(log_level)
    import_handlers(imports or [])
    serve(settings_of(ctx, task_queue=task_queue))
