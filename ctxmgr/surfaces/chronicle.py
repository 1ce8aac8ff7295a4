"""A session told turn by turn: what was asked and answered, run, and changed in the sets.

Reads the store: the chat once, and of each turn on the page its tool calls and the session's sets
as they were stored with that turn, without the index: that names ten thousand objects in every
version. So what an earlier version says is shown and not proven; `ctxmgr verify` proves it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from ctxmgr.core.documents import Document
from ctxmgr.core.envelopes import chat_id, session_object_id, turn_id
from ctxmgr.core.growing import OrderedIds
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lineages import lineage, owner
from ctxmgr.core.paging import check_limit
from ctxmgr.core.parts import CONTEXTCALL
from ctxmgr.core.sessions import NONE, Session
from ctxmgr.core.store import AsOf, HistoryEntry, Instant, Store
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.surfaces.session_views import said, shortened

_INDEX: Final = "session_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call of a turn."""

    object_id: str
    tool: str
    status: str
    char_count: int
    """Of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """What a log compares of a session's sets."""

    pool: int = 0
    active: OrderedIds = NONE
    pinned: OrderedIds = NONE

    @classmethod
    def of(cls, session: Session) -> Self:
        pool = len(session.metadata_pool)
        return cls(pool=pool, active=session.active_set, pinned=session.pinned_set)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetChanges:
    """What became of a session's sets, from the end of one turn to the end of the next."""

    met: int
    """Objects that are new in the pool: what is met is shown there, in one line at least."""
    activated: tuple[str, ...]
    deactivated: tuple[str, ...]
    """Folded, by whomever: the agent, a person, or automatic collapse."""
    pinned: tuple[str, ...]
    unpinned: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.met or self.activated or self.deactivated or self.pinned or self.unpinned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One turn."""

    turn: int
    valid_time: Instant | None
    """When it was stored; None: it has not ended."""
    user: str
    answer: str
    model: str | None
    calls: tuple[Call, ...]
    changes: SetChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    session_id: str
    turns: int
    entries: tuple[Entry, ...]
    """In the order they happened. After the last turn one more, if the sets changed since."""
    earlier: int | None
    """Give it as ``before`` to see the turns before these; None: there are none."""


async def tell(
    store: Store, session: Session, *, before: int | None, limit: int, full: bool
) -> Log:
    """Tell the last turns of a session, or the last ones before some turn."""
    check_limit(limit)
    if before is not None and before < 1:
        raise Incorrect(f"turns are numbered from 1; there is none before turn {before}")
    turns = await _turns(store, session.session_id)
    end = len(turns) if before is None else min(before - 1, len(turns))
    first = max(1, end - limit + 1)
    numbers = range(first, end + 1)
    ends = await _ends(store, session.session_id, range(first - 1, end + 1))
    sets = [await _sets(store, each) for each in ends]
    known = [Turn.from_value(turns[number - 1]) for number in numbers]
    calls = await _calls(store, [each for turn in known for each in turn.toolcall_ids])
    entries = [
        _entry(number, turn, ends[at], calls, changes(sets[at - 1], sets[at]), full=full)
        for at, (number, turn) in enumerate(zip(numbers, known, strict=True), start=1)
    ]
    if before is None:
        entries += _since(len(turns) + 1, changes(sets[-1], Sets.of(session)))
    return Log(
        session_id=session.session_id,
        turns=len(turns),
        entries=tuple(entries),
        earlier=first if first > 1 else None,
    )


def changes(before: Sets, after: Sets) -> SetChanges:
    """Compare a session's sets at two moments. Pure."""
    return SetChanges(
        met=after.pool - before.pool,
        activated=_added(before.active, after.active),
        deactivated=_added(after.active, before.active),
        pinned=_added(before.pinned, after.pinned),
        unpinned=_added(after.pinned, before.pinned),
    )


async def _turns(store: Store, session_id: str) -> list[Document]:
    version = await store.get(chat_id(session_id))
    if version is None:
        raise Corrupt(f"session {session_id} lacks its chat")
    turns: list[Document] = version.document["turns"]
    return turns


async def _ends(store: Store, session_id: str, numbers: Sequence[int]) -> list[HistoryEntry | None]:
    """Find where each turn ended; None: before the first, or its record is not here."""
    line = await lineage(store, session_id)
    ids = [turn_id(owner(line, number), number=number) for number in numbers]
    pages = await asyncio.gather(*(store.history(each, documents=False, limit=1) for each in ids))
    return [page.entries[0] if page.entries else None for page in pages]


async def _sets(store: Store, end: HistoryEntry | None) -> Sets:
    if end is None:
        return Sets()
    object_id = session_object_id(end.object_id.removeprefix("turn:").rpartition(":")[0])
    as_of = AsOf(sequence=end.sequence)
    found = await store.get_many([object_id], as_of=as_of, without=(_INDEX,))
    if object_id not in found:
        return Sets()
    document = found[object_id].document
    return Sets(
        pool=len(document["metadata_pool"]),
        active=OrderedIds(document["active_set"]),
        pinned=OrderedIds(document["pinned_set"]),
    )


async def _calls(store: Store, ids: Sequence[str]) -> dict[str, Call]:
    found = await store.get_many(ids)
    return {
        object_id: Call(
            object_id=object_id,
            tool=version.document["tool"],
            status=version.document["status"],
            char_count=len(version.document["content"] or ""),
        )
        for object_id, version in found.items()
    }


def _entry(
    number: int,
    turn: Turn,
    end: HistoryEntry | None,
    calls: dict[str, Call],
    changed: SetChanges,
    *,
    full: bool,
) -> Entry:
    answer = said(turn)
    return Entry(
        turn=number,
        valid_time=None if end is None else end.valid_time,
        user=turn.user if full else shortened(turn.user),
        answer=answer if full else shortened(answer),
        model=turn.assistant_meta.model,
        calls=(*(calls[each] for each in turn.toolcall_ids if each in calls), *_own_calls(turn)),
        changes=changed,
    )


def _own_calls(turn: Turn) -> list[Call]:
    """The context tools' calls, which have no object."""
    return [
        Call(
            object_id=part["call_id"],
            tool=part["tool"],
            status=part["status"],
            char_count=len(part["output"]),
        )
        for part in turn.assistant
        if part["type"] == CONTEXTCALL
    ]


def _since(number: int, changed: SetChanges) -> list[Entry]:
    if not changed:
        return []
    return [
        Entry(
            turn=number, valid_time=None, user="", answer="", model=None, calls=(), changes=changed
        )
    ]


def _added(before: OrderedIds, after: OrderedIds) -> tuple[str, ...]:
    return tuple(each for each in after if each not in before)
