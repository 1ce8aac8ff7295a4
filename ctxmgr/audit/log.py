"""The audit log: append, query, verify, sign, export. Reads and writes the log's folder.

    append                 the system, through an ``AuditLogWriter``
    query, export          a reviewer, with a credential; both are recorded themselves
    status, verify         anyone who can read the folder; they show no content

Nothing that serves an agent imports this module, and no object that an agent's tools can reach
holds one: only ``app`` opens it.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias

from ctxmgr.audit.alterations import Altered, read_record
from ctxmgr.audit.appender import SEGMENT_BYTES, system_entry
from ctxmgr.audit.checkpoints import Checkpoint, read_checkpoints
from ctxmgr.audit.export import export
from ctxmgr.audit.folder import CONFIGURATION, SIGNING_KEY, AuditFolder, Configuration
from ctxmgr.audit.keys import SigningKey, create_key, load_key
from ctxmgr.audit.records import AuditEntry, AuditRecord
from ctxmgr.audit.signing import make_checkpoint, removable_segments, remove_segments
from ctxmgr.audit.verify import AuditVerification, Progress, read_segment, verify
from ctxmgr.audit.writer import CHECKPOINT_RECORDS, AuditLogWriter
from ctxmgr.errors import ChainBroken, Denied, Incorrect, NotFound

LIMIT_MAX: Final = 10_000
"""Records that one query returns at most."""

CONTENTS_CHARS_MAX: Final = 20_000_000
"""Characters of their contents: a query ends with the record that exceeds this."""

Reviewers: TypeAlias = Callable[[str], str]
"""Returns the name of the reviewer to whom a credential belongs; ``Denied`` if it is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStatus:
    """An overview of a log. It shows no content."""

    folder: str
    log_id: str
    public_key: str
    records: int
    """The number of the last record."""
    segments: int
    bytes: int
    checkpoints: int
    signed: int
    """Records up to this number are covered by a checkpoint."""
    last_checkpoint: int | None
    """When it was signed, in UTC milliseconds."""


def nobody(_credential: str) -> str:
    """Refuse every credential: the log was opened without a way to check one."""
    raise Denied("this log was opened without reviewers, so nobody can query it")


class AuditLog:
    """One log. Open it with ``open`` or ``create``."""

    def __init__(
        self, writer: AuditLogWriter, folder: AuditFolder, *, reviewers: Reviewers
    ) -> None:
        self.writer: Final = writer
        self._folder = folder
        self._reviewers = reviewers

    @classmethod
    async def create(cls, root: Path, *, log_id: str, key_file: Path | None = None) -> str:
        """Create an empty log and its signing key; return the public key."""
        return await asyncio.to_thread(_create, root, log_id, key_file)

    @classmethod
    async def open(
        cls,
        root: Path,
        *,
        be_id: str,
        reviewers: Reviewers = nobody,
        key_file: Path | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        checkpoint_records: int = CHECKPOINT_RECORDS,
    ) -> Self:
        """Open a log. Checkpoints are signed on the way if the key is in its folder or given."""
        folder = AuditFolder(root)
        key = await asyncio.to_thread(_key_if_present, folder, key_file)
        writer = AuditLogWriter(
            root,
            be_id,
            key=key,
            segment_bytes=segment_bytes,
            checkpoint_records=checkpoint_records,
        )
        return cls(writer, folder, reviewers=reviewers)

    async def close(self) -> None:
        await self.writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def append(self, record: AuditEntry) -> str | None:
        """Append a record and return its id; None if its event was recorded before."""
        appended = await self.writer.append(record)
        return None if appended is None else appended.record_id

    async def query(
        self,
        reviewer_credential: str,
        *,
        session_id: str | None = None,
        tick_range: tuple[int, int] | None = None,
        time_range: tuple[int, int] | None = None,
        event_types: Collection[str] = (),
        text_search: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> tuple[AuditRecord, ...]:
        """Return the records that match all filters, in their order, after record ``after``.

        These are fewer than ``limit`` if their contents are very long; the next ones follow the
        last of them.
        ``Denied`` without a reviewer's credential. The query is recorded before anything is
        returned, and so is a refused one. Ranges include both ends.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise Incorrect(f"limit must be 1 to {LIMIT_MAX:,}, not {limit}")
        asked = {
            "session_id": session_id,
            "tick_range": tick_range,
            "time_range": time_range,
            "event_types": sorted(map(str, event_types)),
            "text_search": text_search,
            "after": after,
            "limit": limit,
        }
        reviewer = await self._admit(reviewer_credential, "query", asked)

        def matches(record: AuditRecord) -> bool:
            return (
                record.number > after
                and (session_id is None or record.session_id == session_id)
                and _within(record.tick, tick_range)
                and _within(record.timestamp, time_range)
                and (not event_types or record.event_type in event_types)
                and (text_search is None or text_search in record.raw_content)
            )

        found = await asyncio.to_thread(self._find, matches, limit)
        numbers = [record.number for record in found]
        await self._note("query", reviewer=reviewer, asked=asked, records=numbers)
        return found

    async def export(self, reviewer_credential: str, target: Path, *, progress: Progress) -> int:
        """Write everything for a third party; return the bytes of the records."""
        asked = {"target": str(target)}
        reviewer = await self._admit(reviewer_credential, "export", asked)
        await self._note("export", reviewer=reviewer, asked=asked)
        key = await asyncio.to_thread(_key_if_present, self._folder, None)
        if key is not None:
            await asyncio.to_thread(make_checkpoint, self._folder, key, now=_now())
        return await asyncio.to_thread(export, self._folder, target, progress=progress)

    async def checkpoint(self, *, key_file: Path | None = None) -> Checkpoint | None:
        """Verify what was appended since the last checkpoint, and sign it."""
        key = await asyncio.to_thread(self._key, key_file)
        return await asyncio.to_thread(make_checkpoint, self._folder, key, now=_now())

    async def remove_old(self, *, keep_days: int, key_file: Path | None = None) -> int:
        """Remove full segments older than ``keep_days``; return how many were removed."""
        key = await asyncio.to_thread(self._key, key_file)
        segments = await asyncio.to_thread(
            removable_segments, self._folder, keep_days=keep_days, now=_now()
        )
        if segments:
            await self._note("removed segments", segments=segments, keep_days=keep_days)
            await asyncio.to_thread(remove_segments, self._folder, key, segments, now=_now())
        return len(segments)

    async def status(self) -> AuditStatus:
        return await asyncio.to_thread(_status, self._folder)

    async def verify(
        self,
        *,
        start: int | None = None,
        every_hash: bool = False,
        public_key: str | None = None,
        progress: Progress = lambda _done, _all: None,
    ) -> AuditVerification:
        """Verify the log, or what follows checkpoint ``start``; see ``audit.verify``."""
        return await asyncio.to_thread(
            verify,
            self._folder,
            start=start,
            every_hash=every_hash,
            public_key=public_key,
            progress=progress,
        )

    async def _admit(self, credential: str, action: str, asked: Mapping[str, object]) -> str:
        try:
            return self._reviewers(credential)
        except Denied as error:
            await self._note(f"{action} refused", reason=str(error), asked=asked)
            raise

    async def _note(self, action: str, **details: object) -> None:
        await self.writer.append(system_entry(action, **details))

    def _key(self, key_file: Path | None) -> SigningKey:
        return load_key(key_file or self._folder.root / SIGNING_KEY)

    def _find(self, matches: Callable[[AuditRecord], bool], limit: int) -> tuple[AuditRecord, ...]:
        found: list[AuditRecord] = []
        chars = 0
        for record in _records(self._folder):
            if matches(record):
                found.append(record)
                chars += len(record.raw_content)
                if len(found) == limit or chars > CONTENTS_CHARS_MAX:
                    break
        return tuple(found)


def _records(folder: AuditFolder) -> Iterator[AuditRecord]:
    with folder.locked():
        head = folder.head()
    for segment in folder.segments():
        if segment > head.segment:
            return
        size = head.offset if segment == head.segment else folder.segment(segment).stat().st_size
        for line in read_segment(folder, segment, size).split(b"\n")[:-1]:
            try:
                yield read_record(line)
            except Altered as altered:
                raise ChainBroken(
                    f"{folder.segment(segment)} was altered ({altered}): run `ctxmgr audit verify`"
                ) from None


def _within(value: int, limits: tuple[int, int] | None) -> bool:
    return limits is None or limits[0] <= value <= limits[1]


def _create(root: Path, log_id: str, key_file: Path | None) -> str:
    if (root / CONFIGURATION).exists():
        raise Incorrect(f"{root} holds an audit log already")
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    AuditFolder(root).check_access()
    key = create_key(key_file or root / SIGNING_KEY)
    configuration = Configuration(log_id=log_id, public_key=key.public, created=_now())
    AuditFolder.create(root, configuration)
    return key.public


def _key_if_present(folder: AuditFolder, key_file: Path | None) -> SigningKey | None:
    if key_file is not None:
        return load_key(key_file)
    try:
        return load_key(folder.root / SIGNING_KEY)
    except NotFound:
        return None


def _status(folder: AuditFolder) -> AuditStatus:
    configuration = folder.configuration()
    with folder.locked():
        head = folder.head()
        checkpoints, *_ = read_checkpoints(
            folder, log_id=configuration.log_id, public_key=configuration.public_key
        )
    segments = folder.segments()
    return AuditStatus(
        folder=str(folder.root),
        log_id=configuration.log_id,
        public_key=configuration.public_key,
        records=head.number,
        segments=len(segments),
        bytes=sum(folder.segment(number).stat().st_size for number in segments),
        checkpoints=len(checkpoints),
        signed=checkpoints[-1].end.number if checkpoints else 0,
        last_checkpoint=checkpoints[-1].time if checkpoints else None,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
