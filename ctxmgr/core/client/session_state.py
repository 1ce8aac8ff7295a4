"""One open session: its stored objects and their cache. Commits, and reads the store.

    sets, chat, system prompt    each with the token that guards its next version
    cache                        the objects that the session shows

A change is a function of the session. It is saved in one transaction with everything that belongs
to it, guarded by the version that it is based on. If another client was faster, its sets are read
and merged with ours, files are read again, and a tool call with the same content is the same call.
Only a turn is never merged: it answers a prompt that did not contain the other client's turn.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

from ctxmgr.core.client.known_paths import KnownPaths
from ctxmgr.core.client.object_cache import ObjectCache
from ctxmgr.core.client.runtime import Runtime
from ctxmgr.core.client.tool_calls import ToolCallEffects
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import StoredObject, from_document, put_of
from ctxmgr.core.objects.envelope import session_object_id
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.session_record import SETS, SessionRecord, SystemPrompt
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.sessions.sets import Session, merge
from ctxmgr.core.sessions.storage import ATTEMPTS_MAX, StoredSets, read_session, read_sets
from ctxmgr.core.store.contract import (
    INSTANT_MAX,
    Commit,
    Instant,
    Match,
    Operation,
    Put,
    Version,
)
from ctxmgr.core.store.documents import ID
from ctxmgr.core.tracking.index_plan import IndexOutcome
from ctxmgr.errors import Conflict, Corrupt, Incorrect

_LONG_FIELDS: Final = (*SETS, "turns", "toolcall_refs", "content")
"""What need not be read of a session's own objects to know which versions they are."""

LEARNED_AT_ONCE: Final = 100
"""Versions after which other tasks may run, among them the one that reads the next versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a transaction contains in addition to the session."""

    toolcall: ToolCall | None = None
    effects: ToolCallEffects = field(default_factory=ToolCallEffects)
    fixed: tuple[Operation, ...] = ()
    """Operations whose conflict is raised, not resolved."""

    def operations(self) -> list[Operation]:
        operations = self.effects.operations()
        if self.toolcall is not None:
            operations += [
                Match(self.toolcall.object_id, None),
                put_of(self.toolcall),
            ]
        return [*operations, *self.fixed]


NOTHING: Final = Draft()
Change: TypeAlias = Callable[[Session, Draft], Session]


class SessionState:
    """The current state of a session. Hold ``lock`` while changing it."""

    def __init__(
        self, runtime: Runtime, *, session: Session, chat: Chat, prompt: SystemPrompt
    ) -> None:
        self.runtime = runtime
        self.session = session
        self.view = Session(session_id=session.session_id)
        """The session as the cache can show it; older than ``session`` while objects are read."""
        self.chat = chat
        self.prompt = prompt
        self.cache = ObjectCache()
        self.lock = asyncio.Lock()
        self.sequence: int | None = None
        """Of the last known transaction."""
        self.tokens: dict[str, str | None] = {}
        """By object: the token that guards its next version."""
        self.latest_valid: Instant = 0
        """From when the latest known versions of the session's own objects are valid."""
        self.reads_files = True
        """Whether files that the session names may be read without being named by the agent."""
        self._known: KnownPaths | None = None

    @classmethod
    async def create(
        cls,
        runtime: Runtime,
        session: Session,
        *,
        chat: Chat,
        prompt: SystemPrompt,
        besides: Iterable[Operation] = (),
        created: Callable[[Commit], None] | None = None,
        at: Instant | None = None,
    ) -> Self:
        """Store a new session with its chat and system prompt, in one transaction."""
        state = cls(runtime, session=session, chat=chat, prompt=prompt)
        objects: tuple[StoredObject, ...] = (prompt, chat, session.to_record())
        operations: list[Operation] = [Match(item.object_id, None) for item in objects]
        valid_from = state.valid_from(at)
        puts = valid_since(map(put_of, objects), valid_from)
        try:
            commit = await runtime.commit([*operations, *puts, *besides])
        except Conflict:
            raise Incorrect(
                f"session {session.session_id} exists already; resume it, or open it"
            ) from None
        state.note(commit, *(item.object_id for item in objects), at=valid_from)
        if created is not None:
            created(commit)
        return state

    @classmethod
    async def load(cls, runtime: Runtime, session_id: str, *, whole: bool = True) -> Self:
        """Read a session with its chat and system prompt; ``NotFound`` if there is none.

        Without ``whole`` its index is left out, until ``make_whole`` or ``read_index`` is called.
        """
        read = await read_session(runtime.store, session_id, whole=whole)
        state = cls(runtime, session=read.session, chat=read.chat, prompt=read.prompt)
        state.tokens = dict(read.tokens)
        state.latest_valid = read.valid_since
        return state

    async def make_whole(self) -> None:
        """Read the index if it was left out. The caller holds the lock."""
        if not self.session.is_whole:
            await self._take_whole(await self._stored_sets())

    async def read_index(self) -> None:
        """Read the index if it was left out; the lock is held only to store it here."""
        if self.session.is_whole:
            return
        read = await self._stored_sets()
        async with self.lock:
            if not self.session.is_whole:
                await self._take_whole(read)

    def note(self, commit: Commit, *object_ids: str, at: Instant | None = None) -> None:
        """Remember the tokens of objects that were just committed."""
        self.sequence = max(self.sequence or 0, commit.sequence)
        self.tokens.update(dict.fromkeys(object_ids, commit.token))
        if object_ids:
            self.latest_valid = max(self.latest_valid, commit.system_time if at is None else at)

    def valid_from(self, at: Instant | None) -> Instant | None:
        """Return from when a change is valid that happened at ``at``; None: from now on.

        A version that were valid before its predecessor would never be the current one, and one of
        the future not yet; so times before the latest version and times to come are moved.
        """
        if at is None:
            return None
        if type(at) is not int or not 0 <= at <= INSTANT_MAX:
            raise Incorrect(f"at must be a time in UTC milliseconds, not {at!r:.80}")
        moved = max(at, self.latest_valid)
        return None if moved >= int(time.time() * 1_000) else moved

    def guarded(self, version: Chat | SystemPrompt | SessionRecord) -> list[Operation]:
        """Return the operations that put the next version of one of the session's own objects."""
        token = self.tokens.get(version.object_id)
        guard: list[Operation] = [] if token is None else [Match(version.object_id, token)]
        return [*guard, put_of(version)]

    async def save(
        self, change: Change, *, draft: Draft = NOTHING, at: Instant | None = None
    ) -> Draft:
        """Change the session, and store it with the draft in one transaction.

        Returns the draft as it was stored. A change that changes nothing writes nothing. ``at`` is
        when it happened, if not now; see ``valid_from``.
        """
        base = self.session
        valid_from = self.valid_from(at)
        ours = change(base, draft)
        for _ in range(ATTEMPTS_MAX):
            operations = draft.operations()
            if ours != self.session:
                operations += self.guarded(ours.to_record())
            if not operations:
                return draft
            try:
                commit = await self.runtime.commit(
                    valid_since(operations, valid_from), read=draft.effects.files_read
                )
            except Conflict as conflict:
                valid_from = None  # what the other client has stored is valid since just now
                draft = await self._plan_again(draft, conflict)
                if session_object_id(base.session_id) in conflict.object_ids:
                    self._take(await self._stored_sets())
                ours = merge(base, change(base, draft), theirs=self.session)
                continue
            # Records of turns are stored once and never guarded: a token for each would make
            # ``is_current`` read all of them.
            puts = (item.document[ID] for item in draft.fixed if isinstance(item, Put))
            saved = [object_id for object_id in puts if object_id in self.tokens]
            if ours != self.session:
                saved.append(session_object_id(ours.session_id))
            self.note(commit, *saved, at=valid_from)
            self.session = ours
            await self.learn(draft)
            return draft
        raise Conflict((session_object_id(base.session_id),))

    async def learn(self, draft: Draft) -> None:
        """Add to the cache what was stored, then what is still missing."""
        if draft.toolcall is not None:
            call = draft.toolcall
            self.cache.learn_call(call, active=call.object_id in self.session.active_set)
        for outcome in draft.effects.outcomes:
            await self.learn_outcome(outcome)
        await self.fill()

    async def learn_outcome(self, outcome: IndexOutcome) -> None:
        """Refresh a file in the cache. Sets do not change: only the agent and its tools do that."""
        known = outcome.object_id in self.session.session_index
        if known and outcome.file is not None and outcome.state is not None:
            await self._learn_file(outcome.file, state=outcome.state)

    async def fill(self) -> None:
        """Read what the session shows and the cache lacks."""
        missing = self.cache.missing(self.session)
        if missing:
            await self.learn_versions((await self.runtime.store.get_many(missing)).values())
        lost = self.cache.missing(self.session)
        if lost:
            raise Corrupt(f"{lost[0]} is in session {self.session.session_id} but not in the store")
        self.cache.let_go(self.session)
        self.view = self.session

    async def learn_versions(self, versions: Iterable[Version]) -> list[File]:
        """Add stored content objects to the cache; return the files among them."""
        files: list[File] = []
        unclear: list[tuple[File, Version]] = []
        for number, version in enumerate(versions, 1):
            if number % LEARNED_AT_ONCE == 0:
                await asyncio.sleep(0)
            stored = from_document(version.document)
            if isinstance(stored, ToolCall):
                active = stored.object_id in self.session.active_set
                self.cache.learn_call(stored, active=active)
            elif isinstance(stored, File):
                files.append(stored)
                if stored.needs_history:
                    unclear.append((stored, version))
                else:
                    await self._learn_file(stored, state=stored.state())
            else:
                raise Corrupt(f"{stored.object_id} is a {stored.kind}, not a content object")
        states = await self.runtime.indexing.states.of(version for _, version in unclear)
        for file, _ in unclear:
            await self._learn_file(file, state=states[file.object_id])
        return files

    async def is_current(self) -> bool:
        """Whether nobody else has stored a version of the session's own objects."""
        ids = list(self.tokens)
        stored = await self.runtime.store.get_many(ids, without=_LONG_FIELDS)
        return all(
            object_id in stored and stored[object_id].token == self.tokens[object_id]
            for object_id in ids
        )

    async def refresh(self) -> None:
        """Read again what another client has stored of this session."""
        fresh = await type(self).load(self.runtime, self.session.session_id)
        self.session, self.chat, self.prompt = fresh.session, fresh.chat, fresh.prompt
        self.tokens, self.latest_valid = fresh.tokens, fresh.latest_valid
        self.cache.reorder()
        await self.fill()

    async def known_paths(self) -> KnownPaths:
        """Return what the last turn record says of the session's files."""
        if self._known is None:
            session_id, turn = self.session.session_id, self.chat.turn_count
            self._known = await KnownPaths.read(self.runtime.store, session_id, turn=turn)
        return self._known

    async def relocate(self, pairs: Mapping[str, str]) -> None:
        """Show other objects in place of some. The caller holds the lock."""
        await self.make_whole()
        await self.save(lambda session, _: session.relocate(pairs))
        self.cache.reorder()
        await self.fill()

    async def _learn_file(self, file: File, *, state: FileState) -> None:
        path = self.runtime.reached_at(file)
        if path is None:
            known = await self.known_paths()
            path = known.path_of(file, mounts=self.runtime.files.mounts)
        self.cache.learn_file(
            file,
            display_path=path,
            state=state,
            active=file.object_id in self.session.active_set,
        )

    async def _take_whole(self, read: StoredSets) -> None:
        object_id = session_object_id(self.session.session_id)
        if read.token == self.tokens.get(object_id):
            if not self.session.shows_same(read.session):
                raise Corrupt(f"{object_id}: the same version was read twice, with different sets")
            self.session = read.session
        else:  # another client has saved it meanwhile
            self._take(read)
        await self.fill()

    def _take(self, read: StoredSets) -> None:
        self.session = read.session
        self.tokens[session_object_id(read.session.session_id)] = read.token
        self.cache.reorder()

    async def _stored_sets(self) -> StoredSets:
        return await read_sets(self.runtime.store, self.session.session_id)

    async def _plan_again(self, draft: Draft, conflict: Conflict) -> Draft:
        lost = frozenset(conflict.object_ids)
        fixed = {item.object_id for item in draft.fixed if isinstance(item, Match)}
        if lost & fixed:
            raise conflict
        effects = await draft.effects.plan_again(self.runtime.indexing, conflicts=lost)
        toolcall = draft.toolcall
        if toolcall is not None and toolcall.object_id in lost:
            stored = await self.runtime.store.get(toolcall.object_id)
            before = None if stored is None else from_document(stored.document)
            if not isinstance(before, ToolCall) or _identity(before) != _identity(toolcall):
                raise Incorrect(
                    f"tool call {toolcall.object_id} is stored already, with other content; "
                    "use a unique id"
                )
            toolcall = None
        return replace(draft, toolcall=toolcall, effects=effects)


def valid_since(operations: Iterable[Operation], valid_from: Instant | None) -> Iterable[Operation]:
    """Return the operations with a valid time for the documents that have none."""
    if valid_from is None:
        return operations
    return [
        replace(operation, valid_from=valid_from)
        if isinstance(operation, Put) and operation.valid_from is None
        else operation
        for operation in operations
    ]


def _identity(call: ToolCall) -> tuple[object, ...]:
    """What two records of one call share; the files that were discovered may differ."""
    return (call.tool, dict(call.args), call.status, call.content, call.chat_ref)
