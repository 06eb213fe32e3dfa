"""Publishes the migrations into the Alembic tree of a host application.

The host then runs them with its own ``alembic upgrade``, in its own order and under its own
version table; names and key types come from the ``ALMANAC_*`` variables of that run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adapter.errors import InvalidInput
from adapter.records.migrating import scripts_path

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

_REVISION = re.compile(r'^revision(?:: *\w+)? *= *["\'](\w+)["\']', re.MULTILINE)


def install(versions: Path, *, on: date, after: str | None = None) -> list[Path]:
    """Writes the migrations that a host does not have yet, stamped with the date.

    Safe to call again after an update of Almanac: what is there already, recognised by its
    revision, stays as it is.

    Args:
        versions: The ``versions`` directory of the host's Alembic tree.
        on: The date for the file names.
        after: The host's revision that the first migration follows; None starts a branch of its
            own, labelled ``almanac``, which ``alembic upgrade heads`` includes.

    Returns:
        The files written, in the order in which they run; empty when there was nothing to do.

    Raises:
        InvalidInput: There is no such directory.
    """
    if not versions.is_dir():
        raise InvalidInput(
            f"{versions} is not a directory; name the versions directory of an Alembic tree"
        )
    present = {
        revision
        for file in versions.rglob("*.py")
        for revision in _REVISION.findall(file.read_text(encoding="utf-8"))
    }
    written = []
    for script in sorted((scripts_path() / "versions").glob("*.py")):
        text = script.read_text(encoding="utf-8")
        (revision,) = _REVISION.findall(text)
        if revision in present:
            continue
        if after is not None:
            text = text.replace("down_revision = None", f"down_revision = {after!r}", 1)
        target = versions / f"{on:%Y_%m_%d}_{revision}_{script.stem[5:]}.py"
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written
