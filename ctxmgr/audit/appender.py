"""Append records to the log's last segment. Writes files; one at a time, under the log's lock.

    lock ─► read what others appended ─► write the lines ─► flush ─► move the head ─► unlock

A record counts when its line is on disk. After a crash the head may be behind: complete lines after
it are taken as they are, and an incomplete one, which was never acknowledged, is removed and
recorded. If anything fails, nothing is remembered: the next append reads the files again.
"""

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from ctxmgr.audit.alterations import Altered, check_line, read_record
from ctxmgr.audit.folder import (
    HEAD,
    AuditFolder,
    Head,
    cut_to,
    values_of,
    write_all,
)
from ctxmgr.audit.positions import Positions
from ctxmgr.audit.records import AuditEntry, Link, PreparedEntry, record_id
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import ChainBroken, CtxmgrError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

SEGMENT_BYTES: Final = 16 * 1024 * 1024
"""A segment of this size is full. Opening a log reads at most one, in about 0.1 s."""

SEGMENT_BEGUN: Final = "began a segment"
"""The action of the first record of every segment but the first."""

SYSTEM_SESSION: Final = "audit"
"""The session of records that the log makes about itself."""

_log = logging.getLogger(__name__)


class Appended(NamedTuple):
    """A record that is on disk."""

    record_id: str
    link: Link


def system_entry(action: str, **details: object) -> AuditEntry:
    """Return an entry about the log itself."""
    return AuditEntry(
        session_id=SYSTEM_SESSION,
        tick=None,
        event_type=EventType.SYSTEM,
        raw_content=orjson.dumps({"action": action, **details}).decode(),
        timestamp=time.time_ns() // 1_000_000,
    )


class Appender:
    """Appends to one log. Not thread-safe; several processes may each have one."""

    def __init__(
        self, folder: AuditFolder, *, be_id: str, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._folder = folder
        self._be_id = be_id
        self._segment_bytes = segment_bytes
        self._descriptors: dict[str, int] = {}
        self._head: Head | None = None
        """The end of the log as this process knows it; None: to be read."""
        self._positions = Positions()
        self._stale = False
        """Whether the head on disk is behind."""

    @property
    def head(self) -> Head:
        """The end of the log after the last append or refresh."""
        return self._head or Head()

    def append(self, entries: Sequence[PreparedEntry]) -> list[Appended | None]:
        """Write the entries and flush them; None for one whose event was recorded before.

        ``Unavailable``: nothing was written. ``ChainBroken``: the log was altered.
        """
        with self._locked():
            repairs = self._catch_up()
            appended = self._append([*repairs, *entries])
        return appended[len(repairs) :]

    def last_event(self, store: str) -> tuple[EventOrigin, int] | None:
        """Return the last recorded event of a store, and when it happened."""
        with self._locked():
            repairs = self._catch_up()
            self._append(repairs)
        last, timestamp = self._positions.last_event(store), self._positions.last_time(store)
        return None if last is None or timestamp is None else (last, timestamp)

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _append(self, entries: Sequence[PreparedEntry]) -> list[Appended | None]:
        assert self._head is not None
        if self._head.offset >= self._segment_bytes and entries:
            return self._append([self._begin_segment(), *entries])[1:]
        head, positions = self._head, self._positions
        link, lines, results = head.link, [], list[Appended | None]()
        for prepared in entries:
            entry, number = prepared.entry, link.number + 1
            if entry.source is not None and positions.has(entry.source):
                results.append(None)
                continue
            tick = number if entry.tick is None else entry.tick
            sequence = positions.sequence(entry.session_id, tick, number=number)
            line, link = prepared.line(link, sequence=sequence)
            positions.note(
                entry.session_id, tick, sequence, entry.source, timestamp=entry.timestamp
            )
            lines.append(line)
            results.append(Appended(record_id(entry.session_id, tick, sequence), link))
        if lines:
            self._write(b"".join(lines), link)
        return results

    def _write(self, data: bytes, link: Link) -> None:
        head = self._head
        assert head is not None
        path = self._folder.segment(head.segment)
        descriptor = self._descriptor(path.name, os.O_RDWR | os.O_APPEND)
        try:
            write_all(descriptor, data, path)
        except CtxmgrError:
            with suppress(OSError):  # otherwise the next append removes it
                cut_to(descriptor, head.offset)
            raise
        self._move_head(
            replace(
                head,
                offset=head.offset + len(data),
                number=link.number,
                record_hash=link.record_hash,
                full_hash=link.full_hash,
            )
        )

    def _move_head(self, head: Head) -> None:
        try:
            self._folder.write_head(head)
        except CtxmgrError as error:  # the records are on disk, and are found without it
            _log.warning("the head of the audit log was not moved: %s", error)
            self._stale = True
        self._head = head

    def _begin_segment(self) -> PreparedEntry:
        """Begin a segment; return its first record, which holds the positions."""
        head = self._head
        assert head is not None
        number = head.segment + 1
        os.close(self._folder.create_file(self._folder.segment(number).name))
        self._folder.flush_names()
        self._forget_segment(head.segment)
        self._head = replace(head, segment=number, offset=0)
        entry = system_entry(SEGMENT_BEGUN, segment=number, positions=self._positions.to_value())
        return PreparedEntry(entry, be_id=self._be_id)

    @contextmanager
    def _locked(self) -> "Iterator[None]":
        with self._folder.locked():
            try:
                yield
            except BaseException:
                self._head = None
                raise

    # What others wrote, and what a crash left.

    def _catch_up(self) -> list[PreparedEntry]:
        """Read what was appended since; return records about what had to be repaired."""
        head = self._folder.head()
        if self._head is None or self._stale:
            self._load(head)
            self._stale = False
        known = self._head
        assert known is not None
        if head.number < known.number:
            raise ChainBroken(
                f"{self._folder.root / HEAD} was set back from record {known.number} to"
                f" {head.number}"
            )
        if head.number > known.number:
            self._read_forward(known, head)
        self._head = head
        return self._absorb_tail()

    def _load(self, head: Head) -> None:
        """Start from the positions at the beginning of the last segment that has them."""
        first = min(self._folder.segments(), default=1)
        for segment in range(head.segment, first - 1, -1):
            positions = self._positions_at(segment)
            if positions is not None:
                self._positions, number = positions
                self._head = Head(segment=segment, number=number)
                return
        self._positions, self._head = Positions(), Head(segment=first)

    def _positions_at(self, segment: int) -> tuple[Positions, int] | None:
        """Return the positions in the first record of a segment, and the record before it."""
        line, newline, _ = self._read(segment, 0, None).partition(b"\n")
        if not newline:
            return None
        try:
            record = read_record(line)
            value = orjson.loads(record.raw_content)
            if record.session_id != SYSTEM_SESSION or value["action"] != SEGMENT_BEGUN:
                return None
            return Positions.of(value["positions"]), record.number - 1
        except (Altered, KeyError, TypeError, ValueError):
            return None

    def _read_forward(self, known: Head, head: Head) -> None:
        number = known.number
        for segment in range(known.segment, head.segment + 1):
            start = known.offset if segment == known.segment else 0
            data = self._read(segment, start, None if segment < head.segment else head.offset)
            for line in data.splitlines():
                values = values_of(line)
                try:
                    self._positions.note_values(values or {})
                    number = values["number"] if values else number
                except (KeyError, TypeError, ValueError):
                    raise self._broken(segment, "a line is not a record") from None
            if segment < head.segment:
                self._forget_segment(segment)
        if number != head.number:
            raise self._broken(head.segment, f"it ends with record {number}, not {head.number}")

    def _absorb_tail(self) -> list[PreparedEntry]:
        """Take complete lines after the head; remove an incomplete one."""
        repairs: list[PreparedEntry] = []
        while True:
            head = self._head
            assert head is not None
            size = self._size(head.segment)
            if size < head.offset:
                raise self._broken(
                    head.segment, f"it has {size:,} bytes, its records take {head.offset:,}"
                )
            if size > head.offset:
                repairs += self._take_lines(head, size)
            following = self._folder.segment(head.segment + 1)
            if not following.exists():
                return repairs
            assert self._head is not None
            self._forget_segment(head.segment)
            self._head = replace(self._head, segment=head.segment + 1, offset=0)

    def _take_lines(self, head: Head, size: int) -> list[PreparedEntry]:
        data = self._read(head.segment, head.offset, size)
        link, start = head.link, 0
        while (end := data.find(b"\n", start)) >= 0:
            try:
                values, link = check_line(data[start:end], link)
            except Altered:
                break
            self._positions.note_values(values)
            start = end + 1
        offset = head.offset + start
        self._head = replace(
            head,
            offset=offset,
            number=link.number,
            record_hash=link.record_hash,
            full_hash=link.full_hash,
        )
        self._move_head(self._head)
        rest = data[start:]
        if not rest:
            return []
        kept = f"torn-{head.segment:08}-{offset}.part"
        self._folder.replace(kept, rest)
        cut_to(
            self._descriptor(self._folder.segment(head.segment).name, os.O_RDWR | os.O_APPEND),
            offset,
        )
        _log.warning("the audit log ended in an incomplete record, which was removed")
        entry = system_entry(
            "removed an incomplete record",
            segment=head.segment,
            offset=offset,
            bytes=len(rest),
            sha256=hashlib.sha256(rest).hexdigest(),
            kept_in=kept,
        )
        return [PreparedEntry(entry, be_id=self._be_id)]

    def _read(self, segment: int, start: int, end: int | None) -> bytes:
        name = self._folder.segment(segment).name
        descriptor = self._descriptor(name, os.O_RDWR | os.O_APPEND)
        size = os.fstat(descriptor).st_size if end is None else end
        data = os.pread(descriptor, size - start, start)
        if len(data) < size - start:
            raise self._broken(segment, f"it ends at byte {start + len(data):,}, not {size:,}")
        return data

    def _size(self, segment: int) -> int:
        name = self._folder.segment(segment).name
        status = os.fstat(self._descriptor(name, os.O_RDWR | os.O_APPEND))
        if not status.st_nlink:
            raise self._broken(segment, "it was removed")
        return status.st_size

    def _descriptor(self, name: str, flags: int) -> int:
        """Return an open file of the folder, which stays open."""
        if name not in self._descriptors:
            try:
                with self._folder.opened(name, flags) as descriptor:
                    self._descriptors[name] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 0)
            except NotFound as error:
                raise ChainBroken(f"{self._folder.root / name} was removed") from error
        return self._descriptors[name]

    def _forget_segment(self, segment: int) -> None:
        descriptor = self._descriptors.pop(self._folder.segment(segment).name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _broken(self, segment: int, reason: str) -> ChainBroken:
        return ChainBroken(
            f"{self._folder.segment(segment)} was altered: {reason}. Keep the folder, see"
            " `ctxmgr audit verify`, and start another log with `ctxmgr audit init`"
        )
