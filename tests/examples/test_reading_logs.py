from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from examples.permits.log import InvalidLog, Row, read_log

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "case,activity,timestamp,resource"


def _read(directory: Path, content: str | bytes) -> list[Row]:
    file = directory / "log.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_log(file))


def _refusal(directory: Path, content: str | bytes) -> InvalidLog:
    with pytest.raises(InvalidLog) as refused:
        _read(directory, content)
    return refused.value


def test_a_row_has_its_cells_and_its_line(tmp_path: Path) -> None:
    rows = _read(tmp_path, f"{HEADER}\nc1,Receive,2024-03-01T09:00:00+01:00,Ann\n")

    at = datetime(2024, 3, 1, 9, tzinfo=timezone(timedelta(hours=1)))
    assert rows == [Row(2, "c1", "Receive", at, "Ann", {})]


def test_columns_may_stand_in_any_order_and_others_are_kept(tmp_path: Path) -> None:
    rows = _read(
        tmp_path, "channel,resource,case,timestamp,activity\nweb,Ann,c1,2024-03-01,Receive\n"
    )

    assert (rows[0].case, rows[0].activity, rows[0].resource) == ("c1", "Receive", "Ann")
    assert rows[0].more == {"channel": "web"}


def test_a_time_without_offset_is_utc(tmp_path: Path) -> None:
    rows = _read(tmp_path, f"{HEADER}\nc1,a,2024-03-01 09:00:00.5,Ann\n")

    assert rows[0].at == datetime(2024, 3, 1, 9, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2024-03-01T08:00:00Z", "2024-03-01T10:00:00+02:00", "20240301T0800"]
)
def test_times_of_any_offset_are_the_same_instant(tmp_path: Path, text: str) -> None:
    rows = _read(tmp_path, f"{HEADER}\nc1,a,{text},Ann\n")

    assert rows[0].at == datetime(2024, 3, 1, 8, tzinfo=UTC)


def test_a_gzipped_log_is_told_by_its_content(tmp_path: Path) -> None:
    rows = _read(tmp_path, gzip.compress(f"{HEADER}\nc1,a,2024-03-01,Ann\n".encode()))

    assert [row.case for row in rows] == ["c1"]


def test_quoted_cells_keep_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    rows = _read(
        tmp_path, f'{HEADER}\n"c,1","say ""hi""\nnow",2024-03-01,Ann\nc2,a,2024-03-01,Bob\n'
    )

    assert [(row.line, row.case, row.activity) for row in rows] == [
        (2, "c,1", 'say "hi"\nnow'),
        (4, "c2", "a"),
    ]


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_any_line_end_will_do(tmp_path: Path, end: str) -> None:
    rows = _read(tmp_path, end.join([HEADER, "c1,a,2024-03-01,Ann", "c2,b,2024-03-02,Bob"]))

    assert [(row.line, row.resource) for row in rows] == [(2, "Ann"), (3, "Bob")]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    rows = _read(tmp_path, "\ufeff" + f"{HEADER}\nc1,a,2024-03-01,Ann\n")

    assert rows[0].case == "c1"


def test_blank_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    rows = _read(tmp_path, f"{HEADER}\n\nc1,a,2024-03-01,\n\n")

    assert [(row.line, row.resource) for row in rows] == [(3, "")]


def test_names_of_any_writing_are_kept_as_they_are(tmp_path: Path) -> None:
    rows = _read(tmp_path, f"{HEADER}\n ﷽ ,許可 🏗️ é,2024-03-01,Ann\n")

    assert (rows[0].case, rows[0].activity) == (" ﷽ ", "許可 🏗️ é")


def test_every_missing_column_is_named(tmp_path: Path) -> None:
    refused = _refusal(tmp_path, "case,step,timestamp\nc1,a,2024-03-01\n")

    assert "no column 'activity' and no 'resource'" in refused.message
    assert "'case', 'step', 'timestamp'" in refused.message


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    assert "'case' twice" in _refusal(tmp_path, f"{HEADER},case\nc1,a,2024-03-01,Ann,c1\n").message


@pytest.mark.parametrize("text", ["yesterday", "2024-02-30", "1709280000", ""])
def test_a_time_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    refused = _refusal(tmp_path, f"{HEADER}\nc1,a,2024-03-01,Ann\nc1,b,{text},Ann\n")

    assert refused.message.startswith("Line 3: timestamp ")
    assert refused.details["line"] == 3


@pytest.mark.parametrize("column", ["case", "activity"])
def test_a_row_without_case_or_activity_is_refused(tmp_path: Path, column: str) -> None:
    cells = {
        "case": "c1",
        "activity": "a",
        "timestamp": "2024-03-01",
        "resource": "Ann",
        column: "",
    }

    refused = _refusal(tmp_path, f"{HEADER}\n{','.join(cells.values())}\n")

    assert refused.message.startswith(f"Line 2: column '{column}' is empty")


@pytest.mark.parametrize("row", ["c1,a,2024-03-01", "c1,a,2024-03-01,Ann,web"])
def test_a_row_of_another_width_is_refused(tmp_path: Path, row: str) -> None:
    assert "Line 2: " in _refusal(tmp_path, f"{HEADER}\n{row}\n").message


def test_an_unclosed_quote_is_refused_at_the_line_where_its_row_begins(tmp_path: Path) -> None:
    refused = _refusal(tmp_path, f'{HEADER}\nc1,a,2024-03-01,Ann\n"c2,a,2024-03-01,Ann\nc3\n')

    assert refused.message.startswith("Line 3: ")
    assert "quotes" in refused.message


def test_a_nul_is_refused(tmp_path: Path) -> None:
    assert (
        "Line 2: column 'activity'"
        in _refusal(tmp_path, f"{HEADER}\nc1,a\0,2024-03-01,A\n").message
    )


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert "is empty" in _refusal(tmp_path, "").message


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    assert "no rows" in _refusal(tmp_path, f"{HEADER}\n").message


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    content = f"{HEADER}\nc1,é,2024-03-01,Ann\n".encode("latin-1")

    assert "UTF-8" in _refusal(tmp_path, content).message


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("number", [2, 400, 999])
def test_a_byte_that_is_not_utf_8_is_refused_by_its_line(
    tmp_path: Path, number: int, packed: bool
) -> None:
    lines = [HEADER.encode(), *[b"c1,\xc3\xa9,2024-03-01,Ann"] * 999]
    lines[number - 1] = b"c1,\xe9,2024-03-01,Ann"
    content = b"\n".join(lines)

    message = _refusal(tmp_path, gzip.compress(content) if packed else content).message

    assert message == f"Line {number}: the byte 0xe9 is not UTF-8; save the log as UTF-8."


def test_a_question_ends_without_a_full_stop(tmp_path: Path) -> None:
    message = _refusal(tmp_path, f"{HEADER}\nc1,a,2024-03-01\n".encode()).message

    assert message.endswith("is a comma not quoted?")


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(f"{HEADER}\nc1,a,2024-03-01,Ann\n".encode())

    assert "cannot be read any further" in _refusal(tmp_path, packed[:-12]).message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidLog, match=r"cannot be opened: No such file"):
        list(read_log(tmp_path / "none.csv"))
