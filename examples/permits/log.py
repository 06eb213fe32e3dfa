"""Reading an event log: one row of CSV is one thing that happened in one case.

A log is UTF-8 CSV, plain or gzipped, with a header and at least the columns ``case``,
``activity``, ``timestamp`` and ``resource``; other columns are kept. It is read as a stream, and
what cannot be read is refused with its line and a remedy.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from adapter.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("case", "activity", "timestamp", "resource")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Row:
    """One event of a log.

    Attributes:
        line: Where it begins in the file; the first line is 1.
        at: When it happened; a time without an offset is UTC.
        more: The cells of the other columns, by column.
    """

    line: int
    case: str
    activity: str
    at: datetime
    resource: str
    more: dict[str, str]


class InvalidLog(InvalidInput):
    """The log cannot be replayed as it is; ``details["line"]`` names the line at fault, if any."""

    code = "invalid_log"


def read_log(path: Path | str) -> Iterator[Row]:
    """Yields the rows of a log in the order of the file.

    Raises:
        InvalidLog: No such file, no rows, a missing column, or a line that cannot be read.
    """
    path = Path(path)
    with _opened(path) as text:
        reader = csv.reader(_decoded(text), strict=True)
        line = 1
        try:
            header = _header(path, next(reader, None))
            line, rows = reader.line_num + 1, 0
            for cells in reader:
                if cells:
                    yield _row(header, cells, line)
                    rows += 1
                line = reader.line_num + 1
        except csv.Error as error:
            raise _refused(line, f"{error}; are its quotes closed and doubled inside?") from error
        except (EOFError, OSError, zlib.error) as error:
            raise _refused(line, f"the file cannot be read any further: {error}") from error
    if not rows:
        raise InvalidLog(f"{path.name} has a header but no rows; there is nothing to replay.")


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InvalidLog(f"The log {path} cannot be opened: {error.strerror or error}.") from error
    with raw:
        packed = raw.peek(2)[:2] == _GZIP
        content = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if packed else raw)
        # csv wants the line ends as they are; utf-8-sig drops a byte order mark
        yield io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _decoded(text: IO[str]) -> Iterator[str]:
    """Yields the lines; one that is not UTF-8 is refused by its own number.

    A strict decoder would fail on the block that a line is read with, up to hundreds of lines
    too early.
    """
    for number, line in enumerate(text, start=1):
        try:
            line.encode()
        except UnicodeEncodeError as error:
            byte = ord(line[error.start]) & 0xFF
            raise _refused(
                number, f"the byte 0x{byte:02x} is not UTF-8; save the log as UTF-8"
            ) from error
        yield line


def _header(path: Path, cells: list[str] | None) -> list[str]:
    if not cells:
        raise InvalidLog(
            f"{path.name} is empty; a log begins with a header that names {', '.join(COLUMNS)}."
        )
    names = [cell.strip() for cell in cells]
    missing = [column for column in COLUMNS if column not in names]
    if missing:
        raise InvalidLog(
            f"{path.name} has no column {' and no '.join(map(repr, missing))}; its columns are "
            f"{', '.join(map(repr, names))}. Columns are separated by commas; rename those that "
            "are called otherwise."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidLog(f"{path.name} has the column {twice[0]!r} twice; rename one of them.")
    return names


def _row(header: list[str], cells: list[str], line: int) -> Row:
    if len(cells) != len(header):
        raise _refused(
            line, f"{len(cells)} cells where the header has {len(header)}; is a comma not quoted?"
        )
    for name, cell in zip(header, cells, strict=True):
        if "\0" in cell:
            raise _refused(line, f"column {name!r} holds a NUL character, which no text may")
    more = dict(zip(header, cells, strict=True))
    case, activity, timestamp, resource = (more.pop(column) for column in COLUMNS)
    for name, cell in (("case", case), ("activity", activity)):
        if not cell:
            raise _refused(
                line, f"column {name!r} is empty; every row belongs to a case and a step"
            )
    return Row(line, case, activity, _time(timestamp, line), resource, more)


def _time(text: str, line: int) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _refused(
            line,
            f"timestamp {text!r:.60} is no ISO 8601 time such as 2011-10-11T13:45:40+02:00",
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _refused(line: int, problem: str) -> InvalidLog:
    end = "" if problem.endswith("?") else "."
    return InvalidLog(f"Line {line}: {problem}{end}", line=line)
