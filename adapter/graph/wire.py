"""The protobuf wire format, as far as syntax trees need it.

Described at protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = int | bytes


def read_fields(data: bytes) -> Iterator[tuple[int, Value, bytes]]:
    """Yields (field number, value, the field as it was written).

    A value is an int for varints, and bytes for everything else (fixed-width ones are not decoded).

    Raises:
        ValueError: The bytes are not a message.
    """
    at = 0
    while at < len(data):
        begin = at
        value: Value
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            value, at = _read_varint(data, at)
        else:
            if tag & 7 == 1:
                length = 8
            elif tag & 7 == 2:
                length, at = _read_varint(data, at)
            else:
                raise ValueError(f"unexpected wire type {tag & 7}")
            value = data[at : at + length]
            at += length
        yield tag >> 3, value, data[begin:at]


def write_field(number: int, value: Value) -> bytes:
    """One field: an int as varint, bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def as_bytes(value: Value) -> bytes:
    """The value of a field that the message type says is text, bytes or a message.

    Raises:
        ValueError: It is a varint instead.
    """
    if isinstance(value, int):
        raise ValueError("a message was expected")
    return value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("the message is cut off")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
