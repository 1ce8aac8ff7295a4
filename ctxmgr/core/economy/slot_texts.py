"""The texts of a stream that may be folded, and what is visible of them. Pure.

``SlotTexts`` counts the names and lines that are visible in the prompt, since what is kept of a
text depends on what is visible elsewhere. Texts that were restored from a record and are settled
rest: they are analysed only when something needs them.
"""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import (
    Count,
    FoldableText,
    FoldLimits,
    TextSpan,
    TextView,
    digest_view,
    fold,
    has_long_line,
    kept_alone,
    line_text,
    references,
    shown,
    visible_lines,
    visible_names,
    visible_spans,
)
from ctxmgr.core.economy.policy import PROSE_SHARE, PROSE_TOKENS_MIN, Economy
from ctxmgr.core.economy.repeats import VisibleLines
from ctxmgr.core.economy.stream_turns import HeldTurn, TextSlot
from ctxmgr.core.economy.visible_names import VisibleNames, identifier_set, identifiers

NAMES_USED_MIN: Final = 2
"""An action that names this many of a text's identifiers has used it. One is often chance."""

NAMES_PER_USE: Final = 20
"""One more for this many: of a long text, a few names are in every action."""

REPEAT_TOKENS_MIN: Final = 30
"""A shorter run of lines is repeated: a reference with its handle takes up to 15 tokens, and would
save less than half."""

TEXTS_MAX: Final = 256
"""Texts whose analysis is cached: the same text often comes twice in a row."""

Signatures: TypeAlias = Callable[[str, str], Collection[int]]
"""From a source file's text and its path to the numbers, from 0, of the lines with signatures."""


class FoldEstimate(NamedTuple):
    """The length of a text after a fold, while no other text refers to it."""

    policy: Economy
    limits: FoldLimits
    tokens: int


@dataclass(slots=True, eq=False)
class SlotText:
    """A text that may be folded, and what is visible of it now."""

    slot: TextSlot
    message: int
    """The index of its message in the whole stream."""
    used: int
    """The call that last used it, or brought it in."""
    _all: "SlotTexts" = field(repr=False)
    names_used_min: int = NAMES_USED_MIN
    """How many of its names an action must use."""
    repeated_tokens: int = 0
    """Of its lines that were visible elsewhere when it arrived whole."""
    view: TextView | None = None
    settled: bool = False
    """Whether it is as short as it becomes by aging."""
    _tokens: int | None = None
    _whole_tokens: int | None = None
    _protected_tokens: int | None = None
    alone_counted: int | None = None
    """What ``alone_tokens`` returned."""
    estimate: FoldEstimate | None = None
    """Of a fold of what is visible now."""

    def alone_tokens(self, limits: FoldLimits) -> int:
        """Return the tokens of the lines that would be kept if nothing else were visible."""
        if self.alone_counted is None:
            self.alone_counted = kept_alone(self.text, limits=limits)
        return self.alone_counted

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
    def protected_tokens(self) -> int:
        """Of the lines that are never folded."""
        if self._protected_tokens is None:
            self._protected_tokens = self.text.protected_tokens if self._may_protect() else 0
        return self._protected_tokens

    def _may_protect(self) -> bool:
        return self.slot.failed or "@@ -" in self.slot.content

    @property
    def tokens(self) -> int:
        """Of what is visible now."""
        if self._tokens is None:
            slot = self.slot
            text = shown(slot.content, self.view, handle=slot.handle, title=slot.title)
            self._tokens = self._all.count(text)
        return self._tokens

    def show(self, view: TextView | None) -> None:
        self.view, self._tokens, self.estimate = view, None, None

    def kept_tokens(self) -> int:
        """Return the tokens of the visible lines."""
        return sum(line.tokens for line in visible_lines(self.text, self.view))


@dataclass(frozen=True, slots=True)
class _RestedText:
    """A text of a stream that was restored, whose names and lines are not counted yet."""

    key: str
    content: str = field(repr=False)
    view: TextView | None
    turn: HeldTurn = field(repr=False)
    start: int
    """The first message of its turn."""

    def spans(self) -> Iterator[TextSpan]:
        """Return where its visible lines are."""
        return visible_spans(self.content, self.view)

    def name(self) -> str:
        """Return what refers to it."""
        return self.turn.slot(self.key).label


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
        self._texts: dict[tuple[str, str, bool], FoldableText] = {}
        self._required: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Label → the lines of that text that others show by reference."""
        self._referring: defaultdict[str, set[str]] = defaultdict(set)
        """Label → the keys of the texts that refer to that text."""
        self._resting: dict[str, _RestedText] = {}
        self._settled_before: frozenset[str] = frozenset()
        self._uncounted: list[_RestedText] = []
        """Texts that were restored, and whose names are not counted yet."""
        self._rested_prose: list[str] = []

    @property
    def visible(self) -> VisibleNames:
        """The names that the stream shows."""
        return self._visible

    def digest(self, turn: HeldTurn, *, start: int, policy: Economy) -> None:
        """Show the calls of a turn by digests, and no longer their arguments and outputs."""
        old = {slot.key for slot in turn.slots() if slot.message}
        if self._resting:
            self._visible.complete()
            # Only the texts of this turn wake; they are settled, and are not shown again.
            for key in old & self._resting.keys():
                self._hide(self._woken(self._resting.pop(key)))
        for slot_text in (text for text in self.awake if text.slot.key in old):
            self._hide(slot_text)
            self.settle(slot_text)
        self.awake = [text for text in self.awake if text.slot.key not in old]
        for slot in turn.digest_slots():
            text = self.analysed(slot)
            limits = policy.digest(tokens=text.tokens)
            view = digest_view(text, limits=limits, visible=self._visible, count=self.count)
            digest = SlotText(slot, start + slot.message, 0, self)
            self._lines.order(slot.key)
            self._show(digest, view)
            self.settle(digest)
            insort(self.awake, digest, key=lambda text: text.message)
        if policy.shorten_prose:
            self._shorten_prose(turn)

    def _shorten_prose(self, turn: HeldTurn) -> None:
        for key, part in turn.prose_slots():
            text = FoldableText.of(part.text, count=self.count)
            if text.tokens < PROSE_TOKENS_MIN:
                continue
            self._visible.leave(identifiers(part.text))
            limits = FoldLimits(tokens=int(PROSE_SHARE * text.tokens), names_tokens=0)
            view = digest_view(text, limits=limits, visible=self._visible, count=self.count)
            self.views[key] = view
            self.viewed = self.viewed.add((key,))
            self._visible.enter(visible_names(part.text, view))

    def all(self) -> list[SlotText]:
        """Wake all texts, and return them in the order of the stream."""
        if self._resting:
            self._visible.complete()
            woken = [self._woken(rested) for rested in self._resting.values()]
            self._resting = {}
            texts = (*woken, *self.awake)
            self.awake = sorted(texts, key=_in_stream)
        return self.awake

    def add_fixed(self, text: str) -> None:
        """Count text that is never folded."""
        self._visible.enter(identifiers(text))

    def analysed(self, slot: TextSlot) -> FoldableText:
        """Return the analysis of a slot's text."""
        content, key = slot.content, (slot.content, slot.path, slot.failed)
        if key not in self._texts:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            rows = self._signatures(content, slot.path) if slot.path else frozenset()
            self._texts[key] = FoldableText.of(
                content, count=self.count, signatures=rows, failed=slot.failed
            )
        return self._texts[key]

    def arrive(
        self, slot: TextSlot, *, message: int, call: int, limits: FoldLimits | None
    ) -> SlotText:
        """Show a text for the first time; without limits, show it whole."""
        slot_text = self._new(slot, message=message, call=call)
        text, view = slot_text.text, None
        repeats: Sequence[TextSpan] = ()
        if slot.kind is not OutputKind.ARGUMENT and (limits is None or limits.refers):
            repeats = self._lines.repeats(text, tokens_min=REPEAT_TOKENS_MIN)
        if limits is not None:
            view = fold(
                text,
                limits=limits,
                visible=self._visible,
                repeats=repeats,
                first_line=slot.first_line,
                count=self.count,
            )
        elif repeats:
            slot_text.repeated_tokens = sum(
                line.tokens
                for span in repeats
                for line in text.lines
                if span.start <= line.start and line.end <= span.end
            )
        self._show(slot_text, view)
        return slot_text

    def referring(self, label: str) -> list[SlotText] | None:
        """Return the texts that refer to lines of this one; None if one of them rests."""
        keys = self._referring.get(label)
        if not keys:
            return []
        found = [text for text in self.awake if text.slot.key in keys]
        return found if len(found) == len(keys) else None

    def is_referred(self, label: str) -> bool:
        """Whether another text refers to lines of this one."""
        return bool(self._referring.get(label))

    def required_tokens(self, slot_text: SlotText) -> int:
        """Return the tokens of its lines that other texts refer to."""
        if not self._required.get(slot_text.slot.label):
            return 0
        text = slot_text.text
        return sum(text.lines[row].tokens for row in self._required_rows(slot_text, text))

    def _required_rows(self, slot_text: SlotText, text: FoldableText) -> set[int]:
        required = self._required.get(slot_text.slot.label)
        if not required:
            return set()
        starts = {line.start for line in visible_lines(text, slot_text.view)}
        return {
            row
            for row, line in enumerate(text.lines)
            if line.start in starts and required[line_text(text.content, line)] > 0
        }

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
        names = identifier_set(slot.content)
        slot_text.names_used_min = _names_used_min(len(names))
        for name in names:
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
        for key, content in turn.texts(self.views):
            self._lines.order(key)
            view = self.views.get(key)
            rested = _RestedText(key, content, view, turn, start)
            self._uncounted.append(rested)
            if key in self._settled_before:
                self._resting[key] = rested
            else:
                awake.append(key)
            if view is None or view.spans:
                self._lines.enter_later(key, rested)
            if refers(view):
                self._refer(key, content, view, 1)
        headings = [notice.heading for notice in turn.notices]
        self._rested_prose += [*headings, turn.user, *turn.shown_prose(self.views)]
        self._visible.later(self._count_rested)
        return awake

    def refold(self, slot_text: SlotText, *, limits: FoldLimits) -> None:
        """Make a text shorter; one that would become longer is left as it is."""
        before, tokens, text = slot_text.view, slot_text.tokens, slot_text.text
        required = self._required_rows(slot_text, text)
        self._hide(slot_text)
        repeats: Sequence[TextSpan] = ()
        if limits.only_repeats and not required:
            repeats = self._lines.repeats(text, tokens_min=REPEAT_TOKENS_MIN)
        view = fold(
            text,
            limits=limits,
            visible=self._visible,
            repeats=repeats,
            required=required,
            first_line=slot_text.slot.first_line,
            count=self.count,
        )
        self._show(slot_text, view)
        if slot_text.tokens >= tokens and not refers(before):
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
                if hits[id(slot_text)] == slot_text.names_used_min:
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
        slot_text.names_used_min = _names_used_min(len(names))
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
        self._refer(slot.key, slot.content, view, 1)
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
        self._refer(slot.key, slot.content, view, -1)

    def _refer(self, key: str, content: str, view: TextView | None, times: int) -> None:
        """Count the lines that a view shows by reference: they must stay where they are."""
        for label, line in references(content, view):
            self._required[label][line] += times
            if times > 0:
                self._referring[label].add(key)
            else:
                self._referring[label].discard(key)

    def _count_rested(self) -> None:
        """Count the names of the texts that rest."""
        self._visible.enter(identifier_set("\n".join(self._rested_prose)))
        self._rested_prose.clear()
        uncounted, self._uncounted = self._uncounted, []
        for rested in uncounted:
            view = rested.view
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


def _names_used_min(names: int) -> int:
    return NAMES_USED_MIN + names // NAMES_PER_USE


def _in_stream(text: SlotText) -> tuple[int, str]:
    return text.message, text.slot.key


def refers(view: TextView | None) -> bool:
    """Return whether a text shows lines by reference to another."""
    return view is not None and any(span.as_in for span in view.spans)


def no_signatures(_content: str, _path: str) -> Collection[int]:
    return ()
