from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# imports every module that it is told, one after another, and says what else happened meanwhile
WATCH = """
import json, logging, os, signal, sys, threading

OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT
TELLING = {
    "os.exec", "os.fork", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove", "os.rename",
    "os.unsetenv", "shutil.rmtree", "socket.bind", "socket.connect", "subprocess.Popen",
    "tempfile.mkdtemp", "tempfile.mkstemp",
}
happened = []

def watch(event, arguments):
    if event in TELLING or event == "open" and (arguments[2] or 0) & OPENED_TO_WRITE:
        happened.append(f"{event} {arguments!r}")

def state():
    return {
        "threads": [thread.name for thread in threading.enumerate()],
        "handlers of the root logger": [repr(handler) for handler in logging.getLogger().handlers],
        "signal handlers": [repr(signal.getsignal(number)) for number in signal.valid_signals()],
        "environment": dict(os.environ),
    }

sys.addaudithook(watch)
effects = {}
for name in json.load(sys.stdin):
    before = state()
    happened.clear()
    __import__(name)
    changed = [what for what, value in state().items() if value != before[what]]
    if changed or happened:
        effects[name] = changed + happened
print(json.dumps(effects))
"""


def test_no_import_starts_opens_or_changes_anything(pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    modules = sorted(
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for package in ("adapter", "temporal_workflows")
        for file in (root / package).rglob("*.py")
        if file.name != "__main__.py"
    )

    watched = subprocess.run(
        [sys.executable, "-B", "-c", WATCH],
        input=json.dumps(modules),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert watched.returncode == 0, watched.stderr
    assert json.loads(watched.stdout) == {}
