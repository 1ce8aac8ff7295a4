"""Plan the store operations for observations of files. Pure.

    observed           not stored       a stub      with text              binary or deleted
    its bytes          created          updated     unchanged or updated   unchanged or updated
    seen, not read     created (stub)   unchanged   unchanged              unchanged
    too large          created (stub)   unchanged   unchanged              unchanged
    missing            nothing          unchanged   updated (deletion)     unchanged
    unreachable        nothing          unchanged   unchanged              unchanged

``unchanged`` writes nothing. The object_hash of a version covers both its bytes and its text, so a
deleted file that comes back with the same bytes is a new version although its file_hash is equal.
The deletion of a binary file would equal the stored version, so it is not written.

Every put is guarded by the version that it was planned on. The store must be read before the
source: then a guard that matches proves that no newer content is overwritten.

A version is valid from the file's modification time. A time before that of the previous version
would hide the new version, and one ahead of the store's clock would hide later writes. So the time
must be after the previous version, not in the future, and before the last known transaction of the
store; otherwise the store's own time is used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from ctxmgr.core.files.outcomes import MissingFile, Refusal, RefusedFile, Unread
from ctxmgr.core.objects.codec import from_document, to_document
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import Instant, Match, Operation, Put, Version
from ctxmgr.errors import Corrupt

NS_PER_MS: Final = 1_000_000


def valid_time_of(
    mtime_ns: int,
    *,
    previous: Instant | None,
    now: Instant,
    last_transaction: Instant | None,
) -> Instant | None:
    """Return the valid time of a file version, or None to use the store's own time.

    ``previous`` is the valid time of the version before it, which guards the put.
    """
    valid_time = max(mtime_ns // NS_PER_MS, 0)
    if previous is not None:
        valid_time = max(valid_time, previous + 1)
    if last_transaction is None or valid_time >= last_transaction or valid_time > now:
        return None
    return valid_time


class IndexResult(StrEnum):
    """What indexing or discovery did to an object."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The state of one source at the moment."""

    source: FilesystemSource
    object_id: str
    file: File | None
    """The file made from its bytes; None if they were not read."""
    mtime_ns: int | None
    """None if unknown; then the store's own time is used."""
    unread: Unread | None = None
    """Why the file was not read. If this and ``file`` are None, the file exists and reading it was
    not attempted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOutcome:
    """The current version of an object, and whether it is new."""

    object_id: str
    source: FilesystemSource
    result: IndexResult
    file: File | None
    """The current version; None if nothing is stored and there was nothing to store."""
    state: FileState | None
    """None if nothing is stored, or if only the history shows whether the file is binary or
    deleted."""
    unread: Unread | None
    """Why the source was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTime:
    """The two clocks that determine valid times."""

    now: Instant
    last_transaction: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """Operations for one transaction, and the outcomes once it is committed."""

    outcomes: tuple[IndexOutcome, ...]
    operations: tuple[Operation, ...]
    observations: tuple[Observation, ...]
    """The observations it was planned from; a conflict requires newer ones."""
    not_before: Instant | None = None
    """The store's time must be later than this, the valid time of a version that is replaced."""

    @classmethod
    def empty(cls) -> Self:
        return cls(outcomes=(), operations=(), observations=())

    @property
    def written(self) -> tuple[IndexOutcome, ...]:
        return tuple(
            outcome for outcome in self.outcomes if outcome.result is not IndexResult.UNCHANGED
        )


def plan(
    observations: Iterable[Observation], *, stored: Mapping[str, Version], moment: ObservationTime
) -> IndexPlan:
    """Plan one transaction. Of two observations of one object, the later one is used."""
    latest = {observation.object_id: observation for observation in observations}
    builder = _PlanBuilder(moment)
    for object_id, observation in latest.items():
        builder.add(observation, stored.get(object_id))
    return IndexPlan(
        outcomes=tuple(builder.outcomes),
        operations=tuple(builder.operations),
        observations=tuple(latest.values()),
        not_before=max(builder.replaced_times, default=None),
    )


def stored_file(version: Version) -> File:
    """Read a stored version as a file; raise ``Corrupt`` if it is something else."""
    file = from_document(version.document)
    if not isinstance(file, File):
        raise Corrupt(f"{version.object_id} is a {file.kind} where a file is expected")
    return file


class _PlanBuilder:
    """Collects the operations of one transaction."""

    def __init__(self, moment: ObservationTime) -> None:
        self._moment = moment
        self.outcomes: list[IndexOutcome] = []
        self.operations: list[Operation] = []
        self.replaced_times: list[Instant] = []

    def add(self, observed: Observation, before: Version | None) -> None:
        file = _next_version(observed, before)
        if file is None:
            current = None if before is None else stored_file(before)
            self.outcomes.append(_outcome(observed, IndexResult.UNCHANGED, current))
        elif before is None:
            valid_from = _valid_from(observed, None, self._moment)
            self.outcomes.append(_outcome(observed, IndexResult.CREATED, file))
            self.operations.append(Match(observed.object_id, None))
            self.operations.append(Put(to_document(file), valid_from=valid_from))
        elif before.document["object_hash"] == file.object_hash:
            self.outcomes.append(_outcome(observed, IndexResult.UNCHANGED, file))
        else:
            self._update(observed, file, before)

    def _update(self, observed: Observation, file: File, before: Version) -> None:
        document = to_document(file)
        self.outcomes.append(_outcome(observed, IndexResult.UPDATED, file))
        valid_from = None
        if before.token is not None:  # None: written by another program, so nothing to match
            valid_from = _valid_from(observed, before.valid_time, self._moment)
            self.operations.append(Match(observed.object_id, before.token))
        self.operations.append(Put(document, valid_from=valid_from))
        if valid_from is None:
            self.replaced_times.append(before.valid_time)


def _next_version(observed: Observation, before: Version | None) -> File | None:
    if observed.file is not None:
        return observed.file
    unread = observed.unread
    if before is None:
        too_large = isinstance(unread, RefusedFile) and unread.refusal is Refusal.TOO_LARGE
        return File.stub(observed.source) if unread is None or too_large else None
    if isinstance(unread, MissingFile) and before.document["content"] is not None:
        return stored_file(before).deleted()
    return None


def _valid_from(
    observed: Observation, previous: Instant | None, moment: ObservationTime
) -> Instant | None:
    if observed.mtime_ns is None:
        return None
    return valid_time_of(
        observed.mtime_ns,
        previous=previous,
        now=moment.now,
        last_transaction=moment.last_transaction,
    )


def _outcome(observed: Observation, result: IndexResult, file: File | None) -> IndexOutcome:
    return IndexOutcome(
        object_id=observed.object_id,
        source=observed.source,
        result=result,
        file=file,
        state=_state(observed, file),
        unread=observed.unread,
    )


def _state(observed: Observation, file: File | None) -> FileState | None:
    if file is None:
        return None
    if file.is_stub or file.content is not None:
        return file.state()
    if isinstance(observed.unread, MissingFile):
        return FileState.DELETED
    return FileState.NONTEXT if observed.file is not None else None
