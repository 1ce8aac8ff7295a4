"""The engine of ``ctxmgr proxy``: recognises conversations and shapes their requests.

Touches the store, the clock and a thread for shaping.

    read        the request, compared with the last one of the client
    recognise   the conversation of the same session and agent with the longest common history
    extend      it by what is new, or begin another one with what is common
    store       what was decided
    splice      replacements into the client's bytes, and check each changed message

On any doubt the client's own bytes are forwarded, with the reason.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from uuid import uuid4

from ctxmgr.core.bounded_cache import BoundedCache
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.economy.policy import binds_thinking
from ctxmgr.core.economy.signatures import signature_rows
from ctxmgr.core.model import Usage
from ctxmgr.core.store.contract import Put, Store
from ctxmgr.core.store.documents import ID, Document
from ctxmgr.errors import CtxmgrError, Incorrect, Unavailable
from ctxmgr.proxy.conversation import Kept, Shaper, Terms, WireConversation
from ctxmgr.proxy.engine import Api, Incoming, Outgoing
from ctxmgr.proxy.modes import (
    BINDING_BETA,
    DROP_BLOCK,
    Shaping,
    policy_for,
    prices_for,
    shaping_for,
)
from ctxmgr.proxy.opening import (
    OPENING_SECONDS_MAX,
    Opening,
    begins,
    first_words,
    opening_edit,
    opening_message,
    without_known_lines,
)
from ctxmgr.proxy.records import (
    conversation_id,
    joined,
    read_terms,
    read_text,
    session_document,
    session_id,
    step_document,
    step_id,
    terms_document,
    text_document,
    text_id,
)
from ctxmgr.proxy.requests import WIRES, ReadRequest, RequestReader
from ctxmgr.proxy.retrieval import WholeText
from ctxmgr.proxy.sized_cache import SizedCache
from ctxmgr.proxy.validator import check_message
from ctxmgr.proxy.wire.json_spans import ByteSpan, Edit, appended, edited, located
from ctxmgr.proxy.wire.message import Side
from ctxmgr.proxy.wire.show_tool import is_own_show

LOG: Final = logging.getLogger(__name__)

DEADLINE_S: Final = 0.05
"""For shaping one request. Texts for which no time is left are sent whole."""

MARKS_MAX: Final = 4
"""Cache marks that Anthropic accepts in one request."""

GROUPS_MAX: Final = 64
"""Sessions whose conversations are kept in memory; others are read from the store again."""

CONVERSATIONS_MAX: Final = 8
"""Conversations of one session that a request is compared with, the newest ones."""

GROUPS_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of all conversations that are kept in memory."""

CONVERSATION_SIZE: Final = 8
"""Bytes in memory for each byte of a conversation's last request: its messages, their texts, what
is visible of them, and what was sent."""

UNSAVED_MAX: Final = 256
"""Documents of a session that wait for a store that fails; then requests pass as they come."""

STORE_SECONDS_MAX: Final = 3.0
"""How long a store that does not answer is waited for, once; what was sent is in memory then."""

CLOSE_SECONDS_MAX: Final = 5.0
"""Time for storing the rest when a proxy ends."""

INLINE_BYTES_MAX: Final = 64 * 1024
"""A request with more that is new is read by a thread, so that other streams go on."""

STEPS_PAGE: Final = 256
ANCESTORS_MAX: Final = 8
"""Earlier conversations of a session whose texts can be asked back."""

SIGNATURE_CHARS_MAX: Final = 40_000
"""In longer files no signatures are looked for, which would take most of the deadline."""

BAD_REQUEST: Final = 400

NO_TOOLS: Final = "it belongs to no known conversation and has no tools"
"""Why a request passes that does not begin a conversation."""


@dataclass(slots=True, kw_only=True)
class StoredConversation:
    """A conversation that is known from the store alone."""

    conversation_id: str
    terms: Terms
    kept: Kept = field(repr=False)
    inherited: dict[str, WholeText] = field(repr=False)


@dataclass(slots=True)
class Group:
    """The conversations of one session and agent, the newest last."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    members: dict[str, WireConversation | StoredConversation] | None = None
    """None: not read from the store yet."""
    listed: list[str] = field(default_factory=list)
    unsaved: list[Document] = field(default_factory=list, repr=False)
    """What was sent and is not stored yet, in order."""
    opening: str = ""
    """What a conversation of the session begins with."""
    saving: asyncio.Task[None] | None = None
    failure: Exception | None = None
    """Why the store did not take the last of it."""

    @property
    def in_use(self) -> bool:
        """Whether something in memory is not in the store, or may be soon."""
        return self.lock.locked() or bool(self.unsaved)

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        members = (self.members or {}).values()
        return sum(one.size for one in members if isinstance(one, WireConversation))


@dataclass(slots=True, kw_only=True)
class Shaped:
    """What the thread that shapes a request returns."""

    conversation: WireConversation
    outgoing: Outgoing
    is_new: bool
    parent: str | None
    documents: list[Document] = field(default_factory=list)


class ShapingEngine:
    """Shapes requests under the economy policy."""

    def __init__(
        self,
        store: Store,
        *,
        fidelity: float = 0.5,
        shaping: Shaping | None = None,
        excluded: Collection[str] = (),
        opening: Opening | None = None,
        deadline_s: float = DEADLINE_S,
        store_s: float = STORE_SECONDS_MAX,
        clock: Callable[[], float] = time.perf_counter,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._fidelity = fidelity
        self._shaping = shaping
        self._excluded = frozenset(name.lower() for name in excluded)
        self._opening = opening
        self._deadline_s = deadline_s
        self._store_s = store_s
        self._clock = clock
        self._now = now
        self._reader = RequestReader()
        self._groups: SizedCache[str, Group] = SizedCache(
            GROUPS_BYTES_MAX, count_max=GROUPS_MAX, in_use=lambda group: group.in_use
        )
        self._of_conversation: BoundedCache[str, str] = BoundedCache(GROUPS_MAX * CONVERSATIONS_MAX)
        self._saves: dict[asyncio.Task[None], float] = {}
        """What is being stored, and since when."""
        self._shaper = Shaper(TokenCounter().count, _signatures)
        # Loads the vocabulary and a grammar now, not within the first request's deadline.
        self._shaper.count(str(_signatures("def f():\n    pass\n", "a.py")))

    async def prepare(self, request: Incoming) -> Outgoing:
        """Return what to forward; on any doubt the client's own bytes and the reason."""
        started = self._clock()
        try:
            if self._reader.new_bytes(request) > INLINE_BYTES_MAX:
                read = await asyncio.to_thread(self._reader.read, request)
            else:
                read = self._reader.read(request)
        except (ValueError, KeyError, TypeError, RecursionError, CtxmgrError) as error:
            return Outgoing(body=request.body, reason=f"the request was not understood: {error}")
        if reason := _passes(request, read):
            return Outgoing(body=request.body, reason=reason)
        group = self._groups.get(read.group)
        if group is None:
            group = Group()
            self._groups.keep(read.group, group, size=0)
        async with group.lock:
            try:
                outgoing = await self._prepare(request, read, group, started)
            except Exception as error:  # whatever it is, the client must get its answer
                LOG.exception("a request was not shaped")
                group.members = None  # what is in memory may be ahead of what was sent
                return Outgoing(body=request.body, reason=f"shaping failed: {error}")
            self._groups.keep(read.group, group, size=group.size)
            return outgoing

    async def answered(self, conversation: str, *, status: int, usage: Usage | None) -> None:
        """Stop shaping a conversation whose shaped request was refused."""
        del usage
        group = self._group_of(conversation)
        if status != BAD_REQUEST or group is None:
            return
        async with group.lock:
            member = (group.members or {}).get(conversation)
            if isinstance(member, WireConversation) and not member.kept.unshaped:
                member.kept.unshaped = "the provider refused a shaped request (status 400)"
                number = member.kept.steps
                group.unsaved.append(step_document(conversation, number, member.step()))
                await self._saved(group)

    async def stored(self, conversation: str) -> bool:
        """Wait until what was sent is stored, for a bounded time; return whether it is."""
        group = self._group_of(conversation)
        return group is None or not group.unsaved or await self._saved(group)

    async def close(self) -> None:
        """Wait until everything that was sent is stored, for a bounded time."""
        if self._saves:
            await asyncio.wait(self._saves, timeout=CLOSE_SECONDS_MAX)

    def _group_of(self, conversation: str) -> Group | None:
        name = self._of_conversation.get(conversation)
        return None if name is None else self._groups.get(name)

    async def _prepare(
        self, request: Incoming, read: ReadRequest, group: Group, started: float
    ) -> Outgoing:
        if group.members is None:
            await self._load(read, group)
        members = group.members
        assert members is not None
        best = max(members.values(), key=lambda one: _common(one, read.chain), default=None)
        common = 0 if best is None else _common(best, read.chain)
        counting = request.path.endswith("/count_tokens")
        if best is None or not common:
            best = None
            if counting or not read.tools.names:
                return Outgoing(body=request.body, reason=NO_TOOLS)
            if isinstance(newest := _newest(group), StoredConversation):
                newest.inherited |= await self._own_texts(newest)
        if isinstance(best, StoredConversation) and best.kept.unshaped:
            return Outgoing(
                body=request.body,
                conversation=best.conversation_id,
                reason=best.kept.unshaped,
            )
        if isinstance(best, StoredConversation) and common == len(best.kept.chain):
            best = await asyncio.to_thread(self._restore, best, read)
            members[best.conversation_id] = best
        if counting or not read.tools.names or read.entries[-1].message.side is Side.ASSISTANT:
            return await asyncio.to_thread(self._as_known, read, best, common)
        if len(group.unsaved) > UNSAVED_MAX:
            raise Unavailable(f"the store took nothing of the last {len(group.unsaved)} changes")
        if best is None:
            group.opening = await self._opening_for(read, group)
        shaped = await asyncio.to_thread(self._shape, read, best, group, common, started)
        conversation = shaped.conversation
        name = conversation.conversation_id
        if conversation.kept.unshaped and not shaped.is_new:
            return shaped.outgoing
        if shaped.is_new:
            listed = [*group.listed, name]
            shaped.documents += [
                session_document(read.group, listed),
                terms_document(name, conversation.terms, group=read.group, parent=shaped.parent),
            ]
            group.unsaved += shaped.documents
            if best is None and not await self._saved(group):
                # A conversation that is not stored must not begin: nobody could continue it.
                _drop(group.unsaved, shaped.documents)
                silent = f"the store did not answer within {self._store_s:g} s"
                raise group.failure or Unavailable(silent)
            group.listed = listed
        else:
            group.unsaved += shaped.documents
        self._save(group)
        members.pop(name, None)
        members[name] = conversation
        while len(members) > CONVERSATIONS_MAX:
            members.pop(next(iter(members)))
        self._of_conversation.keep(name, read.group)
        return shaped.outgoing

    def _save(self, group: Group) -> None:
        """Begin to store what was decided, unless that is under way."""
        if group.unsaved and (group.saving is None or group.saving.done()):
            group.saving = asyncio.create_task(self._commit(group))
            self._saves[group.saving] = self._clock()
            group.saving.add_done_callback(self._saves.pop)

    async def _saved(self, group: Group) -> bool:
        """Store what was decided; return whether that was done in time.

        A store that has not answered for a while is not waited for again.
        """
        self._save(group)
        while group.saving is not None and not group.saving.done():
            left = self._store_s - self._store_silent_s()
            if left <= 0:
                return False
            await asyncio.wait({group.saving}, timeout=left)
        return not group.unsaved

    def _store_silent_s(self) -> float:
        """Return for how long the store has not answered."""
        return self._clock() - min(self._saves.values(), default=self._clock())

    async def _commit(self, group: Group) -> None:
        """Store what was decided, in order; what the store does not take is tried again later.

        What a conversation was sent must be sent again, whether or not the store works now.
        """
        while group.unsaved:
            taken = list(group.unsaved)
            newest = {document[ID]: document for document in taken}  # one may have changed again
            try:
                await self._store.commit([Put(document) for document in newest.values()])
            except Exception as error:
                if group.failure is None:
                    LOG.exception("what was sent is not stored; it is tried with each request")
                group.failure = error
                return
            _drop(group.unsaved, taken)
            group.failure = None

    def _shape(
        self,
        read: ReadRequest,
        best: WireConversation | StoredConversation | None,
        group: Group,
        common: int,
        started: float,
    ) -> Shaped:
        """Shape a request. Runs in a thread."""

        def expired() -> bool:
            return self._clock() - started > self._deadline_s

        now = self._now()
        conversation, is_new, late = self._taken_in(read, best, group, common, expired)
        conversation.size = CONVERSATION_SIZE * len(read.body)
        kept = conversation.kept
        if kept.unshaped:
            return Shaped(
                conversation=conversation,
                outgoing=Outgoing(
                    body=read.body,
                    conversation=conversation.conversation_id,
                    reason=kept.unshaped,
                    baseline_tokens=sum(kept.tokens) + read.head_tokens,
                    sent_tokens=sum(kept.tokens) + read.head_tokens,
                ),
                is_new=is_new,
                parent=None,
                documents=self._documents(conversation) if is_new else [],
            )
        cause = _cold_cache(conversation, read, now)
        cold = kept.sent_at == 0 or cause is not None
        if cause is None and best is not None and common < len(best.kept.chain) and is_new:
            cause = f"the client changed message {common}"
        if not expired() and self._may_fold(read):
            plan = conversation.fold(cold=cold)
            if plan is not None and not cold:
                cause = "planned"
            if plan is not None and binds_thinking(read.model):
                kept.drops_thinking = True
        else:
            conversation.render()
        kept.model, kept.sent_at = read.model, now
        keys = conversation.changed_keys()
        folds = conversation.shaped_texts()
        if cause == "planned":
            planned = [fold for fold in folds if fold.planned]
            first = min((fold.message for fold in planned), default=0)
            cause = f"planned: {len(planned)} texts were folded, from message {first} on"
        documents = self._documents(conversation, keys)
        marked = _marked(read, conversation)
        body, headers = self._spliced(read, conversation, len(read.entries), marked)
        baseline = sum(kept.tokens) + read.head_tokens
        reason = f"{late} turns were sent whole: the deadline had passed" if late else None
        outgoing = Outgoing(
            body=body,
            shaped=body != read.body,
            conversation=conversation.conversation_id,
            reason=reason,
            folds=folds,
            added_headers=headers,
            baseline_tokens=baseline,
            sent_tokens=baseline
            - conversation.saved_tokens()
            + self._shaper.count(conversation.terms.tool.decode())
            + self._shaper.count(conversation.terms.opening),
            retrieved_tokens=conversation.retrieved_tokens,
            break_cause=cause,
        )
        parent = best.conversation_id if best is not None and is_new else None
        return Shaped(
            conversation=conversation,
            outgoing=outgoing,
            is_new=is_new,
            parent=parent if parent is not None else _newest_id(group),
            documents=documents,
        )

    def _may_fold(self, read: ReadRequest) -> bool:
        """Return whether sent texts may be folded now.

        Thinking that is bound to its prefix would be lost in the middle of a tool loop.
        """
        if shaping_for(read.model, self._shaping) is not Shaping.FOLDS:
            return False
        return not binds_thinking(read.model) or not read.entries[-1].message.results

    def _documents(
        self, conversation: WireConversation, keys: Sequence[str] = ()
    ) -> list[Document]:
        name, number = conversation.conversation_id, conversation.kept.steps
        return [
            *(
                text_document(name, handle, text)
                for handle, text in conversation.whole_texts(keys).items()
            ),
            step_document(name, number, conversation.step()),
        ]

    def _taken_in(
        self,
        read: ReadRequest,
        best: WireConversation | StoredConversation | None,
        group: Group,
        common: int,
        expired: Callable[[], bool],
    ) -> tuple[WireConversation, bool, int]:
        """Return the conversation with what is new, whether it is new, and turns sent whole."""
        count = self._shaper.count
        if isinstance(best, WireConversation) and common == len(best.kept.chain):
            if best.kept.unshaped:
                return best, False, 0
            self._adapt(best, read)
            known = best.kept.tokens
            tokens = [*known, *(entry.tokens(count) for entry in read.entries[common:])]
            messages = read.messages(common)
            late = best.extend(messages, chain=read.chain, tokens=tokens, expired=expired)
            return best, False, late
        name, messages = uuid4().hex, read.messages()
        tokens = [entry.tokens(count) for entry in read.entries]
        if best is not None:
            conversation, late = WireConversation.fork(
                best.kept,
                best.terms,
                name,
                messages,
                turns=best.turns if isinstance(best, WireConversation) else (),
                chain=read.chain,
                tokens=tokens,
                expired=expired,
                shaper=self._shaper,
                inherited=best.inherited,
            )
            return conversation, True, late
        conversation = self._begun(name, read, group)
        if conversation.kept.unshaped:
            return conversation, True, 0
        late = conversation.extend(messages, chain=read.chain, tokens=tokens, expired=expired)
        return conversation, True, late

    async def _opening_for(self, read: ReadRequest, group: Group) -> str:
        """Return the text that a new conversation begins with.

        After a compaction it is the one that its session began with.
        """
        newest = _newest(group)
        if newest is not None:
            return newest.terms.opening
        if self._opening is None or not begins(read):
            return ""
        try:
            async with asyncio.timeout(OPENING_SECONDS_MAX):
                text = await self._opening(await asyncio.to_thread(first_words, read))
        except Exception:
            LOG.exception("a conversation begins without memory and knowledge")
            return ""
        return await asyncio.to_thread(without_known_lines, text, read.body)

    def _begun(self, name: str, read: ReadRequest, group: Group) -> WireConversation:
        """Return a conversation that continues none."""
        newest = _newest(group)
        shaping = shaping_for(read.model, self._shaping)
        policy = policy_for(shaping, fidelity=self._fidelity, prices=prices_for(read.api, read.ttl))
        has_own = any(map(is_own_show, read.tools.names))
        terms = Terms(
            shaping=shaping,
            policy=policy,
            tool=b"" if has_own else WIRES[read.api].show_tool,
            excluded=self._excluded,
            opening=group.opening,
        )
        texts: dict[str, WholeText] = {}
        if newest is not None:
            # The definitions of tools are still cached, and what a summary names must be found.
            terms = replace(terms, tool=newest.terms.tool, first_handle=newest.kept.next_handle)
            texts = dict(newest.inherited)
        if isinstance(newest, WireConversation):
            texts |= newest.whole_texts(newest.kept.replaced)
        conversation = WireConversation(name, terms, shaper=self._shaper, inherited=texts)
        if newest is None and binds_thinking(read.model) and _has_thinking(read):
            conversation.kept.unshaped = (
                "the conversation began without the proxy, and the model binds its thinking to"
                " what it was sent"
            )
            conversation.kept.chain = list(read.chain)
            conversation.kept.tokens = [entry.tokens(self._shaper.count) for entry in read.entries]
        return conversation

    def _adapt(self, conversation: WireConversation, read: ReadRequest) -> None:
        """Take over what the client has changed: the model, or the lifetime of its cache."""
        conversation.restrict(shaping_for(read.model, self._shaping))
        prices = prices_for(read.api, read.ttl)
        if prices != conversation.policy.prices:
            conversation.reprice(replace(conversation.policy, prices=prices))

    def _restore(self, stored: StoredConversation, read: ReadRequest) -> WireConversation:
        """Return a conversation as it was before the proxy was restarted. Runs in a thread."""
        return WireConversation.restored(
            stored.conversation_id,
            stored.terms,
            stored.kept,
            read.messages(0, len(stored.kept.chain)),
            shaper=self._shaper,
            inherited=stored.inherited,
        )

    def _as_known(
        self, read: ReadRequest, best: WireConversation | StoredConversation | None, common: int
    ) -> Outgoing:
        """Return a request with what is known of its conversation, which it does not continue."""
        if not isinstance(best, WireConversation) or best.kept.unshaped:
            return Outgoing(body=read.body, reason="it continues no conversation in use")
        body, headers = self._spliced(read, best, common)
        return Outgoing(
            body=body,
            shaped=body != read.body,
            reason=None if body != read.body else "nothing of it is shaped",
            added_headers=headers,
        )

    def _spliced(
        self,
        read: ReadRequest,
        conversation: WireConversation,
        known: int,
        marked: Sequence[int] = (),
    ) -> tuple[bytes, dict[str, str]]:
        """Return the client's bytes with all replacements and cache marks, and headers to add."""
        marks: dict[int, Callable[[bytes], bytes]] = {
            index: partial(_with_mark, read, index) for index in marked
        }
        opening = conversation.terms.opening
        added = opening_message(read, opening) if opening else None
        if added is not None and added[0] < known:
            index, message = added
            marks[index] = partial(_after, message + b",", marks.get(index))
        tool, item = conversation.terms.tool, read.tool_item
        if tool and item is not None and item < known:
            marks[item] = partial(_with_tool, tool, marks.get(item))
        messages = conversation.sent_messages(read, known, changes=marks)
        span = ByteSpan(read.spans[0].start, read.spans[known - 1].end)
        edits = [Edit(span, messages)] if known else []
        if opening and (edit := opening_edit(read, opening)) is not None:
            edits.append(edit)
        tools = read.fields.get("tools")
        if tool and tools is not None and read.tools.names and item is None:
            at = ByteSpan(tools.end - 1, tools.end - 1)
            edits.append(Edit(at, b"," + tool))
        headers: dict[str, str] = {}
        if conversation.kept.drops_thinking and (thinking := read.fields.get("thinking")):
            if b'"block_binding"' not in read.raw("thinking"):
                edits.append(appended(located(read.body, thinking.start), DROP_BLOCK))
            headers["anthropic-beta"] = BINDING_BETA
        return edited(read.body, edits) if edits else read.body, headers

    async def _load(self, read: ReadRequest, group: Group) -> None:
        """Read the conversations of a group from the store."""
        if group.unsaved and not await self._saved(group):
            raise Unavailable("the store does not take what was sent before")
        try:
            async with asyncio.timeout(max(0.0, self._store_s - self._store_silent_s())):
                await self._load_stored(read, group)
        except TimeoutError as error:
            message = f"the store did not answer within {self._store_s:g} s"
            raise Unavailable(message) from error

    async def _load_stored(self, read: ReadRequest, group: Group) -> None:
        name = read.group
        found = await self._store.get(session_id(name))
        if found is None and read.earlier_group is not None:
            found = await self._store.get(session_id(read.earlier_group))
        listed = [] if found is None else [str(one) for one in found.document["conversations"]]
        members: dict[str, WireConversation | StoredConversation] = {}
        for conversation in listed[-CONVERSATIONS_MAX:]:
            stored = await self._read(conversation)
            if stored is not None:
                members[conversation] = stored
                self._of_conversation.keep(conversation, name)
        group.listed, group.members = listed, members

    async def _read(self, conversation: str) -> StoredConversation | None:
        found = await self._store.get(conversation_id(conversation))
        if found is None:
            return None
        terms, parent = read_terms(found.document)
        steps: list[Document] = []
        while len(steps) % STEPS_PAGE == 0:
            ids = [step_id(conversation, len(steps) + n) for n in range(STEPS_PAGE)]
            page = await self._store.get_many(ids)
            steps += [page[one].document for one in ids if one in page]
            if not page:
                break
        if not steps:
            return None
        return StoredConversation(
            conversation_id=conversation,
            terms=terms,
            kept=joined(steps),
            inherited=await self._inherited(terms, parent),
        )

    async def _own_texts(self, stored: StoredConversation) -> dict[str, WholeText]:
        """Return the texts that a conversation showed in part, by their handles."""
        numbers = range(stored.terms.first_handle, stored.kept.next_handle)
        name = stored.conversation_id
        found = await self._store.get_many([text_id(name, f"#{n}") for n in numbers])
        return {
            str(version.document["handle"]): read_text(version.document)
            for version in found.values()
        }

    async def _inherited(self, terms: Terms, parent: str | None) -> dict[str, WholeText]:
        """Return the texts of earlier conversations of the session."""
        texts: dict[str, WholeText] = {}
        for _ in range(ANCESTORS_MAX):
            if parent is None or terms.first_handle <= 1:
                break
            ids = [text_id(parent, f"#{n}") for n in range(1, terms.first_handle)]
            found = await self._store.get_many(ids)
            for version in found.values():
                texts.setdefault(str(version.document["handle"]), read_text(version.document))
            above = await self._store.get(conversation_id(parent))
            if above is None:
                break
            terms, parent = read_terms(above.document)
        return texts


def _passes(request: Incoming, read: ReadRequest) -> str | None:
    """Return why a request is forwarded as it is, whatever conversation it belongs to."""
    metadata = request.headers.get("x-codex-turn-metadata", "")
    if '"prewarm"' in metadata:
        return "it only prepares a connection"
    if read.raw("previous_response_id") not in (b"", b"null"):
        return "the provider keeps the history (previous_response_id)"
    return None


def _common(member: WireConversation | StoredConversation, chain: Sequence[str]) -> int:
    """Return how many messages are the same: each hash is one of all messages up to its own."""
    own = member.kept.chain
    low, high = 0, min(len(own), len(chain))
    if high and own[high - 1] == chain[high - 1]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if own[middle - 1] == chain[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


def _cold_cache(conversation: WireConversation, read: ReadRequest, now: float) -> str | None:
    """Return why nothing of the last request is cached any more, if that is so."""
    kept = conversation.kept
    if kept.sent_at == 0:
        return None
    if kept.model and kept.model != read.model:
        return f"the client changed the model from {kept.model} to {read.model}"
    if now - kept.sent_at > conversation.policy.prices.ttl_seconds:
        return f"the cache had expired: {now - kept.sent_at:.0f} s without a request"
    return None


def _has_thinking(read: ReadRequest) -> bool:
    return any(entry.message.has_thinking for entry in read.entries)


def _drop(documents: list[Document], dropped: Sequence[Document]) -> None:
    """Remove documents from a list to which others may have been added since."""
    gone = set(map(id, dropped))
    documents[:] = [one for one in documents if id(one) not in gone]


def _newest(group: Group) -> WireConversation | StoredConversation | None:
    members = list((group.members or {}).values())
    return members[-1] if members else None


def _newest_id(group: Group) -> str | None:
    newest = _newest(group)
    return None if newest is None else newest.conversation_id


def _marked(read: ReadRequest, conversation: WireConversation) -> list[int]:
    """Return the messages that get a cache mark, if the client sets some and leaves room."""
    if read.api is not Api.ANTHROPIC_MESSAGES or not read.marks:
        return []
    marked: list[int] = []
    for index in conversation.mark_ends(read.messages()):
        message = read.entries[index].message
        has_room = read.marks + len(marked) < MARKS_MAX
        if has_room and index not in marked and message.markable is not None and not message.marks:
            marked.append(index)
    conversation.sent_marks([*read.marked, *marked])
    return marked


def _with_mark(read: ReadRequest, index: int, raw: bytes) -> bytes:
    """Return a message with a cache mark like those of the client."""
    entry = read.entries[index]
    path = entry.message.markable
    if path is None:
        raise Incorrect("a message without blocks cannot carry a cache mark")
    mark = {"type": "ephemeral"} | ({"ttl": read.ttl} if read.ttl else {})
    written = b'"cache_control":' + json.dumps(mark, separators=(",", ":")).encode()
    marked = edited(raw, [appended(located(raw).at(path), written)])
    check_message(raw, marked, places=())
    return marked


def _after(added: bytes, change: Callable[[bytes], bytes] | None, raw: bytes) -> bytes:
    """Return a message after an added one."""
    return added + (raw if change is None else change(raw))


def _with_tool(tool: bytes, change: Callable[[bytes], bytes] | None, raw: bytes) -> bytes:
    """Return a message that defines tools with one more."""
    text = raw if change is None else change(raw)
    at = text.rindex(raw)  # a change of such a message only puts another one before it
    edit = appended(located(raw).at(("tools",)), tool)
    return text[:at] + edited(raw, [edit])


def _signatures(content: str, path: str) -> frozenset[int]:
    return signature_rows(content, path) if len(content) <= SIGNATURE_CHARS_MAX else frozenset()
