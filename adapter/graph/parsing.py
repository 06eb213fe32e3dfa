"""From what was sent to a JSON object; everything that JSON itself forbids is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from adapter.errors import InvalidValue
from adapter.graph.canonical import MAX_DEPTH, TOO_DEEP, canonical, canonical_bytes, problems
from adapter.graph.findings import Finding, find
from adapter.graph.flaws import describe_flaw
from adapter.graph.kinds import kind_of

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_MOST_PROBLEMS = 100
_LONGEST_INTEGER = 20


class _Object(dict[str, Any]):
    """A parsed object that remembers which keys came twice."""

    twice: tuple[str, ...] = ()


def parse(sent: Mapping[str, Any] | str | bytes, most: int) -> tuple[Any, list[Finding]]:
    """The document as plain JSON, and what is wrong with it up to here.

    Parts that cannot be kept are replaced by null, so that the rest can still be looked at.

    Args:
        sent: The document, or its JSON text (bytes are UTF-8).
        most: How many bytes the document may have.

    Returns:
        A dict, or None when nothing can be said about the rest; and the findings.
    """
    if isinstance(sent, str | bytes):
        if len(sent) > 4 * most:  # a text may be indented; four times is generous
            return None, [_too_large(len(sent), most)]
        value, findings = _decode(sent)
        if findings:
            return None, findings
    else:
        value = _as_object(sent)
    if not isinstance(value, dict):
        return None, [find("not_an_object", (), f"the document is {kind_of(value)}")]
    return _check(value, most)


def _as_object(sent: Any) -> Any:
    """A caller's mapping as a dict; anything else as it is, to be refused."""
    return dict(sent) if isinstance(sent, Mapping) else sent


def _check(value: dict[Any, Any], most: int) -> tuple[Any, list[Finding]]:
    findings = []
    bad = list(islice(problems(value), _MOST_PROBLEMS))
    for path, problem in bad:
        code = "too_deep" if problem == TOO_DEEP else "invalid_value"
        findings.append(find(code, path, problem))
    if any(finding.code == "too_deep" for finding in findings):
        return None, findings
    cleaned = _clean(value, (), findings)
    size = len(canonical_bytes(cleaned))
    if size > most:
        findings.append(_too_large(size, most))
    return cleaned, findings


def _decode(text: str | bytes) -> tuple[Any, list[Finding]]:
    try:
        text = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        return None, [find("invalid_json", (), f"it is not UTF-8: byte {error.start}")]
    if _depth(text) > MAX_DEPTH:
        return None, [find("too_deep", (), TOO_DEEP)]
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer), []
    except json.JSONDecodeError as error:
        return None, [find("invalid_json", (), f"it is not JSON: {describe_flaw(error)}")]


def _depth(text: str) -> int:
    """How deep brackets nest; what is no bracket outside of a text is not looked at."""
    deepest = depth = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in "]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    result = _Object(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        result.twice = tuple(key for key in result if keys.count(key) > 1)
    return result


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else 10**_LONGEST_INTEGER


def _clean(value: Any, path: tuple[str | int, ...], findings: list[Finding]) -> Any:
    """A copy in canonical types without what cannot be kept; collects keys that came twice."""
    if isinstance(value, dict):
        for key in getattr(value, "twice", ()):
            findings.append(find("duplicate_key", (*path, key), f"the key {key!r} comes twice"))
        return {
            str.__str__(key): _clean(item, (*path, key), findings)
            for key, item in value.items()
            if isinstance(key, str) and not list(problems(key))
        }
    if isinstance(value, list | tuple):
        return [_clean(item, (*path, index), findings) for index, item in enumerate(value)]
    try:
        return canonical(value)
    except InvalidValue:
        return None


def _too_large(size: int, most: int) -> Finding:
    return find("document_too_large", (), f"the document has {size:,} bytes; {most:,} are allowed")
