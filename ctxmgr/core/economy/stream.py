"""The append-only stream of a session under the economy policy. Pure.

    restore  continue the stream of a turn record
    open     append notices of what entered or changed before a turn
    close    append the text, calls and outputs of a turn that was answered
    fold     make some texts shorter, in one batch
    compact  show the oldest turns as a summary

Nothing that was sent moves or changes, except in a batch. The same turns, policy and plans give the
same stream; with the views of a record, the stream is the one that was recorded.

``slot_texts`` holds the texts that may be folded.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.context.assembly import ShownTurn, Transcript
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.discovery.known_tools import OutputKind
from ctxmgr.core.economy.folding import Count, FoldLimits, TextView
from ctxmgr.core.economy.notices import ActiveFile, asked_back, entered
from ctxmgr.core.economy.policy import DIGEST_AGE, IDLE_CALLS, STUB, Economy
from ctxmgr.core.economy.slot_texts import Signatures, SlotText, SlotTexts, no_signatures, refers
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.economy.stream_turns import (
    COMPACTED_TURN,
    HeldTurn,
    Notice,
    TextSlot,
    messages_of,
    numbered,
    turn_number,
)
from ctxmgr.core.economy.summary import Mask, Summary, summarised, unmasked
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart
from ctxmgr.errors import Corrupt

CHARS_PER_TOKEN: Final = 4
DIGEST_TOKENS: Final = 15
DIGEST_EXPECTED: Final = 0.1
"""For estimating a digest: the characters of a token, the tokens of a title with its names, and the
share of a call's texts that is kept."""


WHOLE_CHARS_MIN: Final = 80
"""A shorter text is found in others that have nothing to do with it."""


@lru_cache(maxsize=8)
def _once_compacted(policy: Economy) -> Economy:
    return policy.once_compacted()


class Stream:
    """The turns of one session, as they are shown."""

    def __init__(
        self,
        policy: Economy,
        *,
        count: Count,
        signatures: Signatures = no_signatures,
        mask: Mask = unmasked,
    ) -> None:
        self.policy = policy
        self.count = count
        self._mask = mask
        self._signatures = signatures
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
        self.summary: Summary | None = None
        """What is shown instead of the first turns."""
        self.earlier_compactions = 0
        """Those of the session that this stream does not continue."""
        self.kept_files: tuple[ActiveFile, ...] = ()
        """Files whose text must not be hidden, even if only the output of a call shows it."""
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

    @property
    def shaping(self) -> Economy:
        """The policy with the limits that apply to texts now."""
        return self.policy if self.summary is None else _once_compacted(self.policy)

    @property
    def compacted(self) -> int:
        """How many turns the summary replaces."""
        return 0 if self.summary is None else self.summary.turns

    def compactable(self) -> list[tuple[int, int]]:
        """Return the number and the tokens of every closed turn that is shown, oldest first.

        Those of the oldest include the summary before it.
        """
        ends = [*self._starts, len(self.message_tokens)][1:]
        return [
            (turn.number, sum(self.message_tokens[start:end]))
            for turn, start, end in zip(self._turns, self._starts, ends, strict=True)
            if turn.number > self.compacted
        ]

    def shown_until(self, number: int) -> str:
        """Return the closed turns up to one, with the summary before them, as they are shown."""
        return "".join(turn.text for turn in self.transcript.turns[:number])

    def compact(
        self,
        number: int,
        *,
        state: StreamState,
        pinned: Collection[str],
        notes: str = "",
        budget: int = 0,
        summary: Summary | None = None,
    ) -> None:
        """Show the closed turns up to a number as a summary, which includes the one before.

        A given summary is shown as it is. Otherwise one is made, within a budget of tokens.

        ``state`` is what a record would store now: the stream continues from it as after a resume,
        with fewer turns. References to lines of the turns are replaced by these lines. What is
        pinned in them is shown again before the open turn.
        """
        turns, opened, before = self._turns, self._opened, self.summary
        gone = [turn for turn in turns if self.compacted < turn.number <= number]
        old_views, start = dict(self.slots.views), self._starts[number]
        again = list(self._pinned_again(number, pinned))
        views, unsettled = self._resolved(number)
        self.slots = SlotTexts(count=self.count, signatures=self._signatures)
        self._turns, self._starts, self._newest = [], [], {}
        self.asked_back.clear()
        tokens = state.message_tokens[start:]
        kept = replace(
            state,
            message_tokens=tokens,
            settled=tuple(
                key for key in state.settled if turn_number(key) > number and key not in unsettled
            ),
            used={key: call for key, call in state.used.items() if turn_number(key) > number}
            | dict.fromkeys(unsettled, self.number - IDLE_CALLS),
            newest=tuple(key for key in state.newest if turn_number(key) > number),
        )
        # The summary depends on what is still visible, and the stream shows the summary.
        self.restore(turns, opened, views=views, state=kept, summary=Summary(turns=number))
        self.summary = (summary and summary.masked(self._mask)) or summarised(
            gone,
            before=before or Summary(turns=0, number=self.earlier_compactions),
            views=old_views,
            visible=self.slots.visible,
            notes=notes,
            budget=budget,
            count=self.count,
            mask=self._mask,
        )
        self.slots.add_fixed(self.summary.text)
        self.broken = 0
        self._show_again({number, *(turn_number(key) - 1 for key in unsettled)})
        self.recounted = AppendOnly(range(len(self.message_tokens)))
        self.open(again)
        for file in self.kept_files:
            self.show(file)

    def showing_kept_files(self) -> frozenset[str]:
        """Return the objects whose texts show a kept file whole, among those that may be folded."""
        return frozenset(
            text.slot.object_id
            for file in self.kept_files
            for text in self.slots.awake
            if _shows(text.slot.content, file)
        )

    def show(self, file: ActiveFile) -> None:
        """Show a file's text before the open turn, unless a text of the stream shows it whole."""
        if not file.content.strip() or any(
            text.view is None and _shows(text.slot.content, file) for text in self.slots.all()
        ):
            return
        known = (handle for handle, shown in self.handles.items() if shown == file.object_id)
        handle = next(known, None)
        if handle is None:
            handle, path = self.next_handle(), file.path
            self.open([entered(handle, file.object_id, path=path, content=file.content)])
        else:
            self.open([asked_back(handle, file.object_id, content=file.content)])

    def _resolved(self, number: int) -> tuple[dict[str, TextView], list[str]]:
        """Return the views of the turns after a number, and the keys of those that are longer now.

        Lines that they showed by reference to an earlier turn are shown themselves.
        """
        views = {key: view for key, view in self.slots.views.items() if turn_number(key) > number}
        texts = [text for text in self.slots.all() if turn_number(text.slot.key) > number]
        labels = {text.slot.label for text in texts}
        resolved = []
        for text in texts:
            key, view = text.slot.key, text.view
            if view is None or all(
                span.as_in is None or span.as_in in labels for span in view.spans
            ):
                continue
            spans = (
                span if span.as_in in labels else replace(span, as_in=None, whole=True)
                for span in view.spans
            )
            views[key] = replace(view, spans=tuple(spans))
            resolved.append(key)
        return views, resolved

    def _pinned_again(self, number: int, pinned: Collection[str]) -> Iterator[Notice]:
        """Yield notices with what is pinned and shown only in the turns up to a number."""
        gone: dict[str, list[SlotText]] = {}
        stays = {file.object_id for file in self.kept_files}
        for text in self.slots.all():
            if text.slot.object_id not in pinned or text.slot.kind is OutputKind.ARGUMENT:
                continue
            if turn_number(text.slot.key) <= number:
                gone.setdefault(text.slot.object_id, []).append(text)
            elif text.view is None:
                stays.add(text.slot.object_id)
        for object_id, texts in gone.items():
            if object_id not in stays:
                newest = texts[-1].slot
                yield asked_back(newest.handle, object_id, content=self._mask(newest.content))

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
        summary: Summary | None = None,
    ) -> None:
        """Continue a stream, which is empty so far, from what a record says of it.

        ``turns`` are the closed turns, and ``opened`` is the one that the prompt was for. The cost
        is that of showing the turns: settled texts are not analysed.
        """
        self.slots.begin(views, settled=state.settled)
        self.summary = summary
        position, closed, before = 0, list[ShownTurn](), ""
        if summary is not None:
            before = summary.text
            self.slots.add_fixed(before)
        for turn in turns:
            self._starts.append(position)
            if turn.number <= self.compacted:
                self._number(turn)
                self._turns.append(HeldTurn(number=turn.number))
                closed.append(COMPACTED_TURN)
                continue
            self._restore(turn, start=position, state=state)
            self._turns.append(turn)
            closed.append(turn.shown(views, before=before))
            before = turn.digest(views)
            position += turn.message_count()
        if summary is not None and len(self._turns) <= summary.turns:
            raise Corrupt("a turn record has a summary of turns that come after it")
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

    def _number(self, turn: HeldTurn) -> None:
        for notice in turn.notices:
            self.handles[notice.handle] = notice.object_id
        for part in turn.parts:
            if isinstance(part, AnswerCall):
                self.handles[part.handle] = part.ref.object_id

    def _restore(self, turn: HeldTurn, *, start: int, state: StreamState) -> None:
        self._number(turn)
        unsettled = self.slots.rest(turn, start=start)
        if not unsettled:
            return
        for slot in turn.slots():
            if slot.key in unsettled:
                if slot.key not in state.used:
                    raise Corrupt(f"a turn record does not say when {slot.key} was used")
                message, call = start + slot.message, state.used[slot.key]
                text = self.slots.wake(slot, message=message, call=call)
                text.repeated_tokens = state.repeated.get(slot.key, 0)
                text.alone_counted = state.alone.get(slot.key)
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
        shown_turn = self._shown(len(self._turns) - 1)
        self.message_tokens += self._message_tokens(turn, shown_turn)
        self.recounted = self.recounted.add(range(start, len(self.message_tokens)))
        self.transcript = self.transcript.append(shown_turn)
        self._opened = HeldTurn(number=turn.number + 1)

    def fold(
        self, folds: Sequence[tuple[SlotText, FoldLimits]], *, digests: Sequence[int] = ()
    ) -> None:
        """Make texts shorter, in one batch; ``digests`` are the indexes of turns."""
        for index in digests:
            turn, start = self._turns[index], self._starts[index]
            self.slots.digest(turn, start=start, policy=self.shaping)
        # What refers to other texts comes first: they need not keep these lines for it any more.
        for slot_text, limits in sorted(folds, key=lambda fold: not refers(fold[0].view)):
            self.slots.refold(slot_text, limits=limits)
            if limits.only_repeats:
                slot_text.repeated_tokens = 0
            else:
                self.slots.settle(slot_text)
        messages = [text.message for text, _ in folds if text.message < len(self.message_tokens)]
        changed = {self.turn_at(message) for message in messages}
        changed.update(index + more for index in digests for more in (0, 1))
        if not changed:
            return
        self.broken = min([*messages, *(self._starts[index] + 1 for index in digests)])
        self._show_again(changed)

    def _show_again(self, changed: Iterable[int]) -> None:
        """Render and count the closed turns at these indexes again."""
        turns = list(self.transcript.turns)
        for index in sorted(index for index in changed if index < len(turns)):
            turns[index] = self._shown(index)
            counted = self._message_tokens(self._turns[index], turns[index])
            start = self._starts[index]
            self.message_tokens[start : start + len(counted)] = counted
            self.recounted = self.recounted.add(range(start, start + len(counted)))
        self.transcript = Transcript(turns)

    def _shown(self, index: int) -> ShownTurn:
        views = self.slots.views
        if self.summary is not None and index == self.compacted:
            before = self.summary.text
        else:
            before = self._turns[index - 1].digest(views) if index else ""
        return self._turns[index].shown(views, before=before)

    def digestible(
        self, *, pinned: Collection[str], held: Callable[[str], bool]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield old turns that could become a digest: index, tokens now, and about then."""
        last = self.number - DIGEST_AGE
        awake = {
            self.turn_at(text.message)
            for text in self.slots.awake
            if not text.settled and self.number - text.used < IDLE_CALLS and text.slot.message
        }
        for index, turn in enumerate(self._turns[: max(0, last)]):
            if index in awake or turn.is_digest(self.slots.views):
                continue
            slots = list(turn.digest_slots())
            if not slots or any(slot.object_id in pinned or held(slot.label) for slot in slots):
                continue
            start = self._starts[index] + 1
            now = sum(self.message_tokens[start : start + 1 + len(slots)])
            then = sum(self.count(text) for text in turn.shown_prose(self.slots.views))
            for slot in slots:
                size = len(slot.content) // CHARS_PER_TOKEN
                then += DIGEST_TOKENS + min(
                    int(DIGEST_EXPECTED * size), self.shaping.digest(tokens=size).tokens
                )
            yield index, now, then

    def labels(self, indexes: Iterable[int]) -> list[str]:
        """Return the labels of the calls of closed turns."""
        return [slot.label for index in indexes for slot in self._turns[index].digest_slots()]

    def newest(self) -> tuple[str, ...]:
        """Return the keys of unsettled texts that are the newest of their file."""
        return tuple(text.slot.key for text in self._newest.values() if not text.settled)

    def tokens(self) -> int:
        """Return the tokens of the closed turns."""
        return sum(self.message_tokens)

    def turn_at(self, message: int) -> int:
        """Return the index of the closed turn that holds a message."""
        return bisect_right(self._starts, message) - 1

    def answer_at(self, index: int) -> int:
        """Return the message that holds the answer of a closed turn."""
        return self._starts[index] + 1

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
            aged = self.aged(slot.kind, tokens=slot_text.whole_tokens)
            if slot_text.view is not None and slot_text.kept_tokens() <= aged.tokens:
                self.slots.settle(slot_text)
            self._supersede(slot_text)
            return
        if put_away and slot.kind is not OutputKind.ARGUMENT:
            limits: FoldLimits | None = STUB
        else:
            limits = self.arriving(slot)
        self._supersede(self.slots.arrive(slot, message=message, call=call, limits=limits))

    def arriving(self, slot: TextSlot) -> FoldLimits | None:
        """Return the limits for a text that arrives; None: it is shown whole."""
        tokens = self.slots.analysed(slot).tokens
        if self.shaping.shown_whole(slot.kind, tokens=tokens):
            return None
        asked_back = self.asked_back[slot.kind]
        return self.shaping.arriving(slot.kind, tokens=tokens, asked_back=asked_back)

    def aged(self, kind: OutputKind, *, tokens: int) -> FoldLimits:
        """Return the limits for a text that has been idle."""
        return self.shaping.aged(kind, tokens=tokens)

    def _supersede(self, slot_text: SlotText) -> None:
        """Make an older text of the same file idle, unless this one refers to its lines."""
        subject = slot_text.slot.subject
        if not subject or slot_text.slot.kind is not OutputKind.READ:
            return
        before = self._newest.get(subject)
        self._newest[subject] = slot_text
        if before is not None and not refers(slot_text.view):
            self.slots.mark(before, call=-IDLE_CALLS)

    def _message_tokens(self, held: HeldTurn, turn: ShownTurn) -> list[int]:
        """Count the messages of a turn; those of calls that are in a digest count as empty."""
        counted = [self.count(text) + MESSAGE_TOKENS if text else 0 for text in messages_of(turn)]
        return counted + [0] * (held.message_count() - len(counted))


def _shows(content: str, file: ActiveFile) -> bool:
    """Whether a text shows a file whole. The text of a short file may be anywhere by chance."""
    wanted = file.content.strip()
    if len(wanted) < WHOLE_CHARS_MIN:
        return bool(wanted) and content.strip() == wanted
    return file.content in content
