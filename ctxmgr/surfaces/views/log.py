"""The log of a session, turn by turn: messages, tool calls, changes to the sets. Reads the store.

It reads the chat once, and for each turn on the page its tool calls and the session's sets as they
were stored with that turn, without the session index, which may name ten thousand objects in every
version. So the hashes of these versions are not verified here; `ctxmgr store verify` does that.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn, Self

from ctxmgr.core.append_only import OrderedIds
from ctxmgr.core.objects.answers import CONTEXTCALL
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.envelope import chat_id, session_object_id, turn_id
from ctxmgr.core.sessions.lineage import lineage, owner
from ctxmgr.core.sessions.sets import NONE, Session
from ctxmgr.core.store.contract import PAGE_MAX, AsOf, HistoryEntry, Instant, Store
from ctxmgr.core.store.queries import check_limit
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.messages.answers import answer_text
from ctxmgr.surfaces.views.lookup import require_session
from ctxmgr.surfaces.views.sessions import shorten

_INDEX: Final = "session_index"

FOLLOW_PAUSE_S: Final = 0.5
"""Between two looks at a session that is followed: a person hardly notices it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCall:
    """A tool call of a turn."""

    object_id: str
    tool: str
    status: str
    char_count: int
    """Of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsSnapshot:
    """The parts of a session's sets that a log compares."""

    pool: int = 0
    active: OrderedIds = NONE
    pinned: OrderedIds = NONE

    @classmethod
    def of(cls, session: Session) -> Self:
        pool = len(session.metadata_pool)
        return cls(pool=pool, active=session.active_set, pinned=session.pinned_set)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetChanges:
    """Changes to a session's sets from the end of one turn to the end of the next."""

    met: int
    """Objects that are new in the pool, which has at least a line of every object seen."""
    activated: tuple[str, ...]
    deactivated: tuple[str, ...]
    """By the agent, a person, or automatic collapse."""
    pinned: tuple[str, ...]
    unpinned: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.met or self.activated or self.deactivated or self.pinned or self.unpinned)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One turn."""

    turn: int
    valid_time: Instant | None
    """When it was stored; None: it has not ended."""
    user: str
    answer: str
    model: str | None
    calls: tuple[LogCall, ...]
    changes: SetChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    session_id: str
    turns: int
    entries: tuple[LogEntry, ...]
    """Oldest first. One more entry follows the last turn if the sets changed after it."""
    earlier: int | None
    """Pass it as ``before`` to get the turns before these; None: there are none."""


async def read_log(
    store: Store, session: Session, *, before: int | None, limit: int, full: bool
) -> Log:
    """Return the last turns of a session, or the last ones before some turn."""
    check_limit(limit)
    if before is not None and before < 1:
        raise Incorrect(f"before must be at least 1, not {before}")
    chat = await store.get(chat_id(session.session_id))
    if chat is None:
        raise Corrupt(f"session {session.session_id} has no chat")
    turns = chat.document["turns"]
    end = len(turns) if before is None else min(before - 1, len(turns))
    first = max(1, end - limit + 1)
    numbers = range(first, end + 1)
    ends = await _ends(store, session.session_id, range(first - 1, end + 1))
    sets = [await _sets(store, end) for end in ends]
    page_turns = [Turn.from_value(turns[number - 1]) for number in numbers]
    calls = await _calls(store, [call_id for turn in page_turns for call_id in turn.toolcall_ids])
    entries = [
        _entry(number, turn, ends[at], calls, compare_sets(sets[at - 1], sets[at]), full=full)
        for at, (number, turn) in enumerate(zip(numbers, page_turns, strict=True), start=1)
    ]
    if before is None:
        changed = compare_sets(sets[-1], SetsSnapshot.of(session))
        if changed:
            entries.append(
                LogEntry(
                    turn=len(turns) + 1,
                    valid_time=None,
                    user="",
                    answer="",
                    model=None,
                    calls=(),
                    changes=changed,
                )
            )
    return Log(
        session_id=session.session_id,
        turns=len(turns),
        entries=tuple(entries),
        earlier=first if first > 1 else None,
    )


async def follow_log(
    store: Store, session_id: str, *, after: int, full: bool, show: Callable[[Log], None]
) -> NoReturn:
    """Show every turn after that one as soon as it is stored, until the task is cancelled."""
    object_id = chat_id(session_id)
    while True:
        versions = await store.get_many([object_id], without=("turns", "toolcall_refs"))
        turns = versions[object_id].document["turn_count"] if object_id in versions else after
        if turns > after:
            session = await require_session(store, session_id)
            limit = min(turns - after, PAGE_MAX)
            log = await read_log(store, session, before=after + limit + 1, limit=limit, full=full)
            show(replace(log, earlier=None))
            after += limit
        else:
            await asyncio.sleep(FOLLOW_PAUSE_S)


def compare_sets(before: SetsSnapshot, after: SetsSnapshot) -> SetChanges:
    """Compare a session's sets at two points in time. Pure."""
    return SetChanges(
        met=after.pool - before.pool,
        activated=_added(before.active, after.active),
        deactivated=_added(after.active, before.active),
        pinned=_added(before.pinned, after.pinned),
        unpinned=_added(after.pinned, before.pinned),
    )


async def _ends(store: Store, session_id: str, numbers: Sequence[int]) -> list[HistoryEntry | None]:
    """Find where each turn ended; None: before the first, or its record is missing."""
    line = await lineage(store, session_id)
    ids = [turn_id(owner(line, number), number=number) for number in numbers]
    pages = await asyncio.gather(
        *(store.history(object_id, documents=False, limit=1) for object_id in ids)
    )
    return [page.entries[0] if page.entries else None for page in pages]


async def _sets(store: Store, end: HistoryEntry | None) -> SetsSnapshot:
    if end is None:
        return SetsSnapshot()
    object_id = session_object_id(end.object_id.removeprefix("turn:").rpartition(":")[0])
    as_of = AsOf(sequence=end.sequence)
    versions = await store.get_many([object_id], as_of=as_of, without=(_INDEX,))
    if object_id not in versions:
        return SetsSnapshot()
    document = versions[object_id].document
    return SetsSnapshot(
        pool=len(document["metadata_pool"]),
        active=OrderedIds(document["active_set"]),
        pinned=OrderedIds(document["pinned_set"]),
    )


async def _calls(store: Store, ids: Sequence[str]) -> dict[str, LogCall]:
    versions = await store.get_many(ids)
    return {
        object_id: LogCall(
            object_id=object_id,
            tool=version.document["tool"],
            status=version.document["status"],
            char_count=len(version.document["content"] or ""),
        )
        for object_id, version in versions.items()
    }


def _entry(
    number: int,
    turn: Turn,
    end: HistoryEntry | None,
    calls: dict[str, LogCall],
    changed: SetChanges,
    *,
    full: bool,
) -> LogEntry:
    answer = answer_text(turn.assistant)
    return LogEntry(
        turn=number,
        valid_time=None if end is None else end.valid_time,
        user=turn.user if full else shorten(turn.user),
        answer=answer if full else shorten(answer),
        model=turn.assistant_meta.model,
        calls=(
            *(calls[call_id] for call_id in turn.toolcall_ids if call_id in calls),
            *_context_calls(turn),
        ),
        changes=changed,
    )


def _context_calls(turn: Turn) -> list[LogCall]:
    """Return the calls of context tools, which have no object."""
    return [
        LogCall(
            object_id=part["call_id"],
            tool=part["tool"],
            status=part["status"],
            char_count=len(part["output"]),
        )
        for part in turn.assistant
        if part["type"] == CONTEXTCALL
    ]


def _added(before: OrderedIds, after: OrderedIds) -> tuple[str, ...]:
    return tuple(object_id for object_id in after if object_id not in before)
