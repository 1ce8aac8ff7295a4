"""Stores what sessions teach, once. Commits.

One exchange is one transaction: its memories, the contradictions they open, what was refused, how
far the session was learnt from, and the position among the store's events. An exchange that is
delivered again changes nothing.
"""

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.events.events import EventId, FileEvent
from ctxmgr.core.objects.envelope import turn_id
from ctxmgr.core.store.contract import AsOf, Instant, Match, Put, Store, Version
from ctxmgr.errors import Conflict, Corrupt, Incorrect, NotFound
from ctxmgr.memory.contradictions.slot_index import SlotIndex
from ctxmgr.memory.contradictions.slots import says_nothing_new
from ctxmgr.memory.extraction.exchange import Exchange
from ctxmgr.memory.extraction.extract import ExchangeLessons, lessons_of
from ctxmgr.memory.extraction.findings import LearntItem, RefusedItem, refused
from ctxmgr.memory.extraction.patterns import is_source, patterns_of
from ctxmgr.memory.extraction.project_files import conventions_of
from ctxmgr.memory.extraction.refusals import stored_refusals
from ctxmgr.memory.extraction.workflows import CommandSequence
from ctxmgr.memory.learning.read_exchange import Mask, StoredTurn, read_exchange
from ctxmgr.memory.learning.session_record import (
    LearningRecord,
    habits_id,
    learning_id,
    position_id,
    read_habits,
    read_learning,
    read_position,
    stored_habits,
    stored_learning,
    stored_position,
)
from ctxmgr.memory.learning.usage_judgement import (
    SHOWN_MAX,
    ShownLine,
    ShownMemory,
    action_of,
    cited_lines,
    shown_lines,
)
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.contradiction import (
    Contradiction,
    contradiction_id,
    stored_contradiction,
)
from ctxmgr.memory.records.levels import levels_by_rule
from ctxmgr.memory.records.memory import (
    Author,
    Memory,
    Origin,
    Visibility,
    read_memory,
    stored_id,
    stored_memory,
)
from ctxmgr.memory.records.usage import MemoryUsage
from ctxmgr.memory.tiers.assembly import SHORT_ID_CHARS

CONTRIBUTOR: Final = "memory"
"""The name under which turn records keep what memory added to a prompt."""
SESSIONS_MAX: Final = 4_096
"""Sessions whose owner is remembered; others are asked for again."""
NO_LONGER_IN: Final = "it is no longer in "
"""How the reason begins for which a convention ended with its line in a file."""
SUPERSEDED_MAX: Final = 100
"""Memories that took the place of one another, one after the other, which are looked at."""
IDS_MAX: Final = 20_000
"""Ids that are found by their beginning without asking the store."""
ATTEMPTS_MAX: Final = 5
"""How often a transaction is tried again when another writer was first."""

_NAMESPACE: Final = uuid.UUID("5b1c0d0e-6f0f-4c7e-9a53-2f6f1a8c9d41")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """Why something is not stored, and the memory that says it already."""

    reason: str
    memory_id: str | None = None


class Learner:
    """Learns from the sessions of one user in one project."""

    def __init__(
        self, store: Store, living: LivingMemory, *, mask: Mask, now: Callable[[], Instant]
    ) -> None:
        self._store = store
        self._resident = living.resident
        self._scanner = living.scanner
        self._mask = mask
        self._now = now
        self._counter = TokenCounter()
        self._ours: dict[str, bool] = {}
        self._ids: dict[str, str] = {}
        self._repository = living.repository
        self.owner = living.principal

    async def bind(self, session_id: str) -> None:
        """Make a session one of this user in this project."""
        if self._ours.get(session_id):
            return
        version, record = await self._record(session_id)
        if record is None or record.owner != self.owner:
            before = record or LearningRecord(session_id=session_id, owner=self.owner)
            after = replace(before, owner=self.owner)
            try:
                await self._store.commit(_changed(after, version))
            except Conflict:
                _log.info("session %s was taken up by two clients at once", session_id)
        self._remember(session_id, ours=True)

    async def is_ours(self, session_id: str) -> bool:
        """Whether this user's memory learns from a session in this project."""
        known = self._ours.get(session_id)
        if known is None:
            _, record = await self._record(session_id)
            known = record is not None and record.owner == self.owner
            self._remember(session_id, ours=known)
        return known

    async def record(self, session_id: str) -> LearningRecord | None:
        """Return how far a session was learnt from; None if it never was."""
        return (await self._record(session_id))[1]

    async def position(self) -> EventId | None:
        """Return the event up to which everything was handled; None: nothing yet."""
        version = await self._store.get(position_id(self.owner))
        return None if version is None else read_position(version.document)

    async def begin(self, position: EventId) -> None:
        """Store where to begin, unless there is a position already."""
        try:
            await self._store.commit(
                [Match(position_id(self.owner), None), Put(stored_position(self.owner, position))]
            )
        except Conflict:
            _log.debug("another client of %s began first", self.owner.user_id)

    async def learn(
        self,
        session_id: str,
        turns: Mapping[int, StoredTurn],
        *,
        at: Instant,
        position: EventId | None = None,
    ) -> ExchangeLessons | None:
        """Learn from one exchange; None if that was done before, or the session is not ours."""
        for _ in range(ATTEMPTS_MAX):
            version, record = await self._record(session_id)
            if record is None or record.owner != self.owner or max(turns) <= record.learnt_turn:
                return None
            new = {number: turn for number, turn in turns.items() if number > record.learnt_turn}
            exchange = await read_exchange(
                self._store,
                session_id,
                new,
                mask=self._mask,
                follows_answer=record.answered,
            )
            habits = await self._store.get(habits_id(self.owner))
            known = () if habits is None else read_habits(habits.document)
            lessons = await asyncio.to_thread(_lessons, exchange, record, known)
            operations, stored, confirmed = await self._operations(
                exchange, lessons, at=_said_at(new, at)
            )
            after = replace(
                record,
                learnt_turn=exchange.last_turn,
                answered=record.answered or bool(exchange.answers),
                failures=lessons.failures,
                shown=(),
            )
            operations += _changed(after, version)
            passed_over = [shown.id for shown in record.shown if shown.ignored]
            counted = dict.fromkeys(passed_over, _ignored)
            counted |= dict.fromkeys(confirmed, partial(_confirmed, at=self._now()))
            operations += await self._repository.counted(counted)
            if lessons.sequences != known:
                token = None if habits is None else habits.token
                operations.append(Match(habits_id(self.owner), token))
                operations.append(Put(stored_habits(self.owner, lessons.sequences)))
            if position is not None:
                operations.append(Put(stored_position(self.owner, position)))
            try:
                await self._store.commit(operations)
            except Conflict:
                continue  # another client learns from the session, or somebody edits memories
            await self._compare([self._id_of(item) for item in stored.learnt])
            return stored
        _log.warning("session %s is not learnt from: others write to it all the time", session_id)
        return None

    async def _compare(self, memory_ids: Sequence[str]) -> None:
        """Compare new facts with the nearest ones; slots were compared when they were stored."""
        if not memory_ids or not (self._scanner.asks_model or self._resident.is_indexed):
            return
        await self._resident.refresh()
        for memory_id in memory_ids:
            memory = self._resident.shortlist.memories.get(memory_id)
            if memory is not None:
                await self._repository.report(await self._scanner.scan(memory))

    async def learn_file(self, event: FileEvent, path: str) -> None:
        """Learn the conventions that a version of a project's file states, or its patterns.

        ``path`` is relative to the project. What the file said before and does not say any more
        ends, unless a person edited it.
        """
        as_of = AsOf(sequence=event.id.sequence)
        version = await self._store.get(event.object_id, as_of=as_of)
        content = None if version is None else version.document.get("content")
        text = self._mask(content) if isinstance(content, str) else ""
        items = await asyncio.to_thread(_file_lessons, event, path, text)
        if items is None:
            return
        for _ in range(ATTEMPTS_MAX):
            try:
                await self._take_file(event, path, items)
            except Conflict:
                continue  # another client learns from the file, or somebody edits memories
            return
        _log.warning("%s is not learnt from: others write to it all the time", path)

    async def _take_file(self, event: FileEvent, path: str, items: Sequence[LearntItem]) -> None:
        """Store what a file states, and end what it does not state any more."""
        ids = {self._id_of(item) for item in items}
        await self._resident.refresh()
        for memory in list(self._resident.shortlist.memories.values()):
            from_file = memory.origin.object_id == event.object_id and memory.author is Author.RULE
            if from_file and memory.origin.session_id is None and memory.id not in ids:
                await self._repository.change(memory.id, partial(_ended, at=self._now(), name=path))
        lessons = ExchangeLessons(learnt=tuple(items), refused=(), failures=())
        operations, _, _ = await self._operations(None, lessons, at=event.valid_time)
        if operations:
            await self._store.commit(operations)

    async def judge(self, session_id: str, turn: StoredTurn, *, number: int, said: str) -> None:
        """Count what the prompt of a turn showed, and what the agent used of it.

        A turn that was judged before, or whose exchange was learnt from, changes nothing.
        """
        stored = await self._store.get(turn_id(session_id, number=number))
        lines = [] if stored is None else _shown_by(stored.document)
        if not lines:
            return
        cited = cited_lines(lines, action=action_of(turn), said=said)
        seen = [
            ShownMemory(id=memory_id, tier=line.tier, cited=line.start in cited)
            for line in lines
            if (memory_id := await self._full_id(line.start)) is not None
        ]
        for _ in range(ATTEMPTS_MAX):
            version, record = await self._record(session_id)
            if record is None or record.owner != self.owner or number <= record.learnt_turn:
                return
            after, changes = _counted(record, seen, at=self._now())
            if not changes:
                return
            operations = await self._repository.counted(changes)
            try:
                await self._store.commit([*operations, *_changed(after, version)])
            except Conflict:
                continue
            return

    def note_ids(self, memory_ids: Iterable[str]) -> None:
        """Remember ids, so that the beginning of one is enough to find it."""
        for memory_id in memory_ids:
            self._ids.pop(memory_id[:SHORT_ID_CHARS], None)
            self._ids[memory_id[:SHORT_ID_CHARS]] = memory_id
        while len(self._ids) > IDS_MAX:
            del self._ids[next(iter(self._ids))]

    async def _full_id(self, start: str) -> str | None:
        known = self._ids.get(start)
        if known is None:
            try:
                known = await self._repository.find_id(start)
            except (NotFound, Incorrect, Corrupt):  # purged since, or two begin alike
                return None
            self.note_ids([known])
        return known

    async def compacted(self, session_id: str, *, through: int) -> None:
        """Note that turns up to one are shown as a summary from now on."""
        version, record = await self._record(session_id)
        if record is not None and through > record.compacted_turn:
            await self._store.commit(_changed(replace(record, compacted_turn=through), version))

    async def _operations(
        self, exchange: Exchange | None, lessons: ExchangeLessons, *, at: Instant
    ) -> tuple[list[Match | Put], ExchangeLessons, frozenset[str]]:
        """Return the writes for what is new in an exchange or file, and what was new or refused.

        The third value has the memories that the user's words or deeds confirmed: they were known,
        and hold.
        """
        session_id = None if exchange is None else exchange.session_id
        turned_down = list(lessons.refused)
        kept: list[LearntItem] = []
        confirmed: set[str] = set()
        operations: list[Match | Put] = []
        await self._resident.refresh()
        ids = [self._id_of(item) for item in lessons.learnt]
        earlier = await self._store.get_many([stored_id(each) for each in ids])
        new = SlotIndex()
        for item, memory_id in zip(lessons.learnt, ids, strict=True):
            memory = self._memory(item, memory_id, session_id, at=at)
            before = earlier.get(stored_id(memory_id))
            known = (
                _Known(memory)
                if isinstance(memory, str)
                else await self._known(memory, before, new)
            )
            if isinstance(memory, str) or known is not None:
                assert known is not None
                turned_down.append(
                    refused(item.original, known.reason, extractor=item.extractor, turn=item.turn)
                )
                if known.memory_id is not None and item.author is not Author.AGENT:
                    confirmed.add(known.memory_id)
                continue
            operations.append(Match(stored_id(memory.id), None if before is None else before.token))
            operations.append(Put(stored_memory(memory), valid_from=memory.valid_from))
            found = (*self._resident.slots.disagreeing(memory), *new.disagreeing(memory))
            pairs = _contradictions(memory, found, at=self._now())
            operations += [Put(stored_contradiction(pair)) for pair in pairs]
            new.put(memory)
            kept.append(item)
        if turned_down and exchange is not None:
            operations.append(self._refusals(exchange, turned_down))
        stored = replace(lessons, learnt=tuple(kept), refused=tuple(turned_down))
        return operations, stored, frozenset(confirmed - {self._id_of(item) for item in kept})

    async def _known(
        self, memory: Memory, earlier: Version | None, new: SlotIndex
    ) -> "_Known | None":
        """Return why a memory is not stored: the same is known, or a person forgot it."""
        if earlier is not None:
            before = self._repository.readable(read_memory, earlier)
            if before is None:
                return _Known("what is stored of it cannot be read")
            known = await self._why_not_again(before)
            if known is not None:
                return known
        same = self._resident.same(memory)
        if same is not None and same.project_id == memory.project_id:
            return _Known(f"it is known already: {same.id}", same.id)
        for index in (self._resident.slots, new):
            for other in index.filling(memory):
                assert isinstance(memory.body, Fact)
                assert isinstance(other.body, Fact)
                if says_nothing_new(memory.body, other.body):
                    return _Known(f"it says nothing new: {other.id}", other.id)
        return None

    async def _why_not_again(self, earlier: Memory) -> "_Known | None":
        """Return why what is stored is not stored again; None if only rules ended it.

        What took its place counts as well: a person may have forgotten that one.
        """
        for _ in range(SUPERSEDED_MAX):
            if earlier.valid_to is None:
                return _Known(f"it is known already: {earlier.id}", earlier.id)
            if Author.PERSON in (earlier.author, earlier.ended_by):
                return _Known("it was forgotten before")
            if earlier.superseded_by is None:
                return None
            version = await self._store.get(stored_id(earlier.superseded_by))
            found = None if version is None else self._repository.readable(read_memory, version)
            if found is None:
                return None
            earlier = found
        return _Known("it was superseded too often")

    def _memory(
        self, item: LearntItem, memory_id: str, session_id: str | None, *, at: Instant
    ) -> Memory | str:
        """Return a memory, or why none can be made of an item."""
        now = self._now()
        try:
            return Memory(
                id=memory_id,
                body=item.body,
                kind=item.kind,
                levels=levels_by_rule(item.body, self._counter.count, original=item.original),
                author=item.author,
                visibility=Visibility.USER_PRIVATE,
                user_id=self.owner.user_id,
                project_id=self.owner.project_id,
                created_at=now,
                valid_from=min(at, now),
                origin=Origin(
                    session_id=session_id,
                    turn=item.turn or None,
                    object_id=item.object_id,
                    object_hash=item.object_hash,
                ),
                tags=item.tags,
            )
        except Incorrect as error:
            return f"it cannot be stored: {error}"

    def _id_of(self, item: LearntItem) -> str:
        """Return the id of what is said, so that the same is never stored twice."""
        said = hashlib.sha256(repr((item.kind, item.body)).encode()).hexdigest()
        name = f"{self.owner.user_id}\n{self.owner.project_id}\n{said}"
        return str(uuid.uuid5(_NAMESPACE, name))

    def _refusals(self, exchange: Exchange, items: Sequence[RefusedItem]) -> Put:
        return Put(
            stored_refusals(
                exchange.session_id, exchange.first_turn, items, owner=self.owner, at=self._now()
            )
        )

    async def _record(self, session_id: str) -> tuple[Version | None, LearningRecord | None]:
        version = await self._store.get(learning_id(session_id))
        return version, None if version is None else read_learning(version.document)

    def _remember(self, session_id: str, *, ours: bool) -> None:
        self._ours.pop(session_id, None)
        self._ours[session_id] = ours
        if len(self._ours) > SESSIONS_MAX:
            del self._ours[next(iter(self._ours))]


def _lessons(
    exchange: Exchange, record: LearningRecord, sequences: tuple[CommandSequence, ...]
) -> ExchangeLessons:
    """Return what an exchange teaches; a rule that fails on it must not stop all later ones."""
    try:
        return lessons_of(exchange, failures=record.failures, sequences=sequences)
    except Exception as error:  # noqa: BLE001 (whatever a rule does wrong)
        _log.exception("turns %d to %d teach nothing", exchange.first_turn, exchange.last_turn)
        failed = refused(
            exchange.user, f"the rules failed: {error!r:.100}", extractor="all", turn=1
        )
        return ExchangeLessons(
            learnt=(), refused=(failed,), failures=record.failures, sequences=sequences
        )


def _file_lessons(event: FileEvent, path: str, text: str) -> tuple[LearntItem, ...] | None:
    """Return what a file states; None if a rule fails on it, which must not stop later events."""
    read = patterns_of if is_source(path) else conventions_of
    try:
        return read(path, text, object_id=event.object_id, object_hash=event.object_hash)
    except Exception:  # noqa: BLE001 (whatever a rule does wrong)
        _log.exception("%s teaches nothing", path)
        return None


def _shown_by(record: Mapping[str, Any]) -> list[ShownLine]:
    """Return the memories that a recorded prompt showed."""
    return [
        line
        for added in record.get("contributions") or ()
        if isinstance(added, Mapping) and added.get("name") == CONTRIBUTOR
        for line in shown_lines(str(added.get("text") or ""))
    ]


def _ended(memory: Memory, *, at: Instant, name: str) -> Memory:
    """End a convention that its file does not state any more, unless a person edited it."""
    if memory.author is not Author.RULE or memory.valid_to is not None:
        return memory
    because = f"{NO_LONGER_IN}{name}"
    return replace(
        memory, valid_to=max(at, memory.valid_from), ended_because=because, ended_by=Author.RULE
    )


def _counted(
    record: LearningRecord, seen: Sequence[ShownMemory], *, at: Instant
) -> tuple[LearningRecord, dict[str, Callable[[MemoryUsage], MemoryUsage]]]:
    """Return the record with what a turn showed, and how counters change: each once an exchange."""
    before = {shown.id: shown for shown in record.shown}
    after = dict(before)
    changes: dict[str, Callable[[MemoryUsage], MemoryUsage]] = {}
    for shown in seen:
        known = before.get(shown.id)
        cites = shown.cited and (known is None or not known.cited)
        if known is None or cites:
            new = known is None
            changes[shown.id] = partial(_used, at=at, retrieved=new, cited=cites)
            after[shown.id] = (known or shown).as_cited() if cites else (known or shown)
    kept = tuple(after.values())[-SHOWN_MAX:]
    return replace(record, shown=kept), changes


def _used(usage: MemoryUsage, *, at: Instant, retrieved: bool, cited: bool) -> MemoryUsage:
    usage = usage.retrieved(at) if retrieved else usage
    return usage.cited(at) if cited else usage


def _confirmed(usage: MemoryUsage, *, at: Instant) -> MemoryUsage:
    """What is said or done again was of use, whether a prompt showed it or not."""
    return usage.cited(at)


def _ignored(usage: MemoryUsage) -> MemoryUsage:
    return usage.ignored()


def _changed(record: LearningRecord, version: Version | None) -> list[Match | Put]:
    token = None if version is None else version.token
    return [Match(learning_id(record.session_id), token), Put(stored_learning(record))]


def _contradictions(
    memory: Memory, disagreeing: Iterable[tuple[Memory, str]], *, at: Instant
) -> list[Contradiction]:
    """Return the pairs that a new memory makes with those that hold."""
    return [
        Contradiction(
            id=contradiction_id(other, memory),
            memory_a=other.id,
            memory_b=memory.id,
            reason=reason,
            detected_at=at,
        )
        for other, reason in disagreeing
    ]


def _said_at(turns: Mapping[int, StoredTurn], at: Instant) -> Instant:
    """Return when the first turn was answered, if the harness recorded it."""
    meta = turns[min(turns)].get("assistant_meta")
    said = meta.get("timestamp") if isinstance(meta, Mapping) else None
    return said if type(said) is int and 0 < said <= at else at
