"""Check a stored line against its place in the chain, and find the field that was altered. Pure.

    check_line    the fast check: both hashes, the number, the links to the previous record
    find_field    only for a line that fails: which field is not what was written

A hash covers the whole line and cannot tell which field changed. ``find_field`` uses what is known
besides: the previous record, values that follow from others, and the CRC-32 of the remaining ones.
Where one value can be derived, it is put into the line; if the hash is right then, that field was
the altered one.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final
from zlib import crc32

import orjson

from ctxmgr.audit.records import (
    CHECK_DIGITS,
    CHECKED,
    FIELDS,
    FORMAT,
    SEAL_BYTES,
    SEAL_MARK,
    AuditRecord,
    Link,
    record_hash,
    record_id,
)
from ctxmgr.core.events.event_type import EventType

LINE: Final = "line"
"""Named for bytes between the values: quotes, commas, field names, the newline."""

SEVERAL: Final = "several fields"
"""Named if no alteration of a single field explains the line."""

RECORD_MARK: Final = b'{"format":1,"number":'


class Altered(Exception):  # noqa: N818 (a finding, which the caller reports)
    """A line is not what was written there."""

    def __init__(self, number: int, field: str, reason: str) -> None:
        super().__init__(f"record {number}, {field}: {reason}")
        self.number = number
        """The number of the first record that is not as it was."""
        self.field = field
        self.reason = reason


def check_line(line: bytes, previous: Link) -> tuple[dict[str, Any], Link]:
    """Return the values of a line without its newline; ``Altered`` if it does not follow."""
    number = previous.number + 1
    sealed = line[-SEAL_BYTES:]
    full_hash = sha256(line[:-SEAL_BYTES]).hexdigest()
    if sealed != b'%b%b"}' % (SEAL_MARK, full_hash.encode()):
        raise Altered(number, find_field(line, previous), "its bytes do not match its full_hash")
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Altered(number, LINE, f"it is not JSON: {error}") from None
    if tuple(values) != FIELDS or values["format"] != FORMAT:
        raise Altered(number, LINE, f"it does not have the fields of format {FORMAT}")
    if values["number"] != number:
        raise Altered(number, "number", _misplaced(values["number"], number))
    for name in ("prev_record_hash", "prev_full_hash"):
        if values[name] != getattr(previous, name.removeprefix("prev_")):
            raise Altered(number, name, f"it does not continue record {previous.number}")
    session_id, tick, content = values["session_id"], values["tick"], values["raw_content"]
    hashed = record_hash(previous.record_hash, session_id, tick, content)
    if values["record_hash"] != hashed:
        raise Altered(number, "record_hash", f"its content hashes to {hashed}")
    if values["id"] != record_id(session_id, tick, values["sequence"]):
        raise Altered(number, "id", "it does not name the record's session, tick and sequence")
    return values, Link(number, hashed, full_hash)


def read_record(line: bytes) -> AuditRecord:
    """Read one line by itself; ``Altered`` if it does not match its own hashes."""
    try:
        values = orjson.loads(line)
        previous = Link(values["number"] - 1, values["prev_record_hash"], values["prev_full_hash"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Altered(0, LINE, f"it is not a record: {error}") from None
    return AuditRecord.of(check_line(line, previous)[0])


def find_field(line: bytes, previous: Link, *, next_prev: bytes | None = None) -> str:
    """Return the field of a line that was altered; ``next_prev`` is what the next line refers to.

    The line may contain newlines and lack its end.
    """
    parts = _split(line)
    if parts is None:
        return LINE
    values = dict(zip(FIELDS, parts, strict=True))
    stored = values["full_hash"][1:-1]
    computed = _body_hash(values)
    if computed == stored:  # the values are those that were written, except for a quote
        return LINE if values["full_hash"] == b'"%b"' % stored else "full_hash"
    for name, value in _derived(values, previous):
        if value != values[name] and _body_hash({**values, name: value}) == stored:
            return name
    if computed == next_prev:
        return "full_hash"
    mismatched = _mismatched(values)
    if len(mismatched) == 1:
        return mismatched[0]
    if mismatched:
        return SEVERAL
    if dict(_derived(values, previous))["record_hash"] != values["record_hash"]:
        return "raw_content"  # and its check value with it
    return "full_hash" if next_prev is None else SEVERAL


def record_extent(data: bytes, start: int, number: int) -> int:
    """Return where the record that begins at ``start`` ends, by the beginning of the next one.

    An altered byte may have become a newline, or have been one.
    """
    follows = data.find(b"%b%d," % (RECORD_MARK, number + 1), start + 1)
    if follows < 0:
        follows = data.find(b"\n" + RECORD_MARK, start) + 1 or len(data)
    return follows


def _misplaced(found: object, expected: int) -> str:
    if not isinstance(found, int):
        return f"its number is {found!r:.40}"
    if found > expected:
        missing = f"record {expected} is" if found == expected + 1 else f"{expected} to {found - 1}"
        return f"{missing} missing: record {found} follows"
    return f"record {found} stands where record {expected} should"


def _split(line: bytes) -> list[bytes] | None:
    """Return the values of a line as they are written; None if a field's name is not there."""
    values, start = [], 0
    for position, name in enumerate(FIELDS):
        mark = b'%b"%b":' % (b"," if position else b"{", name.encode())
        found = line.find(mark, start)
        if found < 0:
            return None
        if position:
            values.append(line[start:found])
        start = found + len(mark)
    values.append(line[start : start + 66])
    return values


def _body_hash(values: dict[str, bytes]) -> bytes:
    members = (b'"%b":%b' % (name.encode(), values[name]) for name in FIELDS[:-1])
    return sha256(b"{%b" % b",".join(members)).hexdigest().encode()


def _derived(values: dict[str, bytes], previous: Link) -> Iterator[tuple[str, bytes]]:
    """Yield what fields should be, as far as it follows from other fields or from the chain."""
    yield "format", b"%d" % FORMAT
    yield "number", b"%d" % (previous.number + 1)
    yield "prev_record_hash", b'"%b"' % previous.record_hash.encode()
    yield "prev_full_hash", b'"%b"' % previous.full_hash.encode()
    session, tick, sequence = (values[name] for name in ("session_id", "tick", "sequence"))
    yield "id", b'"audit-%b-%b-%b"' % (session[1:-1], tick, sequence)
    named = values["id"].removeprefix(b'"audit-').removesuffix(b'"').rsplit(b"-", 2)
    if len(named) == 3:  # noqa: PLR2004
        yield "session_id", b'"%b"' % named[0]
        yield "tick", named[1]
        yield "sequence", named[2]
    for event_type in EventType:
        yield "event_type", b'"%b"' % event_type.encode()
    yield "record_hash", b'"%b"' % _record_hash(values, previous)
    checks = b"".join(b"%08x" % crc32(values[name]) for name in CHECKED)
    yield "checks", b'"%b"' % checks


def _record_hash(values: dict[str, bytes], previous: Link) -> bytes:
    try:
        session_id = orjson.loads(values["session_id"])
        content = orjson.loads(values["raw_content"])
    except orjson.JSONDecodeError:
        return b""
    tick = values["tick"].decode("ascii", "replace")
    text = f"{previous.record_hash}:{session_id}:{tick}:{content}"
    return sha256(text.encode()).hexdigest().encode()


def _mismatched(values: dict[str, bytes]) -> list[str]:
    """Return the fields whose CRC-32 is not the stored one."""
    checks = values["checks"][1:-1]
    stored = (checks[at : at + CHECK_DIGITS] for at in range(0, len(checks), CHECK_DIGITS))
    return [
        name
        for name, check in zip(CHECKED, stored, strict=False)
        if check != b"%08x" % crc32(values[name])
    ]
