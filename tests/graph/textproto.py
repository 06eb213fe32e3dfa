"""A small reader of protobuf's text format: enough for the conformance cases of CEL.

A message is a list of (field name, value); a value is a message, text as bytes, or a bare word.
Format: protobuf.dev/reference/protobuf/textformat-spec.
"""

from __future__ import annotations

import re

Value = "Message | bytes | str"
Message = list[tuple[str, "Message | bytes | str"]]

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<name>\[[\w./-]+\])
    |(?P<word>[-+\w.]+)
    |(?P<sign>[{}<>:;,\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<four>[0-9a-fA-F]{4})"
    r"|U(?P<eight>[0-9a-fA-F]{8})|(?P<plain>.))",
    re.DOTALL,
)
_PLAIN = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


def parse(source: str) -> Message:
    tokens = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        assert match, f"unexpected text at {at}: {source[at : at + 40]!r}"
        if match.lastgroup:
            tokens.append((match.lastgroup, match[0]))
        at = match.end()
    message, rest = _message(tokens, 0)
    assert rest == len(tokens)
    return message


def _message(tokens: list[tuple[str, str]], at: int) -> tuple[Message, int]:
    fields: Message = []
    while at < len(tokens) and tokens[at][1] not in ("}", ">"):
        kind, name = tokens[at]
        at += 1
        if name in (",", ";"):
            continue
        assert kind in ("word", "name"), (kind, name)
        if tokens[at][1] == ":":
            at += 1
        kind, text = tokens[at]
        if text in ("{", "<"):
            inner, at = _message(tokens, at + 1)
            fields.append((name, inner))
            at += 1
        elif kind == "text":
            joined = b""
            while at < len(tokens) and tokens[at][0] == "text":
                joined += _unquote(tokens[at][1])
                at += 1
            fields.append((name, joined))
        else:
            fields.append((name, text))
            at += 1
    return fields, at


def _unquote(quoted: str) -> bytes:
    out = b""
    at = 1
    body = quoted[:-1]
    while at < len(body):
        if body[at] != "\\":
            out += body[at].encode()
            at += 1
            continue
        match = _ESCAPE.match(body, at)
        assert match
        if match["octal"]:
            out += bytes([int(match["octal"], 8)])
        elif match["hex"]:
            out += bytes([int(match["hex"], 16)])
        elif match["four"] or match["eight"]:
            out += chr(int(match["four"] or match["eight"], 16)).encode()
        else:
            plain = match["plain"]
            out += bytes([_PLAIN[plain]]) if plain in _PLAIN else plain.encode()
        at = match.end()
    return out
