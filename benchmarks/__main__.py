"""The program: ``python -m benchmarks``."""

from __future__ import annotations

import signal

import typer

from benchmarks.chains import chains
from benchmarks.graphs import graphs
from benchmarks.growth import growth
from benchmarks.profile import profile
from temporal_workflows.exiting import leave

app = typer.Typer(
    name="python -m benchmarks",
    help="Almanac measured beside its peers. Start with: python -m benchmarks chains --help",
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("chains")(chains)
app.command("profile")(profile)
app.command("growth")(growth)
app.command("graphs")(graphs)


@app.callback()
def benchmarks() -> None:
    pass


if __name__ == "__main__":
    # as Ctrl-C does: contenders and servers are taken down, their data removed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except SystemExit as end:
        # what has used Temporal in this process ends without a teardown
        leave(end.code if isinstance(end.code, int) else int(end.code is not None))
