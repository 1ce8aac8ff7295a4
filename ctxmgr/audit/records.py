r"""Audit records: their fields, their hashes, and the line that stores each one. Pure.

A record is one line of JSON. Its members have a fixed order, and the last one is the hash of all
bytes before it, so that a line is verified by hashing the bytes that are stored:

    {"format":1,"number":7,…,"prev_full_hash":"…","checks":"…","full_hash":"…"}\n
    └────────────────── SHA-256 of these bytes ──────────────┘

    record_hash   SHA-256 of ``{prev_record_hash}:{session_id}:{tick}:{raw_content}``
    full_hash     SHA-256 of the line up to here: every field, and the previous full_hash
    checks        CRC-32 of seven values: tells which of them was altered, and proves nothing

``full_hash`` covers ``raw_content`` twice, and ``record_hash`` is the formula of the requirements.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple, Self
from zlib import crc32

import orjson

from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import Incorrect

FORMAT: Final = 1
GENESIS: Final = "genesis"
"""The previous hash of the first record."""

FIELDS: Final = (
    *("format", "number", "id", "timestamp", "be_id", "session_id", "tick", "sequence"),
    *("event_type", "source", "lens_activations", "steering_applied", "raw_content"),
    *("prev_record_hash", "record_hash", "prev_full_hash", "checks", "full_hash"),
)
"""The members of a line, in their order."""

CHECKED: Final = (
    *("timestamp", "be_id", "event_type", "source", "lens_activations", "steering_applied"),
    "raw_content",
)
"""The fields that ``checks`` covers: those that cannot be derived from other fields."""

CHECK_DIGITS: Final = 8
SEAL_MARK: Final = b',"full_hash":"'
SEAL_BYTES: Final = len(SEAL_MARK) + 64 + len(b'"}')
"""Bytes of the last member of a line, with the closing brace and without the newline."""

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one line. The largest content is a turn, which a store bounds far below this."""

NAME_BYTES_MAX: Final = 1_024
"""Bytes of a session id or of ``be_id``."""

LENSES_MAX: Final = 100_000
"""Scores in one record: about as many as the largest concept packs have concepts."""

INTEGER_MAX: Final = 2**53
"""The largest integer that JSON readers in every language read exactly."""


class Link(NamedTuple):
    """A place in the chain: what the next record refers to."""

    number: int
    record_hash: str
    full_hash: str


START: Final = Link(0, GENESIS, GENESIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What is to be recorded. The log adds the number, the id and the hashes."""

    session_id: str
    tick: int | None
    """None: the number of the record."""
    event_type: EventType
    raw_content: str = field(repr=False)
    timestamp: int
    """UTC milliseconds."""
    lens_activations: Mapping[str, float] = field(default_factory=dict)
    """The scores of all lenses, hidden ones included."""
    steering_applied: Sequence[Mapping[str, Any]] = ()
    source: EventOrigin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A record as it is stored."""

    number: int
    """Its position in the log; the first is 1."""
    id: str
    """``audit-{session_id}-{tick}-{sequence}``"""
    timestamp: int
    be_id: str
    session_id: str
    tick: int
    sequence: int
    """Its position among the records of the same session and tick."""
    event_type: str
    source: EventOrigin | None
    lens_activations: Mapping[str, float]
    steering_applied: Sequence[Mapping[str, Any]]
    raw_content: str = field(repr=False)
    prev_record_hash: str
    record_hash: str
    prev_full_hash: str
    full_hash: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read the values of a line that was verified."""
        source = values["source"]
        kept = {name: values[name] for name in FIELDS if name not in {"format", "checks", "source"}}
        return cls(**kept, source=None if source is None else EventOrigin(*source))


def record_id(session_id: str, tick: int, sequence: int) -> str:
    return f"audit-{session_id}-{tick}-{sequence}"


def record_hash(prev: str, session_id: str, tick: int, raw_content: str) -> str:
    """Hash a record as the requirements say."""
    return sha256(f"{prev}:{session_id}:{tick}:{raw_content}".encode()).hexdigest()


class PreparedEntry:
    """An entry that was checked and encoded, apart from its place in the chain."""

    __slots__ = (
        *("_be_id", "_checks", "_middle", "_session", "_session_json"),
        *("entry", "size"),
    )

    size: int
    """About how many bytes its line has."""

    def __init__(self, entry: AuditEntry, *, be_id: str) -> None:
        """``Incorrect`` if a value cannot be stored."""
        self.entry = entry
        _check(entry)
        self._session, self._session_json = _name("session_id", entry.session_id)
        _, self._be_id = _name("be_id", be_id)
        content_json = _text("raw_content", entry.raw_content)
        event_type = _EVENT_TYPES[entry.event_type]
        source = b"null" if entry.source is None else _json("source", list(entry.source))
        scores = _scores(entry.lens_activations) if entry.lens_activations else b"{}"
        steering = b"[]"
        if entry.steering_applied:
            steering = _json("steering_applied", [dict(each) for each in entry.steering_applied])
        self._checks = _CHECKS % (
            crc32(b"%d" % entry.timestamp),
            crc32(self._be_id),
            crc32(event_type),
            crc32(source),
            crc32(scores),
            crc32(steering),
            crc32(content_json),
        )
        self._middle = _MIDDLE % (event_type, source, scores, steering, content_json)
        self.size = len(self._middle) + 2 * len(self._session_json) + 600
        if self.size > RECORD_BYTES_MAX:
            raise Incorrect(
                f"a record of {self.size:,} bytes is too large; the limit is {RECORD_BYTES_MAX:,}"
            )

    def line(self, previous: Link, *, sequence: int) -> tuple[bytes, Link]:
        """Return the line that follows ``previous``, and its place in the chain."""
        entry, number = self.entry, previous.number + 1
        tick = number if entry.tick is None else entry.tick
        prev = previous.record_hash.encode()
        # The content is encoded again: keeping it for a whole batch costs more.
        content = b"%b:%b:%d:%b" % (prev, self._session, tick, entry.raw_content.encode())
        hashed = sha256(content).hexdigest()
        body = _LINE % (
            number,
            self._session_json[1:-1],
            tick,
            sequence,
            entry.timestamp,
            self._be_id,
            self._session_json,
            tick,
            sequence,
            self._middle,
            prev,
            hashed.encode(),
            previous.full_hash.encode(),
            self._checks,
        )
        full = sha256(body).hexdigest()
        return b'%b%b%b"}\n' % (body, SEAL_MARK, full.encode()), Link(number, hashed, full)


_LINE: Final = (
    b'{"format":1,"number":%d,"id":"audit-%b-%d-%d","timestamp":%d,"be_id":%b,"session_id":%b,'
    b'"tick":%d,"sequence":%d%b,"prev_record_hash":"%b","record_hash":"%b","prev_full_hash":"%b",'
    b'"checks":"%b"'
)
_MIDDLE: Final = (
    b',"event_type":%b,"source":%b,"lens_activations":%b,"steering_applied":%b,"raw_content":%b'
)


_CHECKS: Final = b"%08x" * len(CHECKED)
_EVENT_TYPES: Final = {event_type: b'"%b"' % event_type.encode() for event_type in EventType}


def _check(entry: AuditEntry) -> None:
    for name, value in (("tick", entry.tick), ("timestamp", entry.timestamp)):
        if value is not None and not 0 <= value <= INTEGER_MAX:
            raise Incorrect(f"{name} must be 0 to 2**53, not {value}")
    if len(entry.lens_activations) > LENSES_MAX:
        raise Incorrect(
            f"{len(entry.lens_activations):,} lens scores are too many; the limit is {LENSES_MAX:,}"
        )


@lru_cache(1_024)
def _name(name: str, value: str) -> tuple[bytes, bytes]:
    as_json, encoded = _text(name, value), value.encode()
    if not value or len(encoded) > NAME_BYTES_MAX:
        raise Incorrect(f"{name} must have 1 to {NAME_BYTES_MAX:,} bytes, not {len(encoded):,}")
    return encoded, as_json


def _text(name: str, value: str) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise Incorrect(f"{name}: the text contains a lone surrogate") from None


def _scores(scores: Mapping[str, float]) -> bytes:
    encoded = _json("lens_activations", scores if type(scores) is dict else dict(scores))
    # orjson writes NaN as null, which would be read as a missing score.
    if b"null" in encoded or not _NUMBERS.issuperset(map(type, scores.values())):
        for name, score in scores.items():
            if type(score) not in _NUMBERS or not math.isfinite(score):
                raise Incorrect(
                    f"lens_activations: the score of {name!r:.80} is not a finite number: "
                    f"{score!r:.80}"
                )
    return encoded


_NUMBERS: Final = frozenset({int, float})


def _json(name: str, value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise Incorrect(f"{name}: {error}") from None
