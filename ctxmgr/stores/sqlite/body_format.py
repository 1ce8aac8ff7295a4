"""The byte format of stored documents. Pure.

    plain    {"xt/id":…}       JSON
             ␠{"xt/id":…}      JSON after a space: it holds an integer beyond 64 bits, which orjson
                               would read as a float
    whole    1 flags count (name cell)…           every field as a cell
    delta    2 flags base count (position cell)…  the cells that differ from those of ``base``

    cell     J length JSON      the value itself
             H 32 bytes         a SHA-256 in hex
             T piece            JSON that is stored once, under the hash of its bytes
             L list length      the first ``length`` items of an append-only list
             W count name…      a short list of texts that are stored once

Numbers are varints: 7-bit groups, lowest first. A delta is never based on a delta.
"""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from ctxmgr.errors import Incorrect

FORMAT: Final = 1
"""The format that this version writes, and the newest it reads."""

PLAIN, WHOLE, DELTA = 0x7B, 1, 2
SPACE: Final = 0x20
EXACT: Final = 1
"""A flag: the body holds integers beyond 64 bits."""

_HEX_CELL: Final = re.compile(rb'"[0-9a-f]{64}"')
_HEX_CELL_LENGTH: Final = 66
_MORE: Final = 0x80
_JSON, _HASH = b"JH"
"""The first bytes of most cells."""
_SMALL: Final = tuple(bytes((value,)) for value in range(_MORE))
_NAMES_MAX: Final = 4_096
"""Field names whose bytes are cached; documents repeat a few dozen."""


class Packed(NamedTuple):
    """A body that is not plain."""

    exact: bool
    base: int | None
    """The write whose cells these replace; None: the body is whole."""
    cells: list[tuple[str | int, bytes]]
    """By field name, or in a delta by the field's position in the base."""


def dumps(value: object) -> bytes:
    """Encode a value; ``loads`` returns an equal one, with the same types."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, which only the standard library writes
        return b" " + _dumps_exact(value)


def _dumps_exact(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError) as error:
        raise Incorrect(f"a value cannot be stored: {error}") from error


def loads(data: bytes) -> Any:
    """Decode what ``dumps`` returned."""
    return json.loads(data) if data[0] == SPACE else orjson.loads(data)


def join_fields(fields: Iterable[tuple[str, bytes]], *, exact: bool) -> bytes:
    """Return a plain body from the JSON of its fields."""
    inner = b",".join([_key(name) + raw for name, raw in fields])
    return (b" {" if exact else b"{") + inner + b"}"


def encode_whole(cells: Sequence[tuple[str, bytes]], *, exact: bool) -> bytes:
    """Return a body that holds every field."""
    parts = [bytes((WHOLE, EXACT if exact else 0)), varint(len(cells))]
    for name, cell in cells:
        parts += (_encoded_name(name), cell)
    return b"".join(parts)


def encode_delta(base: int, cells: Sequence[tuple[int, bytes]], *, exact: bool) -> bytes:
    """Return a body that holds the fields that differ from ``base``, by position."""
    parts = [bytes((DELTA, EXACT if exact else 0)), varint(base), varint(len(cells))]
    for position, cell in cells:
        parts += (varint(position), cell)
    return b"".join(parts)


def decode_packed(body: bytes) -> Packed:
    """Split a body into cells; an ``IndexError`` or ``ValueError`` means that it is damaged."""
    base, at = None, 2
    if body[0] == DELTA:
        base, at = read_varint(body, at)
    count, at = read_varint(body, at)
    cells: list[tuple[str | int, bytes]] = []
    for _ in range(count):
        # The length of a name, or a position in the base. One byte is the usual case.
        number, at = (body[at], at + 1) if body[at] < _MORE else read_varint(body, at)
        key: str | int = number
        if base is None:
            key, at = body[at : at + number].decode(), at + number
        end = _cell_end(body, at)
        cells.append((key, body[at:end]))
        at = end
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes too many")
    return Packed(bool(body[1] & EXACT), base, cells)


def inline_cell(raw: bytes) -> bytes:
    """Return a cell that holds the value itself."""
    if len(raw) == _HEX_CELL_LENGTH and _HEX_CELL.fullmatch(raw):
        return b"H" + bytes.fromhex(raw[1:-1].decode())
    return b"J" + varint(len(raw)) + raw


def inline_json(cell: bytes) -> bytes:
    """Return the JSON of a cell that holds the value itself."""
    return cell[2:] if cell[1] < _MORE else cell[read_varint(cell, 1)[1] :]


def reference_cell(tag: bytes, numbers: Iterable[int]) -> bytes:
    """Return a cell that refers to values stored separately."""
    return tag + b"".join(map(varint, numbers))


def cell_numbers(cell: bytes) -> list[int]:
    """Return the numbers of a reference cell."""
    numbers, at = [], 1
    while at < len(cell):
        number, at = read_varint(cell, at)
        numbers.append(number)
    return numbers


def varint(value: int) -> bytes:
    """Encode a non-negative number in 7-bit groups."""
    if value < _MORE:
        return _SMALL[value]
    groups = bytearray()
    while value >= _MORE:
        groups.append(value & 0x7F | _MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at that offset, and the offset behind it."""
    value = shift = 0
    while True:
        group = data[at]
        at += 1
        value |= (group & 0x7F) << shift
        if group < _MORE:
            return value, at
        shift += 7


@lru_cache(_NAMES_MAX)
def _key(name: str) -> bytes:
    return orjson.dumps(name) + b":"


@lru_cache(_NAMES_MAX)
def _encoded_name(name: str) -> bytes:
    encoded = name.encode()
    return varint(len(encoded)) + encoded


def _cell_end(body: bytes, at: int) -> int:
    tag = body[at]
    if tag == _HASH:
        return at + 33
    if tag == _JSON:
        if body[at + 1] < _MORE:  # the usual case
            return at + 2 + body[at + 1]
        length, start = read_varint(body, at + 1)
        return start + length
    match bytes((tag,)):
        case b"T":
            return read_varint(body, at + 1)[1]
        case b"L":
            return read_varint(body, read_varint(body, at + 1)[1])[1]
        case b"W":
            count, end = read_varint(body, at + 1)
            for _ in range(count):
                _, end = read_varint(body, end)
            return end
        case other:
            raise ValueError(f"unknown cell tag {other!r}")
