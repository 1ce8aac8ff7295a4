"""Signed checkpoints of the log: their form, and reading them. Reads files.

A checkpoint states what the log was when it was signed. It is one line of JSON, and its last member
is the signature of all bytes before it:

    {"format":1,"log_id":"…","number":3,…,"points":[…],"prev_checkpoint_hash":"…","signature":"…"}

    points                 for every segment since the previous checkpoint: its length, the SHA-256
                           of its bytes up to there, and the last record; the last point is the end
    first_segment          segments before it were removed by retention
    prev_checkpoint_hash   SHA-256 of the previous checkpoint's line
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from ctxmgr.audit.folder import CHECKPOINTS, AuditFolder, values_of
from ctxmgr.audit.keys import SigningKey, is_signed
from ctxmgr.audit.records import GENESIS, Link

CHECKPOINT_FORMAT: Final = 1
SIGNATURE_MARK: Final = b',"signature":"'

_MEMBERS: Final = (
    *("format", "log_id", "number", "time", "first_segment", "points", "prev_checkpoint_hash"),
    "signature",
)


class Point(NamedTuple):
    """What a segment was, up to a place."""

    segment: int
    to: int
    """Bytes from the beginning of the segment."""
    sha256: str
    """Of these bytes."""
    number: int
    """The last record in them."""
    record_hash: str
    full_hash: str

    @property
    def link(self) -> Link:
        return Link(self.number, self.record_hash, self.full_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed statement about the log."""

    number: int
    """The first is 1."""
    time: int
    """UTC milliseconds."""
    first_segment: int
    points: tuple[Point, ...]
    hash: str
    """SHA-256 of its line."""

    @property
    def end(self) -> Point:
        """The place up to which the log is covered."""
        return self.points[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFault:
    """The first checkpoint that is not valid."""

    number: int
    field: str
    reason: str


def sign_checkpoint(
    key: SigningKey,
    *,
    log_id: str,
    previous: Checkpoint | None,
    time: int,
    first_segment: int,
    points: Sequence[Point],
) -> bytes:
    """Return the line of a new checkpoint, with its newline."""
    values = {
        "format": CHECKPOINT_FORMAT,
        "log_id": log_id,
        "number": 1 if previous is None else previous.number + 1,
        "time": time,
        "first_segment": first_segment,
        "points": [point._asdict() for point in points],
        "prev_checkpoint_hash": GENESIS if previous is None else previous.hash,
    }
    body = orjson.dumps(values)[:-1]
    return b'%b%b%b"}\n' % (body, SIGNATURE_MARK, key.sign(body).encode())


def read_checkpoints(
    folder: AuditFolder, *, log_id: str, public_key: str
) -> tuple[list[Checkpoint], CheckpointFault | None, int]:
    """Return the valid checkpoints up to the first that is not, that one, and the bytes read.

    A last line without its newline was cut short by a crash, and is left out.
    """
    data = folder.read(CHECKPOINTS)
    whole = data.rfind(b"\n") + 1
    valid: list[Checkpoint] = []
    for line in data[:whole].split(b"\n")[:-1]:
        checkpoint = _read(line, valid[-1] if valid else None, log_id=log_id, key=public_key)
        if isinstance(checkpoint, CheckpointFault):
            return valid, checkpoint, whole
        valid.append(checkpoint)
    return valid, None, whole


def _read(
    line: bytes, previous: Checkpoint | None, *, log_id: str, key: str
) -> Checkpoint | CheckpointFault:
    number = 1 if previous is None else previous.number + 1

    def fault(field: str, reason: str) -> CheckpointFault:
        return CheckpointFault(number=number, field=field, reason=reason)

    values = values_of(line)
    if values is None or tuple(values) != _MEMBERS:
        return fault("line", "it is not a checkpoint")
    seal = b'%b%b"}' % (SIGNATURE_MARK, str(values["signature"]).encode())
    if not line.endswith(seal) or not is_signed(
        line[: -len(seal)], str(values["signature"]), public_key=key
    ):
        return fault("signature", "its signature is not that of the log's key")
    if values["number"] != number:
        return fault("number", f"checkpoint {values['number']} stands where {number} should")
    if values["log_id"] != log_id:
        return fault("log_id", f"it belongs to the log {values['log_id']!r:.80}")
    expected = GENESIS if previous is None else previous.hash
    if values["prev_checkpoint_hash"] != expected:
        return fault("prev_checkpoint_hash", f"it does not continue checkpoint {number - 1}")
    return _checkpoint(values, line)


def _checkpoint(values: dict[str, Any], line: bytes) -> Checkpoint:
    return Checkpoint(
        number=values["number"],
        time=values["time"],
        first_segment=values["first_segment"],
        points=tuple(Point(**point) for point in values["points"]),
        hash=sha256(line).hexdigest(),
    )
