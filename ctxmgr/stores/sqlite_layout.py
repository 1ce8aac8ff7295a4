"""How a document becomes bytes and comes back. Pure.

    plain    {"xt/id":…}       JSON, as it is
             ␠{"xt/id":…}      the same after a space: an integer beyond 64 bits is in it, which
                               orjson would read as a float
    whole    1 flags count (name cell)…          every field a cell
    delta    2 flags base count (place cell)…    the cells that differ from those of ``base``

    cell     J length JSON      the value itself
             H 32 bytes         a SHA-256 in hex
             T piece            JSON that is kept once, by the hash of its bytes
             L list length      so many items of a list that only grows
             W count name…      a short list of texts that are kept once

Numbers are in 7-bit groups, lowest first. A delta is never based on a delta.
"""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from ctxmgr.errors import Incorrect

FORMAT: Final = 1
"""Of the bodies that this version writes, and the newest it reads."""

PLAIN, WHOLE, DELTA = 0x7B, 1, 2
SPACE: Final = 0x20
EXACT: Final = 1
"""A flag: integers beyond 64 bits are in it."""

_HEX_CELL: Final = re.compile(rb'"[0-9a-f]{64}"')
_HEX_CELL_LENGTH: Final = 66
_MORE: Final = 0x80
_JSON, _HASH = b"JH"
"""What most cells begin with."""
_SMALL: Final = tuple(bytes((value,)) for value in range(_MORE))
_NAMES_MAX: Final = 4_096
"""Field names whose bytes are remembered; documents repeat a few dozen."""


class Packed(NamedTuple):
    """A body that is not plain."""

    exact: bool
    base: int | None
    """The write whose cells these replace; None: these are all."""
    cells: list[tuple[str | int, bytes]]
    """By field name, or in a delta by the field's place in the base."""


def dumps(value: object) -> bytes:
    """Encode; what comes back from ``loads`` is equal, type by type."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return b" " + _exact(value)


def loads(data: bytes) -> Any:
    """Decode what ``dumps`` made."""
    return json.loads(data) if data[0] == SPACE else orjson.loads(data)


def join_fields(fields: Iterable[tuple[str, bytes]], *, exact: bool) -> bytes:
    """A plain body from the JSON of its fields."""
    inner = b",".join([_key(name) + raw for name, raw in fields])
    return (b" {" if exact else b"{") + inner + b"}"


def encode_whole(cells: Sequence[tuple[str, bytes]], *, exact: bool) -> bytes:
    parts = [bytes((WHOLE, EXACT if exact else 0)), number(len(cells))]
    for name, cell in cells:
        parts += (_encoded_name(name), cell)
    return b"".join(parts)


def encode_delta(base: int, cells: Sequence[tuple[int, bytes]], *, exact: bool) -> bytes:
    parts = [bytes((DELTA, EXACT if exact else 0)), number(base), number(len(cells))]
    for place, cell in cells:
        parts += (number(place), cell)
    return b"".join(parts)


def decode_packed(body: bytes) -> Packed:
    """Take a body apart; an ``IndexError`` or ``ValueError`` means that it is damaged."""
    base, at = None, 2
    if body[0] == DELTA:
        base, at = read_number(body, at)
    count, at = read_number(body, at)
    cells: list[tuple[str | int, bytes]] = []
    for _ in range(count):
        place, at = (body[at], at + 1) if body[at] < _MORE else read_number(body, at)
        key: str | int = place
        if base is None:
            key, at = body[at : at + place].decode(), at + place
        end = _cell_end(body, at)
        cells.append((key, body[at:end]))
        at = end
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes too many")
    return Packed(bool(body[1] & EXACT), base, cells)


def inline_cell(raw: bytes) -> bytes:
    """A cell that holds the value itself."""
    if len(raw) == _HEX_CELL_LENGTH and _HEX_CELL.fullmatch(raw):
        return b"H" + bytes.fromhex(raw[1:-1].decode())
    return b"J" + number(len(raw)) + raw


def numbers_cell(tag: bytes, numbers: Iterable[int]) -> bytes:
    """A cell that refers to what is kept elsewhere."""
    return tag + b"".join(map(number, numbers))


def cell_numbers(cell: bytes) -> list[int]:
    """The numbers of a cell that refers."""
    found, at = [], 1
    while at < len(cell):
        value, at = read_number(cell, at)
        found.append(value)
    return found


def number(value: int) -> bytes:
    """A number from 0, in 7-bit groups."""
    if value < _MORE:
        return _SMALL[value]
    groups = bytearray()
    while value >= _MORE:
        groups.append(value & 0x7F | _MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """The number there, and where the next thing begins."""
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
    return number(len(encoded)) + encoded


def _cell_end(body: bytes, at: int) -> int:
    tag = body[at]
    if tag == _HASH:
        return at + 33
    if tag == _JSON:
        length, start = read_number(body, at + 1)
        return start + length
    match bytes((tag,)):
        case b"T":
            return read_number(body, at + 1)[1]
        case b"L":
            return read_number(body, read_number(body, at + 1)[1])[1]
        case b"W":
            count, end = read_number(body, at + 1)
            for _ in range(count):
                _, end = read_number(body, end)
            return end
        case other:
            raise ValueError(f"no cell begins with {other!r}")


def _exact(value: object) -> bytes:
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except ValueError as error:
        raise Incorrect(f"a value cannot be stored: {error}") from error
