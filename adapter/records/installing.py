"""Publishes the migrations into the Alembic tree of a host application.

The host then runs them with its own ``alembic upgrade``, in its own order and under its own
version table; names and key types come from the ``ALMANAC_*`` variables of that run.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapter.errors import Conflict, InvalidInput
from adapter.records.host_tree import HostTree, Script, parse_script, read_tree
from adapter.records.migrating import scripts_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Published:
    """A migration that the host gets.

    Attributes:
        revision: Its id.
        follows: The revision that it comes after; None where it begins a branch of its own.
        file: Where it is written.
    """

    revision: str
    follows: str | None
    file: Path


@dataclass(frozen=True, slots=True)
class Installed:
    """What was written.

    Attributes:
        migrations: In the order in which they run; empty when there was nothing to do.
        heads: The heads of the tree afterwards.
    """

    migrations: list[Published]
    heads: list[str]

    @property
    def upgrade(self) -> str:
        """What the host runs next."""
        return f"alembic upgrade {'head' if len(self.heads) == 1 else 'heads'}"


def install(
    directory: Path,
    *,
    on: date,
    after: str | None = None,
    branch_label: str | None = None,
    dry_run: bool = False,
) -> Installed:
    """Writes the migrations that a host does not have yet, stamped with the date.

    The first one follows the host's head, or what ``after`` and ``branch_label`` say. Safe to call
    again after an update of Almanac: what is there already, recognised by its revision, stays as
    it is, and what is new follows the head that comes after it.

    Args:
        directory: The host's Alembic tree, or its directory of versions.
        on: The date for the file names.
        after: The host's revision that the first new migration follows.
        branch_label: Begins a branch of that name, by itself or, with ``after``, there.
        dry_run: Only tell what would be written.

    Raises:
        InvalidInput: It is no Alembic tree (``not_an_alembic_tree``), or cannot be read
            (``unreadable_migration``) or written (``cannot_write``); the tree has several heads
            and none was chosen (``several_heads``); ``after`` or ``branch_label`` does not fit
            (``invalid_place``).
        Conflict: ``file_exists``: another file has the name of one to be written.
    """
    tree = read_tree(directory)
    place = _Place(tree, after, branch_label)
    ours = _ours()
    published, texts = list[Published](), list[str]()
    follows: str | None
    label: str | None
    for index, (script, stem, text) in enumerate(ours):
        if script.revision in tree.scripts:
            continue
        before = ours[index - 1][0].revision if index else None
        if published and published[-1].revision == before:
            follows, label = before, None
        elif any(later.revision in tree.scripts for later, _, _ in ours[index:]):
            follows, label = place.in_gap(before), branch_label if index == 0 else None
        else:
            follows, label = place.at_end(before), branch_label
        file = tree.versions / f"{on:%Y_%m_%d}_{script.revision}_{stem}.py"
        if file.exists():
            raise Conflict(f"{file} is there already", code="file_exists", file=str(file))
        published.append(Published(script.revision, follows, file))
        texts.append(_placed(text, follows, label))
    if not dry_run:
        for one, text in zip(published, texts, strict=True):
            _write(one.file, text)
    return Installed(published, _with(tree, published).heads())


class _Place:
    """Where the migrations go in a host's tree."""

    def __init__(self, tree: HostTree, after: str | None, label: str | None) -> None:
        self._tree = tree
        self._after = after
        self._label = label

    def in_gap(self, before: str | None) -> str | None:
        """What a migration follows that others of ours, which are there, come after."""
        if before is not None:
            return before
        if self._after is None and self._label is None:
            raise InvalidInput(
                "the first migration of Almanac is missing while later ones are there; say what it"
                " followed: --after REVISION, or --branch-label LABEL for a branch of its own",
                code="invalid_place",
            )
        return self._after

    def at_end(self, before: str | None) -> str | None:
        """What the first new migration follows.

        Args:
            before: The newest of ours that is there; None for none.
        """
        if self._label is not None:
            self._check_label(self._label, before)
        if self._after is not None:
            self._check_after(self._after, before)
            return self._after
        if self._label is not None:
            return None
        heads = [
            head
            for head in self._tree.heads()
            if before is None or self._tree.comes_after(head, before)
        ]
        if len(heads) > 1:
            own = ", or --branch-label LABEL for a branch of their own" if before is None else ""
            come = "" if before is None else f" after {before}"
            raise InvalidInput(
                f"the tree has several heads{come}: {', '.join(heads)}. Say which one Almanac's"
                f" migrations follow: --after REVISION{own}",
                code="several_heads",
                heads=heads,
            )
        return heads[0] if heads else before

    def _check_label(self, label: str, before: str | None) -> None:
        if before is not None:
            raise _misplaced(f"--branch-label is for the first time; {before} is there already")
        if _LABEL.fullmatch(label) is None:
            raise _misplaced(f"{label!r:.80} is not a branch label: use letters, digits and _")
        if label in self._tree.labels():
            raise _misplaced(f"the tree has a branch {label!r} already; give another label")

    def _check_after(self, after: str, before: str | None) -> None:
        heads = self._tree.heads()
        if after not in self._tree.scripts:
            known = ", ".join(heads) or "none"
            raise _misplaced(f"the tree has no revision {after!r:.80}; its heads are {known}")
        if before is not None and not self._tree.comes_after(after, before):
            raise _misplaced(f"{after} does not come after {before}, which has to run first")
        if after not in heads and self._label is None:
            raise _misplaced(
                f"{after} is not a head (those are {', '.join(heads)}), so this would begin a"
                " branch there; give --branch-label LABEL, too, if that is meant"
            )


def _ours() -> list[tuple[Script, str, str]]:
    """Returns each migration of ours with the name of its file and its text, in their order."""
    found = []
    for file in sorted((scripts_path() / "versions").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        script = parse_script(text, file.name)
        assert script is not None
        found.append((script, file.stem[5:], text))
    return found


def _placed(text: str, follows: str | None, label: str | None) -> str:
    down = "None" if follows is None else json.dumps(follows)
    labels = "None" if label is None else f"({json.dumps(label)},)"
    text = re.sub(r"^down_revision = .*$", f"down_revision = {down}", text, count=1, flags=re.M)
    return re.sub(r"^branch_labels = .*$", f"branch_labels = {labels}", text, count=1, flags=re.M)


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidInput(f"cannot write {file}: {why}", code="cannot_write") from error


def _with(tree: HostTree, published: Sequence[Published]) -> HostTree:
    new = {
        one.revision: Script(one.revision, () if one.follows is None else (one.follows,), ())
        for one in published
    }
    return HostTree(tree.versions, {**tree.scripts, **new})


def _misplaced(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_place")
