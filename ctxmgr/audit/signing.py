"""Make checkpoints, and remove old segments behind them. Reads and writes files.

A checkpoint is signed only after both hashes of every record since the previous one were computed
again. Retention removes whole segments, and only after a checkpoint has said so under signature:
a segment that is missing for another reason is found by ``verify``.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from ctxmgr.audit.alterations import Altered
from ctxmgr.audit.checkpoints import (
    Checkpoint,
    CheckpointFault,
    Point,
    read_checkpoints,
    sign_checkpoint,
)
from ctxmgr.audit.folder import CHECKPOINTS, AuditFolder, Head, cut_to, write_all
from ctxmgr.audit.keys import SigningKey
from ctxmgr.audit.records import START
from ctxmgr.audit.verify import Place, read_segment, walk_records
from ctxmgr.errors import ChainBroken, Incorrect

RETENTION_DAYS_MIN: Final = 30
"""The shortest time for which audit records are kept."""

DAY_MS: Final = 24 * 60 * 60 * 1000

_TIMESTAMP: Final = re.compile(rb'"timestamp":(\d+),"be_id":')


def make_checkpoint(
    folder: AuditFolder, key: SigningKey, *, now: int, first_segment: int | None = None
) -> Checkpoint | None:
    """Verify what was appended since the last checkpoint, and sign it.

    Return the last checkpoint if nothing was appended since, None if the log is empty.
    ``ChainBroken`` if a record was altered: then nothing is signed.
    """
    configuration = folder.configuration()
    if key.public != configuration.public_key:
        raise Incorrect(f"the key is not that of the log: its public key is {key.public}")
    with folder.locked():
        head, previous = folder.head(), _last(folder)
    begin = previous.first_segment if previous else 1
    begin = begin if first_segment is None else first_segment
    if head.number == (previous.end.number if previous else 0) and (
        previous is None or previous.first_segment == begin
    ):
        return previous
    points = _points(folder, previous, head)
    with folder.locked():
        if _last(folder) != previous:  # another process was faster
            return _last(folder)
        line = sign_checkpoint(
            key,
            log_id=configuration.log_id,
            previous=previous,
            time=now,
            first_segment=begin,
            points=points,
        )
        _append(folder, line)
        signed = _last(folder)
        assert signed is not None
        folder.write_head(
            replace(
                folder.head(),
                checkpoint=signed.number,
                checkpoint_hash=signed.hash,
                checkpoint_record=signed.end.number,
            )
        )
    return signed


def removable_segments(folder: AuditFolder, *, keep_days: int, now: int) -> list[int]:
    """Return the oldest segments, as long as all their records are older than ``keep_days``."""
    if keep_days < RETENTION_DAYS_MIN:
        raise Incorrect(f"records are kept for at least {RETENTION_DAYS_MIN} days, not {keep_days}")
    oldest = now - keep_days * DAY_MS
    removable: list[int] = []
    head = folder.head()
    for segment in folder.segments():
        if segment >= head.segment:
            break
        data = read_segment(folder, segment, folder.segment(segment).stat().st_size)
        if max((int(time) for time in _TIMESTAMP.findall(data)), default=now) >= oldest:
            break
        removable.append(segment)
    return removable


def remove_segments(
    folder: AuditFolder, key: SigningKey, segments: Sequence[int], *, now: int
) -> Checkpoint:
    """Sign that the log begins after these segments, then remove them."""
    make_checkpoint(folder, key, now=now)  # so that all of them are covered
    signed = make_checkpoint(folder, key, now=now, first_segment=segments[-1] + 1)
    assert signed is not None
    for segment in folder.segments():
        if segment < signed.first_segment:
            folder.segment(segment).unlink()
    folder.flush_names()
    return signed


def _last(folder: AuditFolder) -> Checkpoint | None:
    configuration = folder.configuration()
    checkpoints, wrong, _ = read_checkpoints(
        folder, log_id=configuration.log_id, public_key=configuration.public_key
    )
    if wrong is not None:
        raise _broken(folder, wrong)
    head = folder.head()
    if len(checkpoints) < head.checkpoint:
        raise ChainBroken(f"checkpoint {head.checkpoint} of {folder.root} was removed")
    return checkpoints[-1] if checkpoints else None


def _broken(folder: AuditFolder, fault: CheckpointFault) -> ChainBroken:
    return ChainBroken(
        f"{folder.root / CHECKPOINTS}: checkpoint {fault.number}, {fault.field}: {fault.reason}"
    )


def _points(folder: AuditFolder, previous: Checkpoint | None, head: Head) -> list[Point]:
    """Walk from the previous checkpoint to the head; return the end of each segment."""
    end = previous.end if previous else None
    place = Place(end.segment, end.to, end.link) if end else Place(1, 0, START)
    points: list[Point] = []
    for segment in range(place.segment, head.segment + 1):
        path = folder.segment(segment)
        size = head.offset if segment == head.segment else path.stat().st_size
        data = read_segment(folder, segment, size)
        if segment > place.segment:
            place = Place(segment, 0, place.link)
        elif end and sha256(memoryview(data)[: end.to]).hexdigest() != end.sha256:
            raise ChainBroken(
                f"{path} was altered before checkpoint {previous and previous.number}"
            )
        try:
            place = walk_records(data, place, size)
        except Altered as altered:
            raise ChainBroken(
                f"{path} was altered: record {altered.number}, {altered.field}: {altered.reason}"
            ) from None
        points.append(Point(segment, size, sha256(data).hexdigest(), *place.link))
    if place.link != head.link:
        raise ChainBroken(f"{folder.root} ends with record {place.link.number}, not {head.number}")
    return points


def _append(folder: AuditFolder, line: bytes) -> None:
    with folder.opened(CHECKPOINTS, os.O_RDWR | os.O_APPEND) as descriptor:
        configuration = folder.configuration()
        *_, whole = read_checkpoints(
            folder, log_id=configuration.log_id, public_key=configuration.public_key
        )
        if os.fstat(descriptor).st_size > whole:  # a crash left half a line
            cut_to(descriptor, whole)
        write_all(descriptor, line, folder.root / CHECKPOINTS)
