"""Runs a program, its workers driven as was chosen: ``python -m tests.examples.driven FILE``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from examples.permits import workers

if __name__ == "__main__":
    workers._ALMANAC = "from tests.driving.programs import run; run()"
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
