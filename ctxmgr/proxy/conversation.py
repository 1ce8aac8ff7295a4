"""One conversation: what was sent of every text, and what is sent of new ones. Pure.

    extend      take in new messages, shape their texts once, and fold what pays
    written     a message with its replacements, as they were decided
    step        what a store has to keep of the last ``extend``
    restored    the conversation as it was, from what was stored and the client's own messages
    fork        another one that begins with the same turns, shown as they were shown

The client sends all of its history with every request, so nothing of it is stored here but hashes.
What is stored is what was shown instead. A replacement is kept as text: a later version of this
program may shorten in another way, and what was sent must not change.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import Count, FoldLimits, TextView, shown
from ctxmgr.core.economy.planner import FoldPlan, FoldPlanner
from ctxmgr.core.economy.policy import ASKED_BACK_MAX, REPEATS, UNTOUCHED, Economy
from ctxmgr.core.economy.slot_texts import Signatures
from ctxmgr.core.economy.stream import Stream
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.economy.stream_turns import HeldTurn, TextSlot, strings, turn_number
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.proxy.engine import ShapedText
from ctxmgr.proxy.modes import Shaping
from ctxmgr.proxy.requests import Entry, ReadRequest
from ctxmgr.proxy.retrieval import WholeText, asked_handle, shown_text
from ctxmgr.proxy.sent_history import SentHistory
from ctxmgr.proxy.turns import TurnBuilder, WireExchange, WireTurn
from ctxmgr.proxy.validator import check_message
from ctxmgr.proxy.wire.json_spans import edited
from ctxmgr.proxy.wire.message import StringPlace, WireMessage, changed
from ctxmgr.proxy.wire.show_tool import SHOW_TOOL, is_own_show

IDLE_SHARE: Final = 0.75
"""Of the tokens of a digest: what an idle text keeps, every later call pays for."""

SMALL_TOKENS: Final = 300
"""A shorter result is sent whole: little is saved, and models distrust what looks cut."""

READ_TOKENS: Final = 3_000
"""A longer file is shortened to its most useful lines before it is first sent, if that is the only
time: every later call pays for all of it. What is left out costs one more call, if it is needed."""

READ_SAVING_MIN: Final = 0.3
"""The share of such a file that is left out at least. An edit needs exact lines, so that more of
them stay than of other texts."""

READ_NAMES_TOKENS: Final = 150
"""For hidden names in such a file. All else that may stay of it is for lines."""

LONG_CHARS: Final = 60
"""A shorter argument is never shortened."""

LOOKBACK_BLOCKS: Final = 20
"""Anthropic finds a cached prefix that ends at most so many blocks before a mark."""


EXPLANATION: Final = (
    f"\n(ctxmgr shortened this text. Its source is intact; {SHOW_TOOL} returns what is left out.)"
)
"""After the first text of a conversation that is shortened."""

OWN_EXPLANATION: Final = (
    "\n(ctxmgr shortened this text. Its source is intact. `⋯` stands for what is left out, and"
    " `show` of the MCP server ctxmgr returns it: its object_id is the number with #.)"
)
"""The same where the client has the MCP server's tool."""


class WireStream(Stream):
    """The stream of a conversation that a client keeps itself.

    Its calls stay where they are, since the client pairs them with their results: they are never
    merged into digests.
    """

    def __init__(
        self, policy: Economy, *, count: Count, signatures: Signatures, arguments: bool
    ) -> None:
        super().__init__(policy, count=count, signatures=signatures)
        self.arguments = arguments
        """Whether arguments are shaped, too."""
        self.whole: set[str] = set()
        """Objects that are shown whole when they arrive."""

    def arriving(self, slot: TextSlot) -> FoldLimits | None:
        if slot.kind is OutputKind.ARGUMENT:
            # The assistant wrote it and has seen what came of it: it is as good as idle.
            tokens = self.count(slot.content)
            return self.aged(slot.kind, tokens=tokens) if self.arguments else None
        tokens = self.count(slot.content)
        if slot.object_id in self.whole or tokens < SMALL_TOKENS:
            return UNTOUCHED
        if slot.kind is OutputKind.READ and not self.shaping.folds_sent:
            return self._read_on_arrival(slot, tokens)
        if slot.kind is OutputKind.READ and not self.broken:
            # Nothing was worth folding so far: an earlier copy of a line will probably stay, too.
            return REPEATS
        return super().arriving(slot)

    def _read_on_arrival(self, slot: TextSlot, tokens: int) -> FoldLimits:
        """Return the limits for a file that cannot be folded later."""
        before = self._newest.get(slot.subject)
        if before is not None and before.view is not None:
            return REPEATS  # what was left out is needed
        asked_back = min(self.asked_back[OutputKind.READ], ASKED_BACK_MAX)
        return FoldLimits(
            tokens=int((1 - READ_SAVING_MIN) * tokens) - READ_NAMES_TOKENS,
            names_tokens=READ_NAMES_TOKENS,
            over=READ_TOKENS * 2**asked_back,
            saving_min=READ_SAVING_MIN,
        )

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        """Return the limits for an idle text: there are no digests, so it gets less at once."""
        limits = super().aged(kind, tokens=tokens)
        digest = self.shaping.digest(tokens=tokens)
        return replace(
            limits,
            tokens=min(limits.tokens, int(IDLE_SHARE * digest.tokens)),
            worth_min=max(limits.worth_min, digest.worth_min),
        )

    def digestible(
        self, *, pinned: Collection[str], held: Callable[[str], bool]
    ) -> Iterator[tuple[int, int, int]]:
        del pinned, held
        return iter(())


class Replaced(NamedTuple):
    """What is sent instead of a text."""

    text: str
    whole_tokens: int
    sent_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a conversation is shaped by. It never changes: newer rules apply to newer ones."""

    shaping: Shaping
    policy: Economy
    tool: bytes = b""
    """The tool that was added to its requests; empty: none."""
    excluded: frozenset[str] = frozenset()
    """Tools whose results are never shortened."""
    first_handle: int = 1
    """Earlier conversations of the same session have used the numbers before."""
    opening: str = ""
    """Text that is added where it begins; empty: none."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """What a store keeps of a conversation besides its terms."""

    chain: list[str] = field(default_factory=list)
    """For each message, a hash of it and of all before it."""
    tokens: list[int] = field(default_factory=list)
    """Of each message, as the client sent it."""
    views: dict[str, TextView] = field(default_factory=dict)
    replaced: dict[str, Replaced] = field(default_factory=dict)
    retrieved: dict[str, str] = field(default_factory=dict)
    """Texts that the model asked back, by the key of the result that holds them."""
    state: StreamState | None = None
    model: str = ""
    sent_at: float = 0.0
    drops_thinking: bool = False
    """Whether the provider must be asked to drop thinking, since something before it changed."""
    unshaped: str = ""
    """Why nothing is shaped any more."""
    explained: str = ""
    """The key of the text that says what was done to it."""
    next_handle: int = 1
    steps: int = 0


class Shaper(NamedTuple):
    """How texts are counted and their signatures found."""

    count: Count
    signatures: Signatures


class WireConversation:
    """A conversation between a client and a model."""

    def __init__(
        self,
        conversation_id: str,
        terms: Terms,
        *,
        shaper: Shaper,
        inherited: Mapping[str, WholeText],
    ) -> None:
        self.conversation_id = conversation_id
        self.terms = terms
        self.kept = Kept()
        self.inherited = dict(inherited)
        """Texts of earlier conversations of the session."""
        self.turns: list[WireTurn] = []
        self.plan: FoldPlan | None = None
        """The batch of the last request."""
        self.retrieved_tokens = 0
        """In the last request."""
        self.size = 0
        """About how many bytes it takes in memory."""
        self._count = shaper.count
        self._shaper = shaper
        self._stream = self._new_stream()
        self._planner = FoldPlanner(self._stream)
        self._builder = TurnBuilder()
        self._calls: dict[str, tuple[WireExchange, str]] = {}
        """By the key of its output: a call and its handle."""
        self._by_message: dict[int, set[str]] = {}
        """The keys of the replacements in each message."""
        self._written: dict[int, tuple[bytes, bytes]] = {}
        """Messages with their replacements, each after what the client wrote."""
        self._sent = SentHistory()
        self._cached: list[int] = []
        """The messages that end a prefix which was sent with a mark there and has not changed."""
        self._changed: dict[str, None] = {}
        """Keys whose replacement is new since the last step."""
        self._taken_over: dict[str, Replaced] = {}
        """Those of them that another conversation has sent already."""
        self._shaped: dict[str, ShapedText] = {}
        """What is shown in part, by the keys of ``kept.replaced``."""
        self._viewed = self._rendered = 0
        """How many entries of the stream's list of views are stored, and rendered."""
        self._arrived = 1
        """The first turn that came with the last request."""
        self._retrieved_before: frozenset[str] = frozenset()
        self._saved_state: StreamState | None = None
        self._saved_messages = 0

    def _new_stream(self) -> WireStream:
        stream = WireStream(
            self.terms.policy,
            count=self._count,
            signatures=self._shaper.signatures,
            arguments=self.terms.shaping is not Shaping.RESULTS,
        )
        earlier = range(1, self.terms.first_handle)
        stream.handles = {f"#{number}": f"earlier:{number}" for number in earlier}
        return stream

    @property
    def next_handle(self) -> int:
        return len(self._stream.handles) + 1

    def extend(
        self,
        messages: Sequence[WireMessage],
        *,
        chain: Sequence[str],
        tokens: Sequence[int],
        expired: Callable[[], bool],
    ) -> int:
        """Take in the messages after those that are known; return how many turns were sent whole.

        ``expired`` says whether there is no more time to shape.
        """
        first = len(self.kept.chain)
        unshaped = 0
        self.retrieved_tokens = 0
        self._arrived = self._stream.number
        for turn in self._completed(messages, first=first):
            late = expired()
            unshaped += late
            self._close(turn, views={} if late else None)
        self.kept.chain += chain[first:]
        self.kept.tokens += tokens[first:]
        return unshaped

    def fold(self, *, cold: bool) -> FoldPlan | None:
        """Fold what pays, or everything idle if nothing is cached."""
        self.plan = None
        if cold:
            self._cached = []
        if self.terms.shaping is Shaping.FOLDS:
            excluded = (
                {key for key, (call, _) in self._calls.items() if self._is_excluded(call)}
                if self.terms.excluded
                else frozenset[str]()
            )
            self.plan = self._planner.next_batch(cold=cold, pinned=excluded)
        self.render()
        return self.plan

    def _is_excluded(self, call: WireExchange) -> bool:
        return call.call.tool.lower() in self.terms.excluded

    def restrict(self, shaping: Shaping) -> None:
        """Shape new texts no further than the model of this request allows."""
        allowed = {self.terms.shaping, shaping}
        self._stream.arguments = Shaping.RESULTS not in allowed

    def reprice(self, policy: Economy) -> None:
        """Continue with other prices, if the client asks for another lifetime of the cache."""
        self._stream.policy = policy

    @property
    def policy(self) -> Economy:
        return self._stream.policy

    def mark_ends(self, messages: Sequence[WireMessage]) -> Iterator[int]:
        """Yield the messages after which a cached prefix should end, the most useful first.

        ``messages`` are all of the request, whose last one the client has marked. If the longest
        cached prefix ends too far before that mark, as when something was folded, it needs a mark
        from which it is found. The others are where the next fold can read: before the oldest text
        that may still be folded, and half way from there to the end.
        """
        numbers = (*self._planner.marks(), self._planner.unchanging(), self._planner.middle())
        ends = [self.turns[n - 1].end if 0 < n <= len(self.turns) else None for n in numbers]
        *changed, unchanging, middle = ends
        longest = self._cached[-1] if self._cached else None
        if longest is not None and not _is_found(messages, longest, len(messages) - 1):
            near = (
                end
                for end in (*changed, unchanging)
                if end is not None and end > longest and _is_found(messages, longest, end)
            )
            yield next(near, longest)
        if longest is None and self.plan is not None:  # not known, as after a restart
            yield from (end for end in changed if end is not None)
        before = [end for end in self._cached if unchanging is not None and end <= unchanging]
        known = bool(before) and _is_found(messages, before[-1], unchanging or 0)
        order = (middle, unchanging) if known else (unchanging, middle)
        yield from (end for end in order if end is not None)

    def sent_marks(self, messages: Iterable[int]) -> None:
        """Take note of the messages of a request that carry cache marks."""
        self._cached = sorted({*self._cached, *messages})

    def written(self, index: int, raw: bytes, message: WireMessage) -> bytes:
        """Return a message that is known with its replacements.

        ``raw`` and ``message`` are how the client writes it now, and what that says.
        """
        if not self._by_message.get(index):
            return raw
        before = self._written.get(index)
        if before is not None and before[0] == raw:
            return before[1]
        changes = self._changes(index, message)
        new = edited(raw, changed(raw, changes))
        check_message(raw, new, places=changes.keys())
        self._written[index] = (raw, new)
        return new

    def _changes(self, index: int, message: WireMessage) -> dict[StringPlace, str | bool]:
        changes: dict[StringPlace, str | bool] = {}
        calls = {call.call_id: call for call in message.calls}
        results = {result.call_id: result for result in reversed(message.results)}  # the first
        for key in sorted(self._by_message.get(index, ())):
            base, _, pointer = key.partition("/")
            call_id = self._calls[base][0].call.call_id
            text = self.kept.replaced[key].text
            if pointer:
                changes[calls[call_id].place(f"/{pointer}")] = text
                continue
            result = results[call_id]
            if result.at is None:
                raise Incorrect(f"the result of {call_id!r:.80} is not text any more")
            changes[result.at] = text + result.tail
            if base in self.kept.retrieved and result.failed_at is not None:
                changes[StringPlace(result.failed_at)] = False
        return changes

    def shaped_texts(self) -> tuple[ShapedText, ...]:
        """Return everything that is shown in part."""
        planned = {
            key: replace(self._shaped[key], planned=True)
            for key in self._changed
            if key in self._shaped
            and turn_number(key) < self._arrived
            and self.kept.replaced[key] != self._taken_over.get(key)
        }
        return tuple({**self._shaped, **planned}.values())

    def sent_messages(
        self, read: ReadRequest, known: int, *, changes: Mapping[int, Callable[[bytes], bytes]]
    ) -> bytes:
        """Return the messages that are known as they are forwarded, and what is between them.

        ``changes`` holds for this request only.
        """

        def written(index: int, entry: Entry) -> bytes:
            return self.written(index, entry.raw, entry.message)

        self._sent.update(read.body, read.entries[:known], read.spans[:known], written=written)
        return self._sent.text(changes)

    def saved_tokens(self) -> int:
        """Return how many tokens less than the client's messages are sent."""
        texts = self.kept.replaced.values()
        return sum(text.whole_tokens - text.sent_tokens for text in texts)

    def whole_texts(self, keys: Iterable[str]) -> dict[str, WholeText]:
        """Return the whole texts that these keys show in part, by their handles."""
        bases = dict.fromkeys(key.partition("/")[0] for key in keys)
        return {
            handle: WholeText.of(
                call.call.tool,
                call.call.args,
                self.kept.retrieved.get(base, call.output),
                long={
                    pointer: text
                    for pointer, text in strings(call.call.args)
                    if len(text) >= LONG_CHARS
                },
            )
            for base in bases
            for call, handle in [self._calls[base]]
        }

    def changed_keys(self) -> list[str]:
        """Return the keys whose replacement is new since the last step."""
        return [key for key in self._changed if key in self.kept.replaced]

    def step(self) -> dict[str, Any]:
        """Return what has to be stored of the last request, and count it as stored."""
        kept = self.kept
        state = self._planner.state(kept.sent_at)
        seen = dict.fromkeys(self._stream.slots.viewed[self._viewed :])
        views = self._stream.slots.views
        start = self._saved_messages
        value = {
            "chain": kept.chain[start:],
            "tokens": kept.tokens[start:],
            "views": {key: views[key].to_value() if key in views else None for key in seen},
            "replaced": {
                key: list(kept.replaced[key]) if key in kept.replaced else None
                for key in self._changed
            },
            "retrieved": {
                key: text
                for key, text in kept.retrieved.items()
                if key not in self._retrieved_before
            },
            "stream": state.to_value(self._saved_state),
            "model": kept.model,
            "drops_thinking": kept.drops_thinking,
            "unshaped": kept.unshaped,
            "explained": kept.explained,
            "next_handle": self.next_handle,
        }
        kept.state, self._saved_state = state, state
        kept.steps += 1
        kept.next_handle = self.next_handle
        self._viewed = len(self._stream.slots.viewed)
        self._changed, self._taken_over = {}, {}
        self._retrieved_before = frozenset(kept.retrieved)
        self._saved_messages = len(kept.chain)
        return value

    @classmethod
    def restored(
        cls,
        conversation_id: str,
        terms: Terms,
        kept: Kept,
        messages: Sequence[WireMessage],
        *,
        shaper: Shaper,
        inherited: Mapping[str, WholeText],
    ) -> "WireConversation":
        """Return a conversation that was stored; ``messages`` are those that it had."""
        conversation = cls(conversation_id, terms, shaper=shaper, inherited=inherited)
        if kept.state is None:
            raise Corrupt(f"the conversation {conversation_id} was stored without its state")
        conversation.kept = kept
        held = [conversation._hold(turn) for turn in conversation._completed(messages, first=0)]
        stream = conversation._stream
        opened = HeldTurn(number=len(held) + 1)
        stream.restore(held, opened, views=kept.views, state=kept.state)
        conversation._planner.restore(kept.state)
        conversation._index()
        conversation._viewed = conversation._rendered = len(stream.slots.viewed)
        conversation._saved_state = conversation._planner.state(kept.sent_at)
        conversation._retrieved_before = frozenset(kept.retrieved)
        conversation._saved_messages = len(kept.chain)
        return conversation

    @classmethod
    def fork(
        cls,
        kept: Kept,
        terms: Terms,
        conversation_id: str,
        messages: Sequence[WireMessage],
        *,
        turns: Sequence[WireTurn],
        chain: Sequence[str],
        tokens: Sequence[int],
        expired: Callable[[], bool],
        shaper: Shaper,
        inherited: Mapping[str, WholeText],
    ) -> "tuple[WireConversation, int]":
        """Return a conversation that begins as another one, and the turns that were sent whole.

        ``turns`` are those of the other one, if they are known. Turns that are the same are shown
        as they were; from the first that differs on, everything is new.
        """
        common = sum(1 for mine, its in zip(kept.chain, chain, strict=False) if mine == its)
        conversation = cls(conversation_id, terms, shaper=shaper, inherited=inherited)
        late_turns, same = 0, True
        for index, turn in enumerate(conversation._completed(messages, first=0)):
            known = index < len(turns) and turns[index].same_calls(turn)
            same = same and (turn.end < common or known)
            if same:
                conversation._take_over(kept, turn)
                continue
            late = expired()
            late_turns += late
            conversation._close(turn, views={} if late else None)
        conversation.kept.chain = list(chain)
        conversation.kept.tokens = list(tokens)
        conversation.kept = replace(
            conversation.kept,
            model=kept.model,
            sent_at=kept.sent_at,
            drops_thinking=kept.drops_thinking,
            unshaped=kept.unshaped,
            explained=kept.explained,
        )
        return conversation, late_turns

    def _take_over(self, kept: Kept, turn: WireTurn) -> None:
        """Close a turn that another conversation has sent, as it has shown it."""
        number = self._stream.number
        bases = {key for key, _ in turn.numbered(number)}
        self.kept.retrieved |= {key: kept.retrieved[key] for key in bases & kept.retrieved.keys()}
        self._close(turn, views=kept.views)
        for key, replaced in kept.replaced.items():
            if key.partition("/")[0] in bases:
                self._replace(key, replaced)
                self._taken_over[key] = replaced
        self._rendered = len(self._stream.slots.viewed)
        self._arrived = self._stream.number

    def _completed(self, messages: Sequence[WireMessage], *, first: int) -> Iterator[WireTurn]:
        for index, message in enumerate(messages, start=first):
            turn = self._builder.add(index, message)
            if turn is not None:
                yield turn
        turn = self._builder.finish()
        if turn is not None:
            yield turn

    def _hold(self, turn: WireTurn) -> HeldTurn:
        number = len(self.turns) + 1
        self.turns.append(turn)
        first = self.terms.first_handle + len(self._calls)
        for handle, (key, call) in enumerate(turn.numbered(number), start=first):
            self._calls[key] = (call, f"#{handle}")
        return turn.held(number, first_handle=first, outputs=self.kept.retrieved)

    def _close(self, turn: WireTurn, *, views: Mapping[str, TextView] | None) -> None:
        number = self._stream.number
        self.turns.append(turn)
        first = self.next_handle
        for handle, (key, call) in enumerate(turn.numbered(number), start=first):
            self._calls[key] = (call, f"#{handle}")
            if key not in self.kept.retrieved:
                self._retrieve(key, call)
            failed = call.result is not None and call.result.failed
            if failed or key in self.kept.retrieved or self._is_excluded(call):
                self._stream.whole.add(key)
        parts = turn.parts(number, outputs=self.kept.retrieved)
        self._stream.close(turn.user, parts, outputs={}, views=views)
        for key, _ in turn.numbered(number):
            if key in self.kept.retrieved and key not in self.kept.replaced:
                text = self.kept.retrieved[key]
                sent = self._count(text)
                call = self._calls[key][0]
                self._replace(key, Replaced(text, self._count(call.output), sent))

    def _retrieve(self, key: str, call: WireExchange) -> None:
        """Find the text that a call of our own tool asks for.

        The MCP server's tool does not know these texts: what it says is replaced as well, but its
        answers to everything else stay, as of objects of another session, which have handles, too.
        """
        injected = call.call.tool == SHOW_TOOL and bool(self.terms.tool)
        by_server = not self.terms.tool and is_own_show(call.call.tool)
        if not injected and (not by_server or call.call.args.get("session")):
            return
        if call.result is None or call.result.at is None:
            return
        own = {handle: base for base, (_, handle) in self._calls.items() if base != key}
        handle = asked_handle(call.call.args)
        texts = dict(self.inherited)
        if handle in own:
            texts |= self.whole_texts([own[handle]])
            self._asked_back(own[handle])
        elif not injected and handle not in texts:
            return
        text = shown_text(call.call.args, texts)
        self.kept.retrieved[key] = text
        self.retrieved_tokens += self._count(text)

    def _asked_back(self, key: str) -> None:
        kinds = {text.slot.kind for text in self._stream.slots.awake if text.slot.key == key}
        self._stream.asked_back.update(kinds)

    def render(self) -> None:
        """Render what is shown of the texts whose views have changed."""
        slots = self._stream.slots
        seen = dict.fromkeys(slots.viewed[self._rendered :])
        self._rendered = len(slots.viewed)
        if not seen:
            return
        for text in slots.awake:
            slot = text.slot
            if slot.key not in seen:
                continue
            if text.view is None and slot.key not in self.kept.retrieved:
                self._restore_whole(slot.key)
                continue
            if not self._can_replace(slot.key):
                continue
            whole = slot.content
            new = shown(whole, text.view, handle=slot.handle, title=slot.title)
            if slot.kind is not OutputKind.ARGUMENT:
                self.kept.explained = self.kept.explained or slot.key
            if slot.key == self.kept.explained:
                new += EXPLANATION if self.terms.tool else OWN_EXPLANATION
            self._replace(slot.key, Replaced(new, self._count(whole), self._count(new)))

    def _can_replace(self, key: str) -> bool:
        base, _, pointer = key.partition("/")
        call = self._calls[base][0]
        if call.shares_id:
            return False
        return bool(pointer) or (call.result is not None and call.result.at is not None)

    def _replace(self, key: str, replaced: Replaced) -> None:
        if self.kept.replaced.get(key) == replaced:
            return
        self.kept.replaced[key] = replaced
        self._changed[key] = None
        self._index_key(key)

    def _restore_whole(self, key: str) -> None:
        if self.kept.replaced.pop(key, None) is not None:
            self._shaped.pop(key, None)
            self._changed[key] = None
            message = self._message_of(key)
            self._by_message[message].discard(key)
            self._forget_sent(message)

    def _message_of(self, key: str) -> int:
        call = self._calls[key.partition("/")[0]][0]
        return call.message if "/" in key else call.result_message

    def _index_key(self, key: str) -> None:
        message = self._message_of(key)
        replaced = self.kept.replaced[key]
        call, handle = self._calls[key.partition("/")[0]]
        self._shaped[key] = ShapedText(
            handle=handle,
            tool=call.call.tool,
            message=message,
            tokens=replaced.whole_tokens,
            sent_tokens=replaced.sent_tokens,
        )
        self._by_message.setdefault(message, set()).add(key)
        self._forget_sent(message)

    def _forget_sent(self, message: int) -> None:
        """Write a message anew: no prefix that goes on after it is cached any more."""
        self._written.pop(message, None)
        self._sent.forget(message)
        del self._cached[bisect_left(self._cached, message) :]

    def _index(self) -> None:
        for key in self.kept.replaced:
            if key.partition("/")[0] not in self._calls:
                raise Corrupt(f"the conversation {self.conversation_id} has no text {key}")
            self._index_key(key)


def _is_found(messages: Sequence[WireMessage], cached: int, marked: int) -> bool:
    """Whether a prefix that ends with one message is found from the mark of a later one."""
    after = messages[cached + 1 : marked + 1]
    return sum(message.blocks for message in after) <= LOOKBACK_BLOCKS
