"""What a tool call does to files and to a session's sets. Reads store and disk.

a file that it read        indexed, added to the session, shown in full if it is text
a file that it wrote       indexed, added to the session
files its output names     stubs, added to the session

Everything is planned for the transaction that stores the call. Only if a call touches more text
than one transaction takes, the further files are committed before it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from ctxmgr.core.client.runtime import FileAccess, Runtime, display_path, refusal
from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import Operation
from ctxmgr.core.store.documents import DOCUMENT_BYTES_MAX
from ctxmgr.core.tracking.index_plan import IndexOutcome, IndexPlan
from ctxmgr.core.tracking.indexing import Indexing
from ctxmgr.errors import CtxmgrError, Denied, Incorrect, NotFound, Unavailable

if TYPE_CHECKING:
    from ctxmgr.core.discovery.known_tools import Trace

TOUCHED_MAX: Final = 100
"""Files that one call may be said to have read or written. Each is held in memory until the call is
stored, and a call that touches more is a checkout or a build."""

CALL_BYTES_RESERVED: Final = 256 * 1024
"""Bytes of a stored call besides its output and arguments: ids of 1,000 files, names, hashes."""

JSON_BYTES_PER_CHAR: Final = 6
"""The most that a character takes in a document: a control character."""

OUTPUT_CUT: Final = "\n[… {count:,} characters of the output were too many to store …]\n"
"""Stands between the beginning and the end of an output that is too long to be stored."""


class FileResult(StrEnum):
    """What recording a call did to a file's object."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    """Nothing is stored of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """What recording a call did with one file."""

    path: str
    """As the call named it, or as the agent sees it."""
    access: FileAccess
    """Whether the call read, wrote or only named it."""
    result: FileResult
    object_id: str | None = None
    """None if it was refused."""
    state: FileState | None = None
    """What is shown of it; None if it was refused."""
    reason: str | None = None
    """Why it was not read; None if it was read, or only named."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedToolCall(ToolCall):
    """A stored tool call, with what recording it did to files."""

    outcomes: tuple[FileOutcome, ...] = field(default=(), repr=False)
    """One for every path that the call read or wrote, then one for every file that it named."""

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same version of one call."""
        if not isinstance(other, ToolCall):
            return NotImplemented
        return (self.object_id, self.object_hash) == (other.object_id, other.object_hash)

    def __hash__(self) -> int:
        return hash((self.object_id, self.object_hash))


def with_outcomes(call: ToolCall, outcomes: Iterable[FileOutcome]) -> IndexedToolCall:
    """Return a stored call with what recording it did to files."""
    indexed = object.__new__(IndexedToolCall)
    for item in fields(call):  # sealed already: hashing a long output again takes a millisecond
        object.__setattr__(indexed, item.name, getattr(call, item.name))
    object.__setattr__(indexed, "outcomes", tuple(outcomes))
    return indexed


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedPath:
    """A path that a call read or wrote."""

    path: str
    access: FileAccess
    object_id: str | None = None
    """None if the path is not valid."""
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEffects:
    """The plans for the files that one tool call concerns, for one transaction."""

    touched: IndexPlan | None = None
    """For the files that it read or wrote."""
    discovered: IndexPlan | None = None
    """For the files that its output names."""
    read_ids: frozenset[str] = frozenset()
    """The files to show in full, if they are text."""
    committed: tuple[IndexOutcome, ...] = ()
    """Files that it read or wrote and that are stored already, because they are too much text."""

    @classmethod
    def of_read(cls, planned: IndexPlan) -> Self:
        """Return the effects of reading the files of a plan."""
        ids = frozenset(outcome.object_id for outcome in planned.outcomes)
        return cls(touched=planned, read_ids=ids)

    @property
    def outcomes(self) -> list[IndexOutcome]:
        planned = [outcome for planned in self._plans() for outcome in planned.outcomes]
        return [*planned, *self.committed]

    @property
    def touched_outcomes(self) -> tuple[IndexOutcome, ...]:
        """Of the files that were read or written."""
        return (*(self.touched.outcomes if self.touched is not None else ()), *self.committed)

    @property
    def file_ids(self) -> list[str]:
        """The files that are stored, each once."""
        return list(dict.fromkeys(outcome.object_id for outcome in self.outcomes if outcome.file))

    def seen_ids(self, *, writes: bool) -> list[str]:
        """Return the files whose text the agent knows from the call itself.

        It knows what it read, and with ``writes`` also what it wrote.
        """
        return [
            outcome.object_id
            for outcome in self.touched_outcomes
            if outcome.state is FileState.LIVE and (writes or outcome.object_id in self.read_ids)
        ]

    @property
    def files_read(self) -> list[File]:
        """The files whose content was read."""
        return [
            outcome.file for outcome in self.outcomes if outcome.file and outcome.unread is None
        ]

    def operations(self) -> list[Operation]:
        return [operation for planned in self._plans() for operation in planned.operations]

    def add_to(self, session: Session) -> Session:
        """Add all files to the session's index and pool; show in full what was read as text."""
        session = session.add(self.file_ids)
        for outcome in self.touched_outcomes:
            if outcome.object_id in self.read_ids and outcome.state is FileState.LIVE:
                session = session.read(outcome.object_id)
        return session

    async def plan_again(self, indexing: Indexing, *, conflicts: frozenset[str]) -> Self:
        """Plan again for the files that another client has written meanwhile."""

        async def again(planned: IndexPlan | None) -> IndexPlan | None:
            ids = () if planned is None else (outcome.object_id for outcome in planned.outcomes)
            if planned is None or conflicts.isdisjoint(ids):
                return planned
            return await indexing.plan_again(planned)

        touched, discovered = await again(self.touched), await again(self.discovered)
        return replace(self, touched=touched, discovered=discovered)

    def _plans(self) -> Iterator[IndexPlan]:
        if self.touched is not None:
            yield self.touched
        if self.discovered is not None:
            yield self.discovered


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPlan:
    """The effects of one call, and those that need transactions after the call's own."""

    effects: ToolCallEffects
    later: tuple[ToolCallEffects, ...]
    """An output may name more files than one transaction takes."""
    paths: tuple[TouchedPath, ...]

    @classmethod
    async def make(cls, runtime: Runtime, trace: "Trace", *, output: str, faithful: bool) -> Self:
        """Plan the effects; ``faithful``: the output is byte for byte the file that was read."""
        content = _bytes(output) if faithful else None
        touched, committed, touched_paths = await _plan_touched(runtime, trace, content=content)
        discovered: list[IndexPlan] = []
        if trace.command is not None and trace.directory is not None:
            from ctxmgr.core.discovery.discover import discover

            paths = discover(
                trace.command, directory=trace.directory, output=output, failed=trace.failed
            )
            discovered = await runtime.indexing.plan_discovery(
                paths,
                inside=runtime.sandbox.exists if runtime.sandbox is not None else None,
                planned=() if touched is None else (*touched.outcomes, *committed),
            )
        read_ids = frozenset(
            touched_path.object_id
            for touched_path in touched_paths
            if touched_path.access is FileAccess.READ and touched_path.object_id is not None
        )
        first = ToolCallEffects(
            touched=touched,
            discovered=discovered[0] if discovered else None,
            read_ids=read_ids,
            committed=committed,
        )
        later = tuple(ToolCallEffects(discovered=planned) for planned in discovered[1:])
        return cls(effects=first, later=later, paths=touched_paths)

    def file_outcomes(
        self, runtime: Runtime, stored: Iterable[ToolCallEffects]
    ) -> Iterator[FileOutcome]:
        """Yield what was done with each file; ``stored`` are the effects as they were committed."""
        effects = tuple(stored)
        touched = {
            outcome.object_id: outcome for each in effects for outcome in each.touched_outcomes
        }
        for path in self.paths:
            if path.object_id is None:
                yield _file_outcome(path.path, path.access, None, reason=path.fault)
            else:
                yield _file_outcome(path.path, path.access, touched[path.object_id])
        for each in effects:
            for outcome in each.discovered.outcomes if each.discovered is not None else ():
                if outcome.file is not None and outcome.object_id not in touched:
                    yield _file_outcome(
                        display_path(outcome.file, runtime.files.mounts), FileAccess.NAMED, outcome
                    )


async def plan_activation(
    runtime: Runtime, object_id: str, *, reads: bool
) -> tuple[ToolCallEffects, CtxmgrError | None]:
    """Plan the reading of an object that is to be shown, if it is a stub.

    If it cannot be shown, the error is returned with what was learnt about it, which is stored all
    the same: an agent that asks again gets the same answer without another read.
    """
    version = await runtime.store.get(object_id)
    if version is None:
        raise NotFound(f"{object_id} is not in the store")
    stored = from_document(version.document)
    if not isinstance(stored, File):
        return ToolCallEffects(), None
    if not stored.is_stub:
        state = (await runtime.indexing.states.of([version]))[object_id]
        shown = display_path(stored, runtime.files.mounts)
        return ToolCallEffects(), _not_text(shown) if state is FileState.NONTEXT else None
    path = runtime.reached_at(stored)
    if not reads:
        raise Denied(
            f"{path or object_id} is named by an imported session, and is not read for it without "
            "mounts; read it by its path"
        )
    if path is None:
        raise Unavailable(f"{object_id} is out of reach: it is on no mount of this client")
    planned = await runtime.plan_file(path)
    if planned.outcomes[0].object_id != object_id:
        raise NotFound(f"{path} leads to another file now")
    return ToolCallEffects(touched=planned), why_not_text(path, planned)


def why_not_text(path: str, planned: IndexPlan) -> CtxmgrError | None:
    """Return why the file of a plan for one path cannot be shown; None if it can."""
    (outcome,) = planned.outcomes
    if outcome.file is None or outcome.unread is not None:
        return refusal(path, outcome)
    return _not_text(path) if outcome.file.content is None else None


def stored_output(output: str, *, args: dict[str, Any], args_display: str | None) -> str:
    """Return an output as it fits into the document of its call; the middle may be left out."""
    besides = len(canonical(args)) + JSON_BYTES_PER_CHAR * len(args_display or "")
    room = DOCUMENT_BYTES_MAX - CALL_BYTES_RESERVED - besides
    if len(output) * JSON_BYTES_PER_CHAR <= room or _encoded_length(output) <= room:
        return output
    if room <= 0:
        raise Incorrect(
            f"the arguments have {besides:,} bytes; a stored call has at most "
            f"{DOCUMENT_BYTES_MAX:,}: shorten them"
        )
    half = (room - JSON_BYTES_PER_CHAR * len(OUTPUT_CUT)) // 2
    head, tail = _fitting(output, half), _fitting(output[::-1], half)
    cut = OUTPUT_CUT.format(count=len(output) - head - tail)
    return f"{output[:head]}{cut}{output[len(output) - tail :]}"


async def _plan_touched(
    runtime: Runtime, trace: "Trace", *, content: bytes | None
) -> tuple[IndexPlan | None, tuple[IndexOutcome, ...], tuple[TouchedPath, ...]]:
    """Plan the reading of the files that a call read or wrote, each object once.

    Returns the plan for the transaction of the call, and what had to be committed before it.
    """
    accesses = [
        *((path, FileAccess.READ) for path in trace.reads),
        *((path, FileAccess.WRITTEN) for path in trace.writes),
    ]
    if len(accesses) > TOUCHED_MAX:
        raise Incorrect(
            f"{len(accesses)} files in one call; at most {TOUCHED_MAX} are read: name the others "
            "in further calls"
        )
    written = frozenset(trace.writes)
    plans: dict[str, IndexPlan] = {}
    paths: list[TouchedPath] = []
    for path, access in accesses:
        how = FileAccess.WRITTEN if path in written else access
        try:
            planned = await runtime.plan_file(path, output=content, access=how)
        except Incorrect as error:  # a tool may accept what is not a valid path here
            paths.append(TouchedPath(path=path, access=access, fault=str(error)))
            continue
        object_id = planned.outcomes[0].object_id
        plans.setdefault(object_id, planned)
        paths.append(TouchedPath(path=path, access=access, object_id=object_id))
    if not plans:
        return None, (), tuple(paths)
    first, *others = _by_transaction(list(plans.values()))
    committed = [await runtime.indexing.apply(other) for other in others]
    return first, tuple(outcome for group in committed for outcome in group), tuple(paths)


def _by_transaction(plans: Sequence[IndexPlan]) -> list[IndexPlan]:
    """Join plans as long as their text fits into one transaction with a call."""
    joined: list[list[IndexPlan]] = [[]]
    size = 0
    for planned in plans:
        length = sum(outcome.file.char_count for outcome in planned.written if outcome.file)
        if joined[-1] and size + length > FILE_BYTES_MAX:
            joined.append([])
            size = 0
        joined[-1].append(planned)
        size += length
    return [IndexPlan.join(group) for group in joined]


def _file_outcome(
    path: str, access: FileAccess, outcome: IndexOutcome | None, *, reason: str | None = None
) -> FileOutcome:
    unread = outcome.unread.reason if outcome is not None and outcome.unread is not None else reason
    if outcome is None or outcome.file is None:
        return FileOutcome(path=path, access=access, result=FileResult.REFUSED, reason=unread)
    return FileOutcome(
        path=path,
        access=access,
        result=FileResult(outcome.result.value),
        object_id=outcome.object_id,
        state=outcome.state,
        reason=unread,
    )


def _not_text(path: str) -> Incorrect:
    return Incorrect(
        f"{path} is not UTF-8 text and cannot be shown in full; the tool read decodes other "
        "encodings, and binary files need a tool that reads their format"
    )


def _bytes(output: str) -> bytes | None:
    """Return the bytes that an output was decoded from; None if they are unknown."""
    try:
        return output.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return None


def _fitting(text: str, bytes_max: int) -> int:
    """Return how many characters of a text take at most so many bytes in a document."""
    lengths = range(1, min(len(text), bytes_max) + 1)
    return bisect_right(lengths, bytes_max, key=lambda end: _encoded_length(text[:end]))


def _encoded_length(text: str) -> int:
    return len(canonical(text))
