"""Reads the Alembic tree of a host application: its revisions, what follows what, and its heads.

The scripts are read, not run: a host's migration may import what this process does not have.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapter.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAMES = ("revision", "down_revision", "branch_labels")


@dataclass(frozen=True, slots=True)
class Script:
    """One migration.

    Attributes:
        revision: Its id.
        follows: The ids that it comes after: none for a first one, several for a merge.
        labels: The names of the branch that begins with it.
    """

    revision: str
    follows: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostTree:
    """The migrations that a host has, and the directory for more of them."""

    versions: Path
    scripts: Mapping[str, Script]

    def heads(self) -> list[str]:
        """Returns the revisions that nothing follows, sorted."""
        followed = {one for script in self.scripts.values() for one in script.follows}
        return sorted(self.scripts.keys() - followed)

    def labels(self) -> set[str]:
        """Returns the names of all branches."""
        return {label for script in self.scripts.values() for label in script.labels}

    def comes_after(self, revision: str, earlier: str) -> bool:
        """Whether a revision is ``earlier`` itself or follows it, however far."""
        seen, open_ = set[str](), [revision]
        while open_:
            one = open_.pop()
            if one == earlier:
                return True
            if one not in seen and one in self.scripts:
                seen.add(one)
                open_ += self.scripts[one].follows
        return False


def read_tree(directory: Path) -> HostTree:
    """Reads a host's Alembic tree.

    Args:
        directory: The one with ``env.py``, or its ``versions``. Where the tree has several
            directories of versions, all that lie beside ``env.py`` are read; name the one to
            write to.

    Raises:
        InvalidInput: ``not_an_alembic_tree``; ``unreadable_migration`` names the file.
    """
    versions = directory / "versions" if (directory / "env.py").is_file() else directory
    if not versions.is_dir():
        what = "has env.py but no versions/" if versions != directory else "is not a directory"
        raise _no_tree(directory, what)
    known = (versions.parent / "env.py").is_file()
    root = versions.parent if known else versions
    scripts = [script for file in sorted(root.rglob("*.py")) if (script := _read(file)) is not None]
    if not scripts and not known:
        raise _no_tree(directory, "has neither env.py nor a migration")
    return HostTree(versions, {script.revision: script for script in scripts})


def parse_script(text: str, name: str) -> Script | None:
    """Returns what a migration says of itself; None for a file that is no migration.

    Args:
        text: The source.
        name: The file, for messages.

    Raises:
        InvalidInput: ``unreadable_migration``.
    """
    try:
        found = dict(_assigned(ast.parse(text)))
        said = {key: ast.literal_eval(value) for key, value in found.items()}
    except (SyntaxError, ValueError) as error:
        raise _unreadable(name, error) from error
    revision = said.get("revision")
    if revision is None:
        return None
    follows, labels = _listed(said.get("down_revision")), _listed(said.get("branch_labels"))
    if not all(isinstance(one, str) for one in (revision, *follows, *labels)):
        raise _unreadable(name, TypeError("revisions and labels must be texts"))
    return Script(revision, follows, labels)


def _read(file: Path) -> Script | None:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(str(file), error) from error
    return parse_script(text, str(file)) if "revision" in text else None


def _assigned(tree: ast.Module) -> Any:
    """Yields (name, value) of the module's own assignments that say where it stands."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets: list[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and target.id in _NAMES:
                yield target.id, statement.value


def _listed(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list | set) else (value,)


def _no_tree(directory: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{directory} {what}: name the directory of an Alembic tree, the one with env.py",
        code="not_an_alembic_tree",
        directory=str(directory),
    )


def _unreadable(file: str, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"cannot tell from {file} which revision it is: {error}",
        code="unreadable_migration",
        file=file,
    )
