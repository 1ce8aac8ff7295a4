"""One session as it is stored and as it is known here. Commits, and reads the store.

    sets, chat, system prompt    each with the token that guards its next version
    cache                        what is known of the objects

A change is a function of the session. It is saved with whatever belongs to it in one transaction,
guarded by the version that it was made on. Where another client was faster, its sets are read and
merged with ours; files are looked at again; a tool call of the same content is the same call. Only
a turn is never merged: it answers a prompt that did not hold the other client's turn.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

from ctxmgr.core.contents import File, FileState, ToolCall
from ctxmgr.core.documents import ID
from ctxmgr.core.envelopes import session_object_id
from ctxmgr.core.index_plans import Outcome, Plan
from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt
from ctxmgr.core.metadata_cache import MetadataCache
from ctxmgr.core.objects import from_document, to_document
from ctxmgr.core.proven_sessions import StoredSets
from ctxmgr.core.sessions import Session, merge
from ctxmgr.core.store import Commit, Match, Operation, Put, Version
from ctxmgr.core.stored_sessions import read_session, read_sets
from ctxmgr.core.surroundings import Surroundings
from ctxmgr.errors import Conflict, Corrupt, Incorrect

ATTEMPTS_MAX: Final = 8
"""Times that one change is tried: each conflict is another writer's success."""

PROVEN_AT_ONCE: Final = 100
"""Versions taken in before other tasks have their turn: whoever reads the next is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What one transaction is to hold besides the session."""

    toolcall: ToolCall | None = None
    plans: tuple[Plan, ...] = ()
    fixed: tuple[Operation, ...] = ()
    """A conflict of these is raised."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(outcome for each in self.plans for outcome in each.outcomes)

    def operations(self) -> list[Operation]:
        operations = [operation for each in self.plans for operation in each.operations]
        if self.toolcall is not None:
            operations += [
                Match(self.toolcall.object_id, None),
                Put(to_document(self.toolcall)),
            ]
        return [*operations, *self.fixed]


NOTHING: Final = Draft()
Change: TypeAlias = Callable[[Session, Draft], Session]


class SessionState:
    """Where a session stands. One writer at a time: hold ``lock`` around a change."""

    def __init__(
        self, surroundings: Surroundings, *, session: Session, chat: Chat, prompt: SystemPrompt
    ) -> None:
        self.surroundings = surroundings
        self.session = session
        self.view = Session(session_id=session.session_id)
        """The session as the cache can show it: a moment behind while something is being read."""
        self.chat = chat
        self.prompt = prompt
        self.cache = MetadataCache()
        self.lock = asyncio.Lock()
        self.sequence: int | None = None
        """Of the last transaction that is known here."""
        self.tokens: dict[str, str | None] = {}
        """What guards the next version of each of our own objects."""

    @classmethod
    async def create(
        cls,
        surroundings: Surroundings,
        session: Session,
        *,
        chat: Chat,
        prompt: SystemPrompt,
        besides: Iterable[Operation] = (),
    ) -> Self:
        """Store a new session with its chat and system prompt, in one transaction."""
        state = cls(surroundings, session=session, chat=chat, prompt=prompt)
        objects = (prompt, chat, session.to_record())
        operations: list[Operation] = [Match(each.object_id, None) for each in objects]
        try:
            commit = await surroundings.commit(
                [*operations, *(Put(to_document(each)) for each in objects), *besides]
            )
        except Conflict as error:
            raise Incorrect(
                f"session {session.session_id} exists already: resume it, or take another id"
            ) from error
        state.note(commit, *(each.object_id for each in objects))
        return state

    @classmethod
    async def load(cls, surroundings: Surroundings, session_id: str, *, whole: bool = True) -> Self:
        """Read a session with its chat and system prompt; ``NotFound`` if there is none.

        Without ``whole`` its index is left out, until ``make_whole`` or ``read_index`` is called.
        """
        read = await read_session(surroundings.store, session_id, whole=whole)
        state = cls(surroundings, session=read.session, chat=read.chat, prompt=read.prompt)
        state.tokens = dict(read.tokens)
        return state

    async def make_whole(self) -> None:
        """Read the index if it was left out, for whoever holds the lock."""
        if not self.session.is_whole:
            await self._take_whole(await self._stored_sets())

    async def read_index(self) -> None:
        """Read the index if it was left out, and hold the lock only to take it in."""
        if self.session.is_whole:
            return
        read = await self._stored_sets()
        async with self.lock:
            if not self.session.is_whole:
                await self._take_whole(read)

    def note(self, commit: Commit, *object_ids: str) -> None:
        """Remember what guards the next version of what was just put."""
        self.sequence = max(self.sequence or 0, commit.sequence)
        self.tokens.update(dict.fromkeys(object_ids, commit.token))

    def guarded(self, version: Chat | SystemPrompt | SessionRecord) -> list[Operation]:
        """Return the operations that put the next version of one of our own objects."""
        token = self.tokens.get(version.object_id)
        guard: list[Operation] = [] if token is None else [Match(version.object_id, token)]
        return [*guard, Put(to_document(version))]

    async def save(self, change: Change, *, draft: Draft = NOTHING) -> Draft:
        """Change the session, and store it with the draft in one transaction.

        Returns the draft as it was stored. A change that changes nothing writes nothing.
        """
        base = self.session
        ours = change(base, draft)
        for _ in range(ATTEMPTS_MAX):
            operations = draft.operations()
            if ours != self.session:
                operations += self.guarded(ours.to_record())
            if not operations:
                return draft
            try:
                commit = await self.surroundings.commit(operations)
            except Conflict as conflict:
                draft = await self._plan_again(draft, conflict)
                if session_object_id(base.session_id) in conflict.object_ids:
                    await self._take_theirs()
                ours = merge(base, change(base, draft), theirs=self.session)
                continue
            self._saved(ours, draft, commit)
            await self.learn(draft)
            return draft
        raise Conflict((session_object_id(base.session_id),))

    async def learn(self, draft: Draft) -> None:
        """Take into the cache what was stored, then whatever is still missing."""
        if draft.toolcall is not None:
            call = draft.toolcall
            self.cache.learn_call(call, active=call.object_id in self.session.active_set)
        for outcome in draft.outcomes:
            await self.learn_outcome(outcome)
        await self.fill()
        if self.surroundings.follow is not None:
            read = (each for each in draft.outcomes if each.unread is None)
            await self.surroundings.follow(each.file for each in read if each.file is not None)

    async def learn_outcome(self, outcome: Outcome) -> None:
        """Refresh what is known of a file. Changes no set: only the agent and its tools do."""
        if outcome.file is None or outcome.object_id not in self.session.session_index:
            return
        state = outcome.state or await self.surroundings.state_of(outcome.file)
        self._learn_file(outcome.file, state=state)

    async def fill(self) -> None:
        """Read what the session shows and the cache does not have."""
        missing = self.cache.missing(self.session)
        if missing:
            await self.learn_versions((await self.surroundings.store.get_many(missing)).values())
        lost = self.cache.missing(self.session)
        if lost:
            raise Corrupt(f"{lost[0]} is in session {self.session.session_id} and not in its store")
        self.cache.let_go(self.session)
        self.view = self.session

    async def learn_versions(self, versions: Iterable[Version]) -> list[File]:
        """Take in stored content objects; return the files among them."""
        files = []
        for number, version in enumerate(versions, 1):
            if number % PROVEN_AT_ONCE == 0:
                await asyncio.sleep(0)
            stored = from_document(version.document)
            if isinstance(stored, ToolCall):
                active = stored.object_id in self.session.active_set
                self.cache.learn_call(stored, active=active)
            elif isinstance(stored, File):
                state = await self.surroundings.state_of(stored, version=version)
                self._learn_file(stored, state=state)
                files.append(stored)
            else:
                raise Corrupt(f"{stored.object_id} is a {stored.kind}, and no content object")
        return files

    async def refresh(self) -> None:
        """Take over what another client has stored of this session."""
        fresh = await type(self).load(self.surroundings, self.session.session_id)
        self.session, self.chat, self.prompt = fresh.session, fresh.chat, fresh.prompt
        self.tokens = fresh.tokens
        self.cache.reorder()
        await self.fill()

    def _learn_file(self, file: File, *, state: FileState) -> None:
        self.cache.learn_file(
            file,
            display_path=self.surroundings.display_path(file),
            state=state,
            active=file.object_id in self.session.active_set,
        )

    def _saved(self, session: Session, draft: Draft, commit: Commit) -> None:
        put = [each.document[ID] for each in draft.fixed if isinstance(each, Put)]
        if session != self.session:
            put.append(session_object_id(session.session_id))
        self.note(commit, *put)
        self.session = session

    async def _take_whole(self, read: StoredSets) -> None:
        object_id = session_object_id(self.session.session_id)
        if read.token == self.tokens.get(object_id):
            if not self.session.shows_same(read.session):
                raise Corrupt(f"{object_id}: its sets were read twice, and differ")
            self.session = read.session
        else:  # another client has saved it meanwhile
            self._take(read)
        await self.fill()

    async def _take_theirs(self) -> None:
        self._take(await self._stored_sets())

    def _take(self, read: StoredSets) -> None:
        self.session = read.session
        self.tokens[session_object_id(read.session.session_id)] = read.token
        self.cache.reorder()

    async def _stored_sets(self) -> StoredSets:
        return await read_sets(self.surroundings.store, self.session.session_id)

    async def _plan_again(self, draft: Draft, conflict: Conflict) -> Draft:
        lost = frozenset(conflict.object_ids)
        fixed = {each.object_id for each in draft.fixed if isinstance(each, Match)}
        if lost & fixed:
            raise conflict
        plans = [
            await self.surroundings.indexing.plan_again(each)
            if lost & {outcome.object_id for outcome in each.outcomes}
            else each
            for each in draft.plans
        ]
        toolcall = draft.toolcall
        if toolcall is not None and toolcall.object_id in lost:
            await self._require_same(toolcall)
            toolcall = None
        return replace(draft, toolcall=toolcall, plans=tuple(plans))

    async def _require_same(self, toolcall: ToolCall) -> None:
        stored = await self.surroundings.store.get(toolcall.object_id)
        before = None if stored is None else from_document(stored.document)
        same = isinstance(before, ToolCall) and _said(before) == _said(toolcall)
        if not same:
            raise Incorrect(
                f"{toolcall.object_id}: this tool call is stored already, with other content; "
                "ids must be unique"
            )


def _said(toolcall: ToolCall) -> tuple[object, ...]:
    """What makes two records of one call the same, whatever files were found meanwhile."""
    return (
        toolcall.tool,
        dict(toolcall.args),
        toolcall.status,
        toolcall.content,
        toolcall.chat_ref,
    )
