from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from adapter.cli.main import main
from adapter.client.almanac import Almanac
from adapter.execution.registry import Registry
from adapter.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Run:
    """What a command did: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """Stderr as JSON."""
        return json.loads(self.err)


Cli = Callable[..., Run]
Written = Callable[[str, Any], str]


@pytest.fixture
def cli(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Runs a command in this process, on a database of this test's own."""
    monkeypatch.setenv("ALMANAC_DATABASE_URL", database_url)
    # Processes that run tests are told a width; people's pipes are not.
    monkeypatch.delenv("COLUMNS", raising=False)

    def cli(*arguments: str) -> Run:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    return cli


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a file, as JSON unless it is text or bytes, and returns its path."""

    def written(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return written


@pytest.fixture
def almanac(database_url: str) -> Iterator[Almanac]:
    with Almanac(Settings(database_url=database_url), registry=Registry()) as almanac:
        yield almanac
