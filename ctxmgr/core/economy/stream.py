"""The append-only stream of a session under the economy policy. Pure.

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
    shown,
    visible_lines,
)
from ctxmgr.core.economy.policy import IDLE_CALLS, STUB, Economy
from ctxmgr.core.economy.repeats import VisibleLines
from ctxmgr.core.economy.stream_turns import HeldTurn, Notice, TextSlot, messages_of, numbered
from ctxmgr.core.economy.visible_names import VisibleNames, identifiers
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart

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
    text: FoldableText = field(repr=False)
    used: int
    """The call that last used it, or brought it in."""
    view: TextView | None = None
    tokens: int = 0
    """Of what is visible now."""
    settled: bool = False
    """Whether it is as short as it becomes by aging."""

    def kept_tokens(self) -> int:
        """Return the tokens of the visible lines."""
        return sum(line.tokens for line in visible_lines(self.text, self.view))


class SlotTexts:
    """The texts of one stream that may be folded."""

    def __init__(self, *, count: Count, signatures: Signatures) -> None:
        self.all: list[SlotText] = []
        self.views: dict[str, TextView] = {}
        """By the key of the slot; a text without a view is shown whole."""
        self.viewed: AppendOnly[str] = AppendOnly()
        """The keys of all views that were ever set, in that order."""
        self._count = count
        self._signatures = signatures
        self._visible = VisibleNames()
        self._lines = VisibleLines()
        self._holding: defaultdict[str, list[SlotText]] = defaultdict(list)
        self._texts: dict[tuple[str, str], FoldableText] = {}

    def add_fixed(self, text: str) -> None:
        """Count text that is never folded."""
        self._visible.enter([identifiers(text)])

    def analysed(self, slot: TextSlot) -> FoldableText:
        """Return the analysis of a slot's text."""
        content, key = slot.content, (slot.content, slot.path)
        if key not in self._texts:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            rows = self._signatures(content, slot.path) if slot.path else frozenset()
            self._texts[key] = FoldableText.of(content, count=self._count, signatures=rows)
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
                count=self._count,
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

    def refold(self, slot_text: SlotText, *, limits: FoldLimits) -> None:
        """Make a text shorter; one that would become longer is left as it is."""
        before, tokens = slot_text.view, slot_text.tokens
        self._hide(slot_text)
        view = fold(slot_text.text, limits=limits, visible=self._visible, count=self._count)
        self._show(slot_text, view)
        if slot_text.tokens >= tokens:
            self._hide(slot_text)
            self._show(slot_text, before)

    def folded(self, object_id: str) -> list[SlotText]:
        """Return the texts of an object that are not shown whole."""
        return [
            text for text in self.all if text.slot.object_id == object_id and text.view is not None
        ]

    def use(self, action: str, *, call: int) -> None:
        """Mark the texts whose names an action uses: they are not idle."""
        hits: Counter[int] = Counter()
        for name in identifiers(action):
            for slot_text in self._holding.get(name, ()):
                hits[id(slot_text)] += 1
                if hits[id(slot_text)] == NAMES_USED_MIN:
                    slot_text.used = call

    def _new(self, slot: TextSlot, *, message: int, call: int) -> SlotText:
        text = self.analysed(slot)
        names = identifiers(slot.content)
        self._visible.add_holder(names)
        slot_text = SlotText(slot=slot, message=message, text=text, used=call)
        self.all.append(slot_text)
        for name in names:
            self._holding[name].append(slot_text)
        return slot_text

    def _show(self, slot_text: SlotText, view: TextView | None) -> None:
        slot, slot_text.view = slot_text.slot, view
        lines = list(visible_lines(slot_text.text, view))
        names = view.names if view is not None else ()
        self._visible.enter((line.names for line in lines), names=names)
        self._lines.enter(slot.key, slot.content, lines, name=slot.label)
        if view is None:
            self.views.pop(slot.key, None)
            slot_text.tokens = slot_text.text.tokens
        else:
            self.views[slot.key] = view
            self.viewed = self.viewed.add((slot.key,))
            text = shown(slot.content, view, handle=slot.handle, title=slot.title)
            slot_text.tokens = self._count(text)

    def _hide(self, slot_text: SlotText) -> None:
        names = slot_text.view.names if slot_text.view is not None else ()
        lines = visible_lines(slot_text.text, slot_text.view)
        self._visible.leave((line.names for line in lines), names=names)
        self._lines.leave(slot_text.slot.key)


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
        self.transcript = self.transcript.append(shown_turn)
        self._opened = HeldTurn(number=turn.number + 1)

    def fold(self, folds: Sequence[tuple[SlotText, FoldLimits]]) -> None:
        """Make texts shorter, in one batch."""
        for slot_text, limits in folds:
            self.slots.refold(slot_text, limits=limits)
            slot_text.settled = True
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
        self.transcript = Transcript(turns)

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
            aged = self.policy.aged(slot.kind, tokens=slot_text.text.tokens)
            slot_text.settled = (
                slot_text.view is not None and slot_text.kept_tokens() <= aged.tokens
            )
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
            before.used = -IDLE_CALLS

    def _message_tokens(self, turn: ShownTurn) -> list[int]:
        return [self.count(text) + MESSAGE_TOKENS if text else 0 for text in messages_of(turn)]
