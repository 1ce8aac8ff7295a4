"""What an observation of a file's source means for the store, as operations to commit. Pure.

    observed           nothing stored   a stub      with text              read, without text
    its bytes          created          updated     unchanged or updated   unchanged or updated
    seen, not read     created (stub)   unchanged   unchanged              unchanged
    too large          created (stub)   unchanged   unchanged              unchanged
    gone for certain   nothing          unchanged   updated (deletion)     unchanged
    unreachable        nothing          unchanged   unchanged              unchanged

``unchanged`` writes nothing. A version's object_hash covers its bytes and its text, so a text that
came back with the bytes it had is a new version, though its file_hash is the same. A deletion of
what is no text would be the version that is stored already, so there is none.

Every put is guarded by the version that it was planned on. Whoever plans reads the store first and
the source second: then a guard that holds proves that no newer reading was overtaken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ctxmgr.core.contents import File, FileState
from ctxmgr.core.file_outcomes import Gone, Refusal, Refused, Unread
from ctxmgr.core.file_times import valid_time_of
from ctxmgr.core.objects import check_same_envelope, from_document, to_document
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import Instant, Match, Operation, Put, Version
from ctxmgr.errors import Corrupt


class Result(StrEnum):
    """What indexing or discovery did to an object."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was found out about one source just now."""

    source: FilesystemSource
    object_id: str
    file: File | None
    """Made of the bytes; None: they were not read."""
    mtime_ns: int | None
    """None: unknown, so the store's own time is taken."""
    unread: Unread | None = None
    """Why it was not read; None beside no file: nobody wanted to, it was only seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an object is now, and whether that is new."""

    object_id: str
    source: FilesystemSource
    result: Result
    file: File | None
    """The current version; None: nothing is stored, and there was nothing to store."""
    state: FileState | None
    """None: nothing is stored, or the version is nontext or deleted and only its history tells."""
    unread: Unread | None
    """Why the source was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Two clocks, as valid times are decided by."""

    now: Instant
    last_transaction: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Operations for one transaction, and what is true once it is committed."""

    outcomes: tuple[Outcome, ...]
    operations: tuple[Operation, ...]
    observations: tuple[Observation, ...]
    """What it was made of; made again of newer ones when the transaction conflicts."""
    not_before: Instant | None = None
    """The store's time must be past this one: a version it replaces is true from then."""

    @classmethod
    def empty(cls) -> Self:
        return cls(outcomes=(), operations=(), observations=())

    @property
    def written(self) -> tuple[Outcome, ...]:
        return tuple(each for each in self.outcomes if each.result is not Result.UNCHANGED)


def plan(
    observations: Iterable[Observation], *, stored: Mapping[str, Version], moment: Moment
) -> Plan:
    """Plan one transaction. Of two observations of one object the later counts."""
    latest = {each.object_id: each for each in observations}
    planning = _Planning(moment)
    for object_id, each in latest.items():
        planning.take(each, stored.get(object_id))
    return Plan(
        outcomes=tuple(planning.outcomes),
        operations=tuple(planning.operations),
        observations=tuple(latest.values()),
        not_before=max(planning.waits, default=None),
    )


def stored_file(version: Version) -> File:
    """Read a version back as a file; ``Corrupt`` if it is something else."""
    file = from_document(version.document)
    if not isinstance(file, File):
        raise Corrupt(f"{version.object_id} is a {file.kind} where a file is expected")
    return file


class _Planning:
    """What a transaction comes to, as one observation after the other is taken in."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self.outcomes: list[Outcome] = []
        self.operations: list[Operation] = []
        self.waits: list[Instant] = []

    def take(self, observed: Observation, before: Version | None) -> None:
        file = _next_version(observed, before)
        if file is None:
            kept = None if before is None else stored_file(before)
            self.outcomes.append(_outcome(observed, Result.UNCHANGED, kept))
        elif before is None:
            valid_from = _valid_from(observed, None, self._moment)
            self.outcomes.append(_outcome(observed, Result.CREATED, file))
            self.operations.append(Match(observed.object_id, None))
            self.operations.append(Put(to_document(file), valid_from=valid_from))
        elif before.document["object_hash"] == file.object_hash:
            self.outcomes.append(_outcome(observed, Result.UNCHANGED, file))
        else:
            self._update(observed, file, before)

    def _update(self, observed: Observation, file: File, before: Version) -> None:
        document = to_document(file)
        check_same_envelope(before.document, document)
        self.outcomes.append(_outcome(observed, Result.UPDATED, file))
        valid_from = None
        if before.token is not None:  # else another program's: there is nothing to be guarded by
            valid_from = _valid_from(observed, before.valid_time, self._moment)
            self.operations.append(Match(observed.object_id, before.token))
        self.operations.append(Put(document, valid_from=valid_from))
        if valid_from is None:
            self.waits.append(before.valid_time)


def _next_version(observed: Observation, before: Version | None) -> File | None:
    if observed.file is not None:
        return observed.file
    if before is None:
        return File.stub(observed.source) if _is_there(observed.unread) else None
    if isinstance(observed.unread, Gone) and before.document["content"] is not None:
        return stored_file(before).deleted()
    return None


def _is_there(unread: Unread | None) -> bool:
    if unread is None:
        return True
    return isinstance(unread, Refused) and unread.refusal is Refusal.TOO_LARGE


def _valid_from(observed: Observation, previous: Instant | None, moment: Moment) -> Instant | None:
    if observed.mtime_ns is None:
        return None
    return valid_time_of(
        observed.mtime_ns,
        previous=previous,
        now=moment.now,
        last_transaction=moment.last_transaction,
    )


def _outcome(observed: Observation, result: Result, file: File | None) -> Outcome:
    return Outcome(
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
    if isinstance(observed.unread, Gone):
        return FileState.DELETED
    return FileState.NONTEXT if observed.file is not None else None
