"""Resolves the lock files again: names, versions and hashes, and nothing that tells a place.

Run by ``make lock``. The result holds for every platform and for Python 3.11 and newer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Written by `make lock`; do not edit.\n"


def lock(output: str, *arguments: str) -> None:
    """Writes one lock file."""
    resolved = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"),
            *("--python-version", "3.11", "--generate-hashes", "--upgrade"),
            *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
            *("pyproject.toml", *arguments),
        ],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    if "://" in resolved:
        sys.exit(f"{output}: a requirement carries an address; pin it by name and version")
    (ROOT / output).write_text(HEADER + resolved, encoding="utf-8")
    print(f"{output}: {resolved.count('==')} requirements")


if __name__ == "__main__":
    lock("requirements/dev.txt", "--extra", "dev")
    lock("requirements/bench.txt", "--extra", "bench", "--constraints", "requirements/dev.txt")
