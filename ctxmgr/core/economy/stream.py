"""The append-only stream of a session under the economy policy. Pure.

    restore  continue the stream of a turn record
    open     append notices of what entered or changed before a turn
    close    append the text, calls and outputs of a turn that was answered
    fold     make some texts shorter, in one batch

Nothing that was sent moves or changes, except in a batch. The same turns, policy and plans give the
same stream; with the views of a record, the stream is the one that was recorded.

``SlotTexts`` holds the texts that may be folded. It counts the names and lines that are visible in
the prompt, since what is kept of a text depends on what is visible elsewhere.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.context.assembly import ShownTurn, Transcript
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import (
    Count,
    FoldableText,
    FoldLimits,
    TextView,
    fold,
    has_long_line,
    shown,
    visible_lines,
    visible_names,
    visible_spans,
)
from ctxmgr.core.economy.policy import IDLE_CALLS, STUB, Economy
from ctxmgr.core.economy.repeats import LaterText, VisibleLines
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.economy.stream_turns import HeldTurn, Notice, TextSlot, messages_of, numbered
from ctxmgr.core.economy.visible_names import VisibleNames, identifier_set, identifiers
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart
from ctxmgr.errors import Corrupt

NAMES_USED_MIN: Final = 2
"""An action that names this many of a text's identifiers has used it. One is often chance."""

REPEAT_TOKENS_MIN: Final = 60
"""A shorter run of lines is repeated, not replaced by a reference."""

TEXTS_MAX: Final = 256
"""Texts whose analysis is cached: the same text often comes twice in a row."""

Signatures: TypeAlias = Callable[[str, str], Collection[int]]
"""From a source file's text and its path to the numbers, from 0, of the lines with signatures."""


@dataclass(slots=True, eq=False)
class SlotText:
    """A text that may be folded, and what is visible of it now."""

    slot: TextSlot
    message: int
    """The index of its message in the whole stream."""
    used: int
    """The call that last used it, or brought it in."""
    _all: "SlotTexts" = field(repr=False)
    view: TextView | None = None
    settled: bool = False
    """Whether it is as short as it becomes by aging."""
    _tokens: int | None = None
    _whole_tokens: int | None = None

    @property
    def text(self) -> FoldableText:
        """Its analysis, which is not kept: most texts are folded once, soon after they came."""
        return self._all.analysed(self.slot)

    @property
    def whole_tokens(self) -> int:
        """Of the whole text."""
        if self._whole_tokens is None:
            self._whole_tokens = self._all.count(self.slot.content)
        return self._whole_tokens

    @property
    def tokens(self) -> int:
        """Of what is visible now."""
        if self._tokens is None:
            slot = self.slot
            text = shown(slot.content, self.view, handle=slot.handle, title=slot.title)
            self._tokens = self._all.count(text)
        return self._tokens

    def show(self, view: TextView | None) -> None:
        self.view, self._tokens = view, None

    def kept_tokens(self) -> int:
        """Return the tokens of the visible lines."""
        return sum(line.tokens for line in visible_lines(self.text, self.view))


@dataclass(frozen=True, slots=True)
class _RestedText:
    """A settled text of a stream that was restored."""

    key: str
    content: str = field(repr=False)
    turn: HeldTurn = field(repr=False)
    start: int
    """The first message of its turn."""


class SlotTexts:
    """The texts of one stream that may be folded.

    A stream that was restored has settled texts whose names, lines and slots are not needed unless
    something else is folded, or the window is exceeded. Until then they rest.
    """

    def __init__(self, *, count: Count, signatures: Signatures) -> None:
        self.awake: list[SlotText] = []
        """All texts, except those that rest, in the order of the stream."""
        self.views: dict[str, TextView] = {}
        """By the key of the slot; a text without a view is shown whole."""
        self.viewed: AppendOnly[str] = AppendOnly()
        """The keys of all views that were ever set, in that order."""
        self.settled: list[str] = []
        """The keys of settled texts, in the order in which they were settled."""
        self.marked: AppendOnly[str] = AppendOnly()
        """The keys of texts whose ``used`` was set, in that order."""
        self.count = count
        self._signatures = signatures
        self._visible = VisibleNames()
        self._lines = VisibleLines()
        self._holding: defaultdict[str, list[SlotText]] = defaultdict(list)
        self._texts: dict[tuple[str, str], FoldableText] = {}
        self._resting: list[_RestedText] = []
        self._settled_before: frozenset[str] = frozenset()
        self._uncounted: list[_RestedText] = []
        """Texts that were restored, and whose names are not counted yet."""
        self._rested_prose: list[str] = []

    def all(self) -> list[SlotText]:
        """Wake all texts, and return them in the order of the stream."""
        if self._resting:
            self._visible.complete()
            woken = [self._woken(rested) for rested in self._resting]
            self._resting = []
            texts = (*woken, *self.awake)
            self.awake = sorted(texts, key=lambda text: self._lines.order(text.slot.key))
        return self.awake

    def add_fixed(self, text: str) -> None:
        """Count text that is never folded."""
        self._visible.enter(identifiers(text))

    def analysed(self, slot: TextSlot) -> FoldableText:
        """Return the analysis of a slot's text."""
        content, key = slot.content, (slot.content, slot.path)
        if key not in self._texts:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            rows = self._signatures(content, slot.path) if slot.path else frozenset()
            self._texts[key] = FoldableText.of(content, count=self.count, signatures=rows)
        return self._texts[key]

    def arrive(
        self, slot: TextSlot, *, message: int, call: int, limits: FoldLimits | None
    ) -> SlotText:
        """Show a text for the first time; without limits, show it whole."""
        slot_text = self._new(slot, message=message, call=call)
        view = None
        if limits is not None:
            view = fold(
                slot_text.text,
                limits=limits,
                visible=self._visible,
                repeats=self._lines.repeats(slot_text.text, tokens_min=REPEAT_TOKENS_MIN),
                count=self.count,
            )
        self._show(slot_text, view)
        return slot_text

    def restore(
        self, slot: TextSlot, *, message: int, call: int, view: TextView | None
    ) -> SlotText:
        """Show a text as it was shown before."""
        slot_text = self._new(slot, message=message, call=call)
        self._show(slot_text, view)
        return slot_text

    def wake(self, slot: TextSlot, *, message: int, call: int) -> SlotText:
        """Add a text that was added by ``rest``, and may be folded further."""
        slot_text = SlotText(slot, message, call, self)
        slot_text.show(self.views.get(slot.key))
        self.awake.append(slot_text)
        for name in identifier_set(slot.content):
            self._holding[name].append(slot_text)
        return slot_text

    def begin(self, views: Mapping[str, TextView], *, settled: Sequence[str]) -> None:
        """Begin to restore texts: these are their views, and these of them are settled."""
        self.views, self.viewed = dict(views), AppendOnly(views)
        self.settled = list(settled)
        self._settled_before = frozenset(settled)

    def rest(self, turn: HeldTurn, *, start: int) -> list[str]:
        """Add all texts of a turn, as ``views`` shows them; return the keys of unsettled ones."""
        awake = []
        for key, content in turn.texts():
            self._lines.order(key)
            rested = _RestedText(key, content, turn, start)
            self._uncounted.append(rested)
            if key in self._settled_before:
                self._resting.append(rested)
            else:
                awake.append(key)
            view = self.views.get(key)
            if view is None or view.spans:
                self._lines.enter_later(key, self._later(key, content, turn))
        headings = [notice.heading for notice in turn.notices]
        self._rested_prose += [*headings, turn.user, *turn.prose()]
        self._visible.later(self._count_rested)
        return awake

    def refold(self, slot_text: SlotText, *, limits: FoldLimits) -> None:
        """Make a text shorter; one that would become longer is left as it is."""
        before, tokens = slot_text.view, slot_text.tokens
        self._hide(slot_text)
        view = fold(slot_text.text, limits=limits, visible=self._visible, count=self.count)
        self._show(slot_text, view)
        if slot_text.tokens >= tokens:
            self._hide(slot_text)
            self._show(slot_text, before)

    def settle(self, slot_text: SlotText) -> None:
        """Note that a text is as short as it becomes by aging."""
        if not slot_text.settled:
            slot_text.settled = True
            self.settled.append(slot_text.slot.key)

    def folded(self, object_id: str) -> list[SlotText]:
        """Return the texts of an object that are not shown whole."""
        return [
            text
            for text in self.all()
            if text.slot.object_id == object_id and text.view is not None
        ]

    def use(self, action: str, *, call: int) -> None:
        """Mark the texts whose names an action uses: they are not idle."""
        hits: Counter[int] = Counter()
        for name in identifiers(action):
            for slot_text in self._holding.get(name, ()):
                hits[id(slot_text)] += 1
                if hits[id(slot_text)] == NAMES_USED_MIN:
                    self.mark(slot_text, call=call)

    def mark(self, slot_text: SlotText, *, call: int) -> None:
        """Set the call that last used a text."""
        slot_text.used = call
        self.marked = self.marked.add((slot_text.slot.key,))

    def _new(self, slot: TextSlot, *, message: int, call: int) -> SlotText:
        names = identifier_set(slot.content)
        self._visible.add_holder(names)
        slot_text = SlotText(slot, message, call, self)
        self.mark(slot_text, call=call)
        self.awake.append(slot_text)
        for name in names:
            self._holding[name].append(slot_text)
        return slot_text

    def _show(self, slot_text: SlotText, view: TextView | None) -> None:
        slot = slot_text.slot
        slot_text.show(view)
        names = view.names if view is not None else ()
        self._visible.enter(visible_names(slot.content, view), names=names)
        self._lines.enter(
            slot.key, slot.content, visible_spans(slot.content, view), name=slot.label
        )
        if view is None:
            self.views.pop(slot.key, None)
        else:
            self.views[slot.key] = view
            self.viewed = self.viewed.add((slot.key,))

    def _hide(self, slot_text: SlotText) -> None:
        self._visible.complete()  # before the view changes
        slot, view = slot_text.slot, slot_text.view
        names = view.names if view is not None else ()
        self._visible.leave(visible_names(slot.content, view), names=names)
        self._lines.leave(slot.key)

    def _later(self, key: str, content: str, turn: HeldTurn) -> LaterText:
        view = self.views.get(key)
        return LaterText(
            content, lambda: visible_spans(content, view), lambda: turn.slot(key).label
        )

    def _count_rested(self) -> None:
        """Count the names of the texts that rest."""
        self._visible.enter(identifier_set("\n".join(self._rested_prose)))
        self._rested_prose.clear()
        uncounted, self._uncounted = self._uncounted, []
        for rested in uncounted:
            view = self.views.get(rested.key)
            held = identifier_set(rested.content)
            self._visible.add_holder(held)
            if view is None and not has_long_line(rested.content):
                self._visible.enter(held)
            else:
                names = visible_names(rested.content, view)
                self._visible.enter(names, names=view.names if view is not None else ())

    def _woken(self, rested: _RestedText) -> SlotText:
        """Return a text that rested; its names and lines have been counted."""
        slot = rested.turn.slot(rested.key)
        woken = SlotText(slot, rested.start + slot.message, 0, self, settled=True)
        woken.show(self.views.get(rested.key))
        return woken


def no_signatures(_content: str, _path: str) -> Collection[int]:
    return ()


class Stream:
    """The turns of one session, as they are shown."""

    def __init__(
        self, policy: Economy, *, count: Count, signatures: Signatures = no_signatures
    ) -> None:
        self.policy = policy
        self.count = count
        self.slots = SlotTexts(count=count, signatures=signatures)
        self.handles: dict[str, str] = {}
        """Handle → the object it refers to."""
        self.asked_back: Counter[OutputKind] = Counter()
        """Texts that were requested in full after they had been folded, by kind."""
        self.transcript = Transcript()
        """The closed turns as they are shown."""
        self.message_tokens: list[int] = []
        """Of every message of the closed turns; 0 for an empty message."""
        self.recounted: AppendOnly[int] = AppendOnly()
        """The messages that were counted, in that order."""
        self.broken: int = 0
        """The first message that the last batch changed."""
        self._turns: list[HeldTurn] = []
        self._starts: list[int] = []
        self._opened = HeldTurn(number=1)
        self._newest: dict[str, SlotText] = {}

    @property
    def number(self) -> int:
        """The number of the open turn."""
        return self._opened.number

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The notices before the open turn."""
        return self._opened.notices

    def next_handle(self) -> str:
        return f"#{len(self.handles) + 1}"

    def user(self, text: str) -> str:
        """Return what the open turn shows before its answer: notices and the user's text."""
        return replace(self._opened, user=text).shown_user(self.slots.views)

    def restore(
        self,
        turns: Iterable[HeldTurn],
        opened: HeldTurn,
        *,
        views: Mapping[str, TextView],
        state: StreamState,
    ) -> None:
        """Continue a stream, which is empty so far, from what a record says of it.

        ``turns`` are the closed turns, and ``opened`` is the one that the prompt was for. The cost
        is that of showing the turns: settled texts are not analysed.
        """
        self.slots.begin(views, settled=state.settled)
        position, closed = 0, list[ShownTurn]()
        for turn in turns:
            self._restore(turn, start=position, state=state)
            self._turns.append(turn)
            self._starts.append(position)
            closed.append(turn.shown(views))
            position += turn.message_count()
        self._restore(opened, start=position, state=state)
        if len(state.message_tokens) != position:
            raise Corrupt("a turn record does not count the messages of its turns")
        self._opened = opened
        self.transcript = Transcript(closed)
        self.message_tokens = list(state.message_tokens)
        self.broken = state.broken
        self.asked_back.update(
            {OutputKind(kind): times for kind, times in state.asked_back.items()}
        )

    def _restore(self, turn: HeldTurn, *, start: int, state: StreamState) -> None:
        for notice in turn.notices:
            self.handles[notice.handle] = notice.object_id
        for part in turn.parts:
            if isinstance(part, AnswerCall):
                self.handles[part.handle] = part.ref.object_id
        unsettled = self.slots.rest(turn, start=start)
        if not unsettled:
            return
        for slot in turn.slots():
            if slot.key in unsettled:
                if slot.key not in state.used:
                    raise Corrupt(f"a turn record does not say when {slot.key} was used")
                message, call = start + slot.message, state.used[slot.key]
                text = self.slots.wake(slot, message=message, call=call)
                if slot.key in state.newest:
                    self._newest[slot.subject] = text

    def open(
        self, notices: Iterable[Notice], *, views: Mapping[str, TextView] | None = None
    ) -> None:
        """Append notices to the open turn; their texts are shown whole unless ``views`` has one."""
        present, new = len(self._opened.notices), tuple(notices)
        self._opened = replace(self._opened, notices=(*self._opened.notices, *new))
        for notice in new:
            self.handles[notice.handle] = notice.object_id
            self.slots.add_fixed(notice.heading)
        for index, slot in enumerate(self._opened.slots()):
            if index >= present and slot.content:
                self._arrive(slot, len(self.message_tokens), self.number, views=views or {})

    def close(
        self,
        user: str,
        parts: Sequence[AnswerPart],
        *,
        outputs: Mapping[str, str],
        put_away: Collection[str] = frozenset(),
        views: Mapping[str, TextView] | None = None,
    ) -> None:
        """Append the turn that was answered.

        ``views`` are those of a record; with None the policy decides. ``put_away`` are objects that
        the agent has deactivated.
        """
        shown = numbered(parts, first=len(self.handles) + 1, outputs=outputs)
        turn = replace(self._opened, user=user, parts=shown)
        for part in shown:
            if isinstance(part, AnswerCall):
                self.handles[part.handle] = part.ref.object_id
        prose = turn.prose()
        self.slots.add_fixed("\n".join([user, *prose]))
        self.slots.use("\n".join([*prose, *turn.argument_strings()]), call=turn.number)
        start = len(self.message_tokens)
        for slot in turn.slots():
            if slot.message:
                hidden = slot.object_id in put_away
                self._arrive(slot, start, turn.number + 1, views=views, put_away=hidden)
        self._turns.append(turn)
        self._starts.append(start)
        shown_turn = turn.shown(self.slots.views)
        self.message_tokens += self._message_tokens(shown_turn)
        self.recounted = self.recounted.add(range(start, len(self.message_tokens)))
        self.transcript = self.transcript.append(shown_turn)
        self._opened = HeldTurn(number=turn.number + 1)

    def fold(self, folds: Sequence[tuple[SlotText, FoldLimits]]) -> None:
        """Make texts shorter, in one batch."""
        for slot_text, limits in folds:
            self.slots.refold(slot_text, limits=limits)
            self.slots.settle(slot_text)
        closed = [text for text, _ in folds if text.message < len(self.message_tokens)]
        if not closed:
            return
        self.broken = min(slot_text.message for slot_text in closed)
        turns = list(self.transcript.turns)
        for index in sorted({self.turn_at(slot_text.message) for slot_text in closed}):
            turns[index] = self._turns[index].shown(self.slots.views)
            counted = self._message_tokens(turns[index])
            start = self._starts[index]
            self.message_tokens[start : start + len(counted)] = counted
            self.recounted = self.recounted.add(range(start, start + len(counted)))
        self.transcript = Transcript(turns)

    def newest(self) -> tuple[str, ...]:
        """Return the keys of unsettled texts that are the newest of their file."""
        return tuple(text.slot.key for text in self._newest.values() if not text.settled)

    def tokens(self) -> int:
        """Return the tokens of the closed turns."""
        return sum(self.message_tokens)

    def turn_at(self, message: int) -> int:
        """Return the index of the closed turn that holds a message."""
        return bisect_right(self._starts, message) - 1

    def last_start(self) -> int:
        """Return the first message of the newest closed turn."""
        return self._starts[-1] if self._starts else 0

    def _arrive(
        self,
        slot: TextSlot,
        start: int,
        call: int,
        *,
        views: Mapping[str, TextView] | None,
        put_away: bool = False,
    ) -> None:
        message = start + slot.message
        if views is not None:
            slot_text = self.slots.restore(
                slot, message=message, call=call, view=views.get(slot.key)
            )
            aged = self.policy.aged(slot.kind, tokens=slot_text.whole_tokens)
            if slot_text.view is not None and slot_text.kept_tokens() <= aged.tokens:
                self.slots.settle(slot_text)
            self._supersede(slot_text)
            return
        if put_away and slot.kind is not OutputKind.ARGUMENT:
            limits = STUB
        else:
            tokens = self.slots.analysed(slot).tokens
            asked_back = self.asked_back[slot.kind]
            limits = self.policy.arriving(slot.kind, tokens=tokens, asked_back=asked_back)
        self._supersede(self.slots.arrive(slot, message=message, call=call, limits=limits))

    def _supersede(self, slot_text: SlotText) -> None:
        """Make an older text of the same file idle, unless this one refers to its lines."""
        subject = slot_text.slot.subject
        if not subject or slot_text.slot.kind is not OutputKind.READ:
            return
        before = self._newest.get(subject)
        self._newest[subject] = slot_text
        refers = slot_text.view is not None and any(span.as_in for span in slot_text.view.spans)
        if before is not None and not refers:
            self.slots.mark(before, call=-IDLE_CALLS)

    def _message_tokens(self, turn: ShownTurn) -> list[int]:
        return [self.count(text) + MESSAGE_TOKENS if text else 0 for text in messages_of(turn)]
