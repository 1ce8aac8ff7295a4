"""Verify a log: every record, every checkpoint, the head. Reads files.

    covered by a checkpoint    the bytes are hashed at once and compared with what was signed
    after the last one         both hashes of every record are computed again
    anything that differs      is walked record by record, to name the first one and its field

A checkpoint is only signed after both hashes of every record were computed again, so bytes that
match its signature need not be taken apart. ``every_hash`` does it nevertheless.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from ctxmgr.audit.alterations import (
    LINE,
    SEVERAL,
    Altered,
    check_line,
    find_field,
    record_extent,
)
from ctxmgr.audit.checkpoints import Checkpoint, Point, read_checkpoints
from ctxmgr.audit.folder import CHECKPOINTS, HEAD, AuditFolder, Head
from ctxmgr.audit.records import START, Link
from ctxmgr.errors import ChainBroken, Incorrect, NotFound

SEGMENT_READ_MAX: Final = 64 * 1024 * 1024
"""Bytes of a segment that are read. A full segment and one more batch are far smaller."""

_PUBLIC_KEY: Final = re.compile("[0-9a-fA-F]{64}")

Progress: TypeAlias = Callable[[int, int], None]
"""Receives the bytes verified so far, and all bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFault:
    """Something that is not as it was written."""

    place: str
    """``record 7``, ``checkpoint 2`` or ``head``."""
    field: str
    reason: str
    number: int | None = None
    """The number of the record, if it is one."""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification:
    """The result of verifying a log."""

    records: int
    """Records that were verified."""
    last: int
    """The number of the last of them."""
    bytes: int
    seconds: float
    checkpoints: int
    """Valid checkpoints of the log."""
    signed: int
    """Records up to this number are covered by a checkpoint."""
    public_key: str
    faults: tuple[AuditFault, ...]
    """What was found, the first altered record first."""
    torn_bytes: int = 0
    """Bytes after the last record that a crash left; the next append removes them."""


class Place(NamedTuple):
    """A place between two records."""

    segment: int
    offset: int
    link: Link


def verify(
    folder: AuditFolder,
    *,
    start: int | None = None,
    every_hash: bool = False,
    public_key: str | None = None,
    progress: Progress = lambda _done, _all: None,
) -> AuditVerification:
    """Verify the log, or what follows checkpoint ``start``.

    ``public_key`` is the key to trust, if it was kept elsewhere; otherwise the log's own.
    """
    began = time.perf_counter()
    if public_key is not None and not _PUBLIC_KEY.fullmatch(public_key):
        raise Incorrect(f"{public_key!r:.80} is not a public key: it has 64 hexadecimal digits")
    configuration = folder.configuration()
    key = public_key or configuration.public_key
    with folder.locked():
        head, head_fault = _head(folder)
        checkpoints, wrong, _ = read_checkpoints(
            folder, log_id=configuration.log_id, public_key=key
        )
        sizes = {number: folder.segment(number).stat().st_size for number in folder.segments()}
    faults = [] if wrong is None else [_checkpoint_fault(wrong.number, wrong.field, wrong.reason)]
    if not faults and head is not None:
        faults += _missing_checkpoints(head, checkpoints)
    walk = _Walk(folder, sizes, head, checkpoints, every_hash=every_hash, progress=progress)
    begin = _begin(checkpoints, start)
    found = list(walk.run(begin))
    return AuditVerification(
        records=walk.place.link.number - begin.link.number,
        last=walk.place.link.number,
        bytes=walk.done,
        seconds=time.perf_counter() - began,
        checkpoints=len(checkpoints),
        signed=checkpoints[-1].end.number if checkpoints else 0,
        public_key=key,
        faults=(*found, *faults, *head_fault),
        torn_bytes=walk.torn,
    )


def walk_records(data: bytes, place: Place, end: int, *, last: str | None = None) -> Place:
    """Check the records of a segment from a place to a byte; ``Altered`` names the first fault.

    ``last`` is the hash that the record after the end refers to, if that is known.
    """
    segment, offset, link = place
    while offset < end:
        newline = data.find(b"\n", offset, end)
        stop = newline if newline >= 0 else end
        try:
            if newline < 0:
                raise Altered(link.number + 1, LINE, "the file ends inside it")  # noqa: TRY301
            _, link = check_line(data[offset:stop], link)
        except Altered as altered:
            if altered.field == "number" or (newline < 0 and end == len(data)):
                raise
            raise _named(data, offset, link, altered, last) from None
        offset = stop + 1
    return Place(segment, offset, link)


def _named(data: bytes, offset: int, link: Link, altered: Altered, last: str | None) -> Altered:
    """Name the field, with the help of the following record."""
    extent = record_extent(data, offset, altered.number)
    mark = b'"prev_full_hash":"'
    found = data.find(mark, extent)
    following = data[found + len(mark) : found + len(mark) + 64] if found >= 0 else None
    if following is None and last is not None:
        following = last.encode()
    record = data[offset:extent]
    field = find_field(record[:-1], link, next_prev=following)
    return Altered(altered.number, field, altered.reason)


class _Walk:
    def __init__(
        self,
        folder: AuditFolder,
        sizes: dict[int, int],
        head: Head | None,
        checkpoints: Sequence[Checkpoint],
        *,
        every_hash: bool,
        progress: Progress,
    ) -> None:
        self._folder = folder
        self._sizes = sizes
        self._head = head
        self._points = [point for checkpoint in checkpoints for point in checkpoint.points]
        self._numbers = {
            point: checkpoint.number
            for checkpoint in reversed(checkpoints)  # of two with the same point, the first counts
            for point in checkpoint.points
        }
        self._every_hash = every_hash
        self._progress = progress
        self.place = Place(1, 0, START)
        self.done = 0
        self.torn = 0

    def run(self, begin: Place) -> Iterator[AuditFault]:
        """Yield the first fault of the records, or of the head, if there is one."""
        self.place = begin
        last = max([*self._sizes, self._head.segment if self._head else 1])
        wanted = range(begin.segment, last + 1)
        total = sum(self._sizes.get(segment, 0) for segment in wanted)
        for segment in wanted:
            if segment > begin.segment:
                self.place = Place(segment, 0, self.place.link)
            try:
                self._segment(segment)
            except Altered as altered:
                yield AuditFault(
                    place=f"record {altered.number}",
                    field=altered.field,
                    reason=altered.reason,
                    number=altered.number,
                    file=self._folder.segment(segment).name,
                )
                return
            self._progress(self.done, total)
        yield from self._end()

    def _segment(self, segment: int) -> None:
        number = self.place.link.number + 1
        if segment not in self._sizes:
            raise Altered(number, "file", "the segment was removed")
        size = self._sizes[segment]
        if size > SEGMENT_READ_MAX:
            raise Altered(number, "file", f"the segment has {size:,} bytes, more than any")
        data = read_segment(self._folder, segment, size)
        if len(data) < size:
            raise Altered(number, "file", f"the segment ends at byte {len(data):,}, not {size:,}")
        self.done += size - self.place.offset
        self._points_of(segment, data)
        is_last = self._head is None or segment >= self._head.segment
        end = size
        if is_last:
            end = data.rfind(b"\n") + 1
            known = self._head.offset if self._head and segment == self._head.segment else 0
            # Behind the head a crash may have left half a line; before it nothing may be missing.
            end = max(end, min(known, size))
            self.torn = size - end
        last = self._head.full_hash if is_last and self._head else None
        self.place = walk_records(data, self.place, end, last=last)

    def _points_of(self, segment: int, data: bytes) -> None:
        """Move to the last point of the segment, by its hash or record by record."""
        state, hashed = sha256(), 0
        view = memoryview(data)
        for point in (point for point in self._points if point.segment == segment):
            state.update(view[hashed : point.to])
            hashed = max(hashed, point.to)
            if point.to <= self.place.offset and point.number <= self.place.link.number:
                continue
            same = point.to <= len(data) and state.copy().hexdigest() == point.sha256
            if same and not self._every_hash:
                self.place = Place(segment, point.to, point.link)
                continue
            before = self.place.link.number
            reached = walk_records(data, self.place, min(point.to, len(data)), last=point.full_hash)
            if reached.link != point.link:
                checkpoint = self._numbers[point]
                if reached.link.number < point.number:
                    reason = f"the segment ends; checkpoint {checkpoint} covers {point.number}"
                    raise Altered(reached.link.number + 1, "file", reason)
                reason = (
                    f"records {before + 1} to {point.number} join up, but are not those that"
                    f" checkpoint {checkpoint} signed"
                )
                raise Altered(before + 1, SEVERAL, reason)
            self.place = reached

    def _end(self) -> Iterator[AuditFault]:
        head, link = self._head, self.place.link
        if head is None:
            return
        if link.number < head.number:
            yield AuditFault(
                place=f"record {link.number + 1}",
                field="file",
                reason=f"the log ends with record {link.number}; it had {head.number}",
                number=link.number + 1,
                file=self._folder.segment(head.segment).name,
            )
        elif link.number == head.number and link != head.link:
            yield AuditFault(
                place="head",
                field="full_hash",
                reason=f"it is not that of record {head.number}",
                file=HEAD,
            )


def read_segment(folder: AuditFolder, segment: int, size: int) -> bytes:
    """Read the first bytes of a segment."""
    with folder.opened(folder.segment(segment).name, os.O_RDONLY) as descriptor:
        os.set_blocking(descriptor, True)
        return os.pread(descriptor, size, 0)


def _begin(checkpoints: Sequence[Checkpoint], start: int | None) -> Place:
    if start is not None:
        if not 1 <= start <= len(checkpoints):
            raise NotFound(f"there is no checkpoint {start}; the log has {len(checkpoints)}")
        point = checkpoints[start - 1].end
        return Place(point.segment, point.to, point.link)
    first = checkpoints[-1].first_segment if checkpoints else 1
    if first == 1:
        return Place(1, 0, START)
    return Place(first, 0, end_of_segment(checkpoints, first - 1).link)


def end_of_segment(checkpoints: Sequence[Checkpoint], segment: int) -> Point:
    """Return the signed point at the end of a segment that was left."""
    points = [
        point
        for checkpoint in checkpoints
        for point in checkpoint.points
        if point.segment == segment
    ]
    if not points:
        raise Incorrect(f"no checkpoint covers segment {segment}")
    return points[-1]


def _head(folder: AuditFolder) -> tuple[Head | None, list[AuditFault]]:
    try:
        return folder.head(), []
    except ChainBroken as error:
        return None, [AuditFault(place="head", field="line", reason=str(error), file=HEAD)]


def _missing_checkpoints(head: Head, checkpoints: Sequence[Checkpoint]) -> list[AuditFault]:
    if len(checkpoints) < head.checkpoint:
        missing = len(checkpoints) + 1
        return [_checkpoint_fault(missing, "line", f"it was removed; there were {head.checkpoint}")]
    if head.checkpoint and checkpoints[head.checkpoint - 1].hash != head.checkpoint_hash:
        return [_checkpoint_fault(head.checkpoint, "line", "it is not the one that was signed")]
    return []


def _checkpoint_fault(number: int, field: str, reason: str) -> AuditFault:
    return AuditFault(place=f"checkpoint {number}", field=field, reason=reason, file=CHECKPOINTS)
