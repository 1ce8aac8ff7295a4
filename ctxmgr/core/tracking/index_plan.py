"""Plan the store operations for observations of files. Pure.

    observed           not stored       a stub               with text              binary
    its bytes          created          updated              unchanged or updated   unchanged or …
    seen, not read     created (stub)   unchanged            unchanged              unchanged
    too large          created (stub)   unchanged            updated (stub)         updated (stub)
    changed, unread    created (stub)   unchanged            updated (stub)         updated (stub)
    missing            nothing          updated (deletion)   updated (deletion)     updated (del…)
    unreachable        nothing          unchanged            unchanged              unchanged

``unchanged`` writes nothing. A deleted file is treated like a binary one, except that it is
unchanged if it is missing. The object_hash of a version covers both its bytes and its text, so a
deleted file that comes back with the same bytes is a new version although its file_hash is equal.

A file that has grown too large becomes a stub: its bytes have changed, and what was read before
must not be shown as if it were the file.

The same bytes can be stored as two texts, if one client masks secrets and another does not. Then
the stored text stays, unless it contains something that this client would not store.

Every put is guarded by the version that it was planned on. The store must be read before the
source: then a guard that matches proves that no newer content is overwritten.

A version is valid from the file's modification time. A time before that of the previous version
would hide the new version, and one ahead of the store's clock would hide later writes. So the time
must be after the previous version, not in the future, and before the last known transaction of the
store; otherwise the store's own time is used.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from ctxmgr.core.files.outcomes import MissingFile, Refusal, RefusedFile, Unread
from ctxmgr.core.objects.codec import from_document, to_document
from ctxmgr.core.objects.file import File, FileState, needs_history
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
    changed: bool = False
    """True if the file is known to have changed since it was stored, read or not."""
    inside: bool = False
    """True if a tool or the sandbox reported this; the host cannot look again."""

    @property
    def is_too_large(self) -> bool:
        return is_too_large(self.unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOutcome:
    """The current version of an object, and whether it is new."""

    object_id: str
    source: FilesystemSource
    result: IndexResult
    file: File | None
    """The current version; None if nothing is stored and there was nothing to store."""
    state: FileState | None
    """None if nothing is stored."""
    unread: Unread | None
    """Why the source was not read."""

    @property
    def is_too_large(self) -> bool:
        """Whether the source exists and was not read because of its size."""
        return is_too_large(self.unread)


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

    @classmethod
    def join(cls, plans: Iterable[Self]) -> Self:
        """Return one plan for the transaction of several; an object may be in one of them only."""
        parts = tuple(plans)
        times = (part.not_before for part in parts if part.not_before is not None)
        return cls(
            outcomes=tuple(outcome for part in parts for outcome in part.outcomes),
            operations=tuple(operation for part in parts for operation in part.operations),
            observations=tuple(seen for part in parts for seen in part.observations),
            not_before=max(times, default=None),
        )

    @property
    def written(self) -> tuple[IndexOutcome, ...]:
        return tuple(
            outcome for outcome in self.outcomes if outcome.result is not IndexResult.UNCHANGED
        )


def plan(
    observations: Iterable[Observation],
    *,
    stored: Mapping[str, Version],
    moment: ObservationTime,
    states: Mapping[str, FileState] | None = None,
    kept: Callable[[str], str] | None = None,
) -> IndexPlan:
    """Plan one transaction. Of two observations of one object, the later one is used.

    ``states`` has the state of every stored file in ``unclear``. ``kept`` returns a text as this
    client stores it.
    """
    latest = {observation.object_id: observation for observation in observations}
    builder = _PlanBuilder(moment, states=states or {}, kept=kept)
    for object_id, observation in latest.items():
        builder.add(observation, stored.get(object_id))
    return IndexPlan(
        outcomes=tuple(builder.outcomes),
        operations=tuple(builder.operations),
        observations=tuple(latest.values()),
        not_before=max(builder.replaced_times, default=None),
    )


def unclear(
    observations: Iterable[Observation], stored: Mapping[str, Version]
) -> dict[str, Version]:
    """Return the stored files of which only the history shows whether they were deleted."""
    unread = {seen.object_id for seen in observations if seen.file is None}
    return {
        object_id: stored[object_id]
        for object_id in unread & stored.keys()
        if needs_history(stored[object_id].document)
    }


def is_too_large(unread: Unread | None) -> bool:
    """Return whether a file was not read because of its size."""
    return isinstance(unread, RefusedFile) and unread.refusal is Refusal.TOO_LARGE


def stored_file(version: Version) -> File:
    """Read a stored version as a file; raise ``Corrupt`` if it is something else."""
    file = from_document(version.document)
    if not isinstance(file, File):
        raise Corrupt(f"{version.object_id} is a {file.kind} where a file is expected")
    return file


class _PlanBuilder:
    """Collects the operations of one transaction."""

    def __init__(
        self,
        moment: ObservationTime,
        *,
        states: Mapping[str, FileState],
        kept: Callable[[str], str] | None,
    ) -> None:
        self._moment = moment
        self._states = states
        self._kept = kept
        self.outcomes: list[IndexOutcome] = []
        self.operations: list[Operation] = []
        self.replaced_times: list[Instant] = []

    def add(self, observed: Observation, before: Version | None) -> None:
        file = observed.file
        if file is None:
            file = self._unread_version(observed, None if before is None else stored_file(before))
        if before is None:
            self._create(observed, file)
        elif file is None or self._keeps(before, file):
            self._add_outcome(observed, IndexResult.UNCHANGED, stored_file(before))
        elif before.document["object_hash"] == file.object_hash:
            self._add_outcome(observed, IndexResult.UNCHANGED, file)
        else:
            self._update(observed, file, before)

    def _create(self, observed: Observation, file: File | None) -> None:
        if file is None:
            self._add_outcome(observed, IndexResult.UNCHANGED, None)
            return
        valid_from = _valid_from(observed, None, self._moment)
        self._add_outcome(observed, IndexResult.CREATED, file)
        self.operations.append(Match(observed.object_id, None))
        self.operations.append(Put(to_document(file), valid_from=valid_from, checked=True))

    def _update(self, observed: Observation, file: File, before: Version) -> None:
        document = to_document(file)
        self._add_outcome(observed, IndexResult.UPDATED, file)
        valid_from = None
        if before.token is not None:  # None: written by another program, so nothing to match
            valid_from = _valid_from(observed, before.valid_time, self._moment)
            self.operations.append(Match(observed.object_id, before.token))
        self.operations.append(Put(document, valid_from=valid_from, checked=True))
        if valid_from is None:
            self.replaced_times.append(before.valid_time)

    def _unread_version(self, observed: Observation, before: File | None) -> File | None:
        """Return the version for a source that was not read; None if there is nothing new."""
        unread = observed.unread
        if isinstance(unread, MissingFile):
            if before is None or self._state(observed, before) is FileState.DELETED:
                return None
            return before.deleted()
        changed = observed.changed or observed.is_too_large
        if changed or (before is None and unread is None):
            return File.stub(observed.source)
        return None

    def _keeps(self, before: Version, file: File) -> bool:
        """Return whether another text that is stored for the same bytes may stay."""
        stored = before.document
        same_bytes = stored["file_hash"] == file.file_hash
        text = stored["content"]
        if not same_bytes or text is None or file.content in {None, text}:
            return False
        return self._kept is None or self._kept(text) == text

    def _state(self, observed: Observation, file: File | None) -> FileState | None:
        if file is None:
            return None
        if not file.needs_history:
            return file.state()
        if observed.file is not None:
            return FileState.NONTEXT
        return self._states[observed.object_id]

    def _add_outcome(self, observed: Observation, result: IndexResult, file: File | None) -> None:
        deleted = result is IndexResult.UPDATED and isinstance(observed.unread, MissingFile)
        state = FileState.DELETED if deleted else self._state(observed, file)
        self.outcomes.append(
            IndexOutcome(
                object_id=observed.object_id,
                source=observed.source,
                result=result,
                file=file,
                state=state,
                unread=observed.unread,
            )
        )


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
