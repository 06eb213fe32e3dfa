"""The command line in processes of their own, driven as was chosen.

``python -m tests.driving.programs worker ...`` is ``almanac worker ...``, with other parts. A
process that is not to be driven is started as people start it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.driving.modes import VARIABLE
from tests.driving.tally import VARIABLE as TALLY

ROOT = Path(__file__).parents[2]


def almanac(*, script: bool = False) -> list[str]:
    """How ``almanac`` is called; with what ``environment`` adds to it.

    Args:
        script: By its script, unless it is to be driven.
    """
    if os.environ.get(VARIABLE):
        return [sys.executable, "-m", "tests.driving.programs"]
    if script:
        return [str(Path(sys.executable).with_name("almanac"))]
    return [sys.executable, "-m", "adapter.cli"]


def environment(path: str = "") -> dict[str, str]:
    """What such a process needs, beside what a test gives it.

    Args:
        path: More of PYTHONPATH.
    """
    if not os.environ.get(VARIABLE):
        return {"PYTHONPATH": path} if path else {}
    chosen = {name: os.environ[name] for name in (VARIABLE, TALLY) if name in os.environ}
    return {**chosen, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), path)))}


def run() -> None:
    """Runs the command line with the chosen parts."""
    from adapter.cli.main import run as run_cli
    from tests.driving.parts import driving_as_chosen

    with driving_as_chosen():
        run_cli()


if __name__ == "__main__":
    run()
