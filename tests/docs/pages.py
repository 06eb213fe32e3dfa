"""The pages that people read, cut into the parts that tests look at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".venv", ".git", "node_modules", "build", "dist", ".almanac", "data"}

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[A-Z][\w.-]*\.(?:md|toml|json)")
OURS = ("adapter/", "benchmarks/", "docs/", "examples/", "migrations/", "requirements/", "tests/")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of the page on which it begins."""

    language: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown page."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def blocks(self, language: str) -> list[Block]:
        return [
            Block(found[1], found[2], self.text.count("\n", 0, found.start()) + 2)
            for found in _FENCE.finditer(self.text)
            if found[1] == language
        ]

    def links(self) -> list[str]:
        return [link for link in _LINK.findall(self.prose()) if "://" not in link]

    def files(self) -> list[str]:
        """Paths of this project that the text names in code style; patterns are left out."""
        named = [_PATH.fullmatch(code.strip()) for code in _CODE.findall(self.prose())]
        return [
            path[0]
            for path in named
            if path is not None and (path[0].startswith(OURS) or "/" not in path[0])
        ]

    def anchors(self) -> set[str]:
        return {_anchor(heading) for heading in _HEADING.findall(self.prose())}

    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    def section(self, heading: str) -> str:
        """What stands below a heading of the second level, up to the next one."""
        return self.text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def read_page(name: str) -> Page:
    path = ROOT / name
    return Page(path, path.read_text(encoding="utf-8"))


def all_pages() -> list[Page]:
    return [
        Page(path, path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.md"))
        if not NOT_OURS & set(path.relative_to(ROOT).parts)
    ]


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain).strip().lower().replace(" ", "-")
