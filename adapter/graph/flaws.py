"""What is wrong with a text that is not JSON, in one voice for documents and payloads."""

from __future__ import annotations

import json
from typing import Any, Final

_WORDS: Final = (
    ("Expecting value", "a value is expected"),
    ("Expecting property name enclosed in double quotes", "a key in double quotes is expected"),
    ("Expecting ',' delimiter", "a comma or the closing bracket is expected"),
    ("Expecting ':' delimiter", "a colon is expected"),
    ("Extra data", "something follows the end of the value"),
    ("Unterminated string starting at", "the text that begins here is not closed"),
    ("Invalid control character at", "a control character in a text; write it as \\n, \\t or \\u"),
    ("Invalid \\uXXXX escape", "\\u needs four hexadecimal digits"),
    ("Invalid \\escape", "no escape that JSON knows; a backslash itself is \\\\"),
    ("Illegal trailing comma", "a comma before the closing bracket"),
    ("Unexpected UTF-8 BOM", "a byte order mark; save the file as UTF-8 without one"),
)


def describe_flaw(error: json.JSONDecodeError, *, line: int | None = None) -> str:
    """Returns where a text stops being JSON, and why.

    Args:
        error: Of ``json.loads``.
        line: Where the text stands in its file, when it is one line of it.
    """
    problem = next((told for said, told in _WORDS if error.msg.startswith(said)), error.msg)
    if error.pos >= len(error.doc) and not problem.startswith("the text"):
        problem = "it ends too early" if error.doc.strip() else "it is empty"
    return f"line {line or error.lineno}, column {error.colno}: {problem}"


def find_flaw(text: str | bytes, *, line: int | None = None) -> str | None:
    """Returns the same for a text that somebody else has refused; None if nothing is found.

    Args:
        text: The text; bytes are UTF-8.
        line: As for ``describe_flaw``.
    """
    try:
        read = text.decode() if isinstance(text, bytes) else text
        json.loads(read, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return f"it is not UTF-8: byte {error.start}"
    except json.JSONDecodeError as error:
        return describe_flaw(error, line=line)
    except RecursionError:
        return "it is nested too deep"
    except _Constant as constant:
        at = read.find(str(constant))
        found = json.JSONDecodeError(f"{constant} is no JSON value", read, at)
        return describe_flaw(found, line=line)
    return None


class _Constant(Exception):
    """NaN and the infinities, which Python reads and JSON does not know."""


def _no_constant(name: str) -> Any:
    raise _Constant(name)
