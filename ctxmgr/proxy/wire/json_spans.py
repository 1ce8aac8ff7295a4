"""Find values in JSON text by their bytes, and replace some without writing the rest again. Pure.

    fields            the top-level values of an object, each as a span of bytes
    elements          the values of an array, after those whose spans are already known
    shared_elements   how many values of an array were in an earlier text
    located           one value and everything in it, with the span of each
    edited            the text with other values at some paths

Everything outside the replaced spans stays as it is, byte for byte: order of keys, white space,
escapes, numbers, and fields that nobody here knows. The text is expected to be valid; where it
matters, the caller parses it as well. ``ValueError`` if it cannot be followed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

DEPTH_MAX: Final = 128
"""Nesting that is followed: no API nests deeper, and every level is a call."""

NEWEST_TRIED: Final = 3
"""Objects at the end of a list that are likely to differ in the next one: a cache mark moves."""

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NEXT: Final = re.compile(rb"[ \t\r\n]*([,\]])[ \t\r\n]*")
_SCALAR: Final = re.compile(rb"[-+.0-9A-Za-z]+")
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)

Key: TypeAlias = str | int
Path: TypeAlias = tuple[Key, ...]


class ByteSpan(NamedTuple):
    """Where a value is."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Located:
    """A value with its span, and the values in it."""

    span: ByteSpan
    members: "Mapping[Key, Located]" = field(default_factory=dict)
    is_object: bool = False

    def at(self, path: Path) -> "Located":
        """Return the value at a path; ``KeyError`` if there is none."""
        found = self
        for key in path:
            found = found.members[key]
        return found


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of some bytes."""

    span: ByteSpan
    new: bytes


def encoded(text: str) -> bytes:
    """Return a string as JSON."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        return json.dumps(text).encode()


def fields(
    text: bytes, *, skip: Callable[[str, int], int | None] = lambda _name, _at: None
) -> dict[str, ByteSpan]:
    """Return the values of an object by their names; a repeated name is a ``ValueError``.

    ``skip`` may know where the value of a name that starts at a position ends.
    """
    at = _expect(text, 0, b"{")
    found: dict[str, ByteSpan] = {}
    while text[at : at + 1] != b"}":
        if found:
            at = _expect(text, at, b",")
        name, at = _string(text, at)
        at = _expect(text, at, b":")
        if name in found:
            raise ValueError(f"the name {name!r} occurs twice")
        end = skip(name, at)
        found[name] = ByteSpan(at, _skip(text, at) if end is None else end)
        at = _space(text, found[name].end)
    if _space(text, at + 1) != len(text):
        raise ValueError(f"something follows the value at byte {at + 1}")
    return found


def elements(
    text: bytes, start: int, *, known: Sequence[ByteSpan] = ()
) -> tuple[list[ByteSpan], int]:
    """Return the spans of an array's values, and the end of the array.

    ``known`` are the spans of objects with which the array is known to begin.
    """
    found = list(known)
    if found:
        end = found[-1].end
    else:
        at = _expect(text, start, b"[")
        if text[at : at + 1] == b"]":
            return found, at + 1
        end = _skip(text, at)
        found.append(ByteSpan(at, end))
    while True:
        follows = _NEXT.match(text, end)
        if follows is None:
            raise ValueError(f"expected ',' or ']' at byte {end}")
        if follows[1] == b"]":
            return found, follows.end(1)
        at = follows.end()
        end = _skip(text, at)
        found.append(ByteSpan(at, end))


def shared_elements(known: bytes, spans: Sequence[ByteSpan], text: bytes, at: int) -> int:
    """Return how many objects of an array another text has from a position on, byte for byte.

    An object ends where it is complete, whatever follows it, so equal bytes are equal objects.
    """
    low, high, step = 0, len(spans), 1
    while low < high:
        # Usually all but the last few are the same; if not, the middle divides the rest.
        middle = max(low + 1, high - step + 1) if step <= NEWEST_TRIED else (low + high + 1) // 2
        first = spans[low].start
        if text.startswith(known[first : spans[middle - 1].end], at + first - spans[0].start):
            low = middle
        else:
            high = middle - 1
        step += 1
    return low


def moved(spans: Sequence[ByteSpan], at: int) -> Sequence[ByteSpan]:
    """Return spans of which the first starts at a position."""
    by = at - spans[0].start if spans else 0
    return [ByteSpan(start + by, end + by) for start, end in spans] if by else spans


def first_element(text: bytes, start: int) -> int:
    """Return where the first value of an array would be."""
    return _expect(text, start, b"[")


def located(text: bytes, start: int = 0, depth: int = 0) -> Located:
    """Return the value that starts here, with the spans of all values in it."""
    if depth > DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
    start = _space(text, start)
    opening = text[start : start + 1]
    if opening not in (b"{", b"["):
        return Located(ByteSpan(start, _skip(text, start)))
    is_object = opening == b"{"
    closing = b"}" if is_object else b"]"
    members: dict[Key, Located] = {}
    at = _space(text, start + 1)
    while text[at : at + 1] != closing:
        if members:
            at = _expect(text, at, b",")
        key: Key = len(members)
        if is_object:
            key, at = _string(text, at)
            at = _expect(text, at, b":")
            if key in members:
                raise ValueError(f"the name {key!r} occurs twice")
        members[key] = located(text, at, depth + 1)
        at = _space(text, members[key].span.end)
    return Located(ByteSpan(start, at + 1), members, is_object)


def appended(container: Located, new: bytes) -> Edit:
    """Return the edit that adds a last member, ``"name":value`` in an object."""
    end = container.span.end - 1
    return Edit(ByteSpan(end, end), b"," + new if container.members else new)


def edited(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the text with all replacements, which do not overlap."""
    pieces, position = list[bytes](), 0
    for edit in sorted(edits, key=lambda edit: edit.span):
        if edit.span.start < position:
            raise ValueError("two edits overlap")
        pieces += (text[position : edit.span.start], edit.new)
        position = edit.span.end
    return b"".join([*pieces, text[position:]])


def read(text: bytes, span: ByteSpan) -> Any:
    """Return the value of a span."""
    return json.loads(text[span.start : span.end])


def _space(text: bytes, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _expect(text: bytes, at: int, byte: bytes) -> int:
    """Return the position after a byte and the white space around it."""
    at = _space(text, at)
    if text[at : at + 1] != byte:
        raise ValueError(f"expected {byte.decode()!r} at byte {at}")
    return _space(text, at + 1)


def _string(text: bytes, at: int) -> tuple[str, int]:
    match = _STRING.match(text, _space(text, at))
    if match is None:
        raise ValueError(f"expected a string at byte {at}")
    return str(json.loads(match[0])), match.end()


def _skip(text: bytes, at: int) -> int:
    """Return the end of the value that starts here."""
    opening = text[at : at + 1]
    if opening not in (b"{", b"["):
        match = (_STRING if opening == b'"' else _SCALAR).match(text, at)
        if match is None:
            raise ValueError(f"expected a value at byte {at}")
        return match.end()
    depth = 0
    for token in _TOKEN.finditer(text, at):
        byte = text[token.start()]
        if byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError(f"the value at byte {at} does not end")
