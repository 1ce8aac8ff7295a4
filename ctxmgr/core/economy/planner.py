"""Decide by cost what to fold before a call, and where a cached prefix should end. Pure.

    next_plan   fold what pays or is cold, once a turn, and what exceeds the window
    next_batch  the same without a window, for a client that keeps within it itself
    planning    the same, step by step: it yields when layers should save, and what to summarise
    reported    calibrate the counts by which a prompt is kept within the window
    marks       the turns after which an API that caches marked prefixes should cache them

The price of a prompt depends on how much of it the provider has cached. Folding a text saves its
tokens in every future call, but the provider has to write everything after it to the cache again.
So folds wait until one batch of them saves more than the rewrite costs:

    saves     read price · future calls · tokens saved from p on
    costs     (write price - read price) · cached tokens from p on, after folding

where p is the message at which the batch begins. Everything after p that may be folded is folded
too, since it is rewritten anyway. If the cache is cold, everything is written in any case, and
everything that may be folded is folded.

If the window is exceeded, ``core.context.pressure`` decides: the oldest texts are folded, and if
that does not relieve the window, the oldest half of the stream is shown as a summary. The prefix
that the provider has cached is then lost once, and everything that is idle is folded with it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ctxmgr.core.context.pressure import Pressure, PressureStep, oldest_half
from ctxmgr.core.context.tokens import EXACT, Calibration, Sample, declared_bound
from ctxmgr.core.economy.folding import HANDLE_TOKENS, SAVING_MIN, FoldLimits
from ctxmgr.core.economy.policy import (
    DIGEST_AGE,
    DIGEST_CALLS_MIN,
    DIGEST_EVERY,
    IDLE_CALLS,
    PATIENCE,
    REPEATS,
    STUB,
    Economy,
    Prices,
)
from ctxmgr.core.economy.slot_texts import FoldEstimate, SlotText
from ctxmgr.core.economy.stream import Stream
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.economy.summary import Summary
from ctxmgr.errors import WindowExceeded

if TYPE_CHECKING:
    from ctxmgr.core.discovery.known_tools import OutputKind

CALLS_MIN: Final = 5
"""A session that has just begun counts as having had this many calls."""


class FoldReason(StrEnum):
    """Why something is folded now."""

    PAYS = "pays"
    """The batch saves more than the rewrite costs."""
    COLD = "cold"
    """Nothing of the prompt is still cached, so the rewrite is free."""
    WINDOW = "window"
    """The prompt would not fit."""


@dataclass(frozen=True, slots=True)
class FoldCandidate:
    """One text of the stream as the planner sees it."""

    position: int
    """The index of the message that holds it."""
    tokens: int
    folded_tokens: int
    """Its length after folding; equal to ``tokens`` if it cannot be folded now."""
    waited: int = 0
    """Calls since it could have been folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPlan:
    """A batch of folds, with the reason as data."""

    reason: FoldReason
    start: int
    """The first message that changes."""
    folds: tuple[int, ...]
    """Indexes into the candidates."""
    saved_tokens: int
    """In every future call."""
    rewritten_tokens: int
    """Cached now, and to be written again."""
    calls_expected: float
    net: float
    """Saving over all future calls, in uncached input tokens."""

    def to_value(self) -> dict[str, Any]:
        """Return what is recorded of it; of the folds, their number."""
        return {
            "reason": str(self.reason),
            "start": self.start,
            "folds": len(self.folds),
            "saved_tokens": self.saved_tokens,
            "rewritten_tokens": self.rewritten_tokens,
            "calls_expected": self.calls_expected,
            "net": self.net,
        }


def plan_folds(
    candidates: Sequence[FoldCandidate],
    *,
    message_tokens: Sequence[int],
    cached: int,
    calls: int,
    caution: float,
    prices: Prices,
    calls_expected: int | None = None,
    patience: float = 0.0,
    cold: bool = False,
) -> FoldPlan | None:
    """Return the batch that saves most; None if no batch pays, or all should wait.

    ``candidates`` are in the order of the stream. ``message_tokens`` are the current lengths of the
    messages, of which the first ``cached`` were in the last prompt. The number of future calls is
    ``calls_expected``, or else the calls so far divided by ``caution``. A batch waits until what it
    could have saved so far is ``patience`` times what the rewrite costs.
    """
    expected = max(calls, CALLS_MIN) / caution if calls_expected is None else calls_expected
    gain = prices.read * expected + (prices.write if cold else 0.0)
    rewrite = 0.0 if cold else prices.write - prices.read
    best = max(
        (
            batch
            for batch in _batches(candidates, message_tokens=message_tokens, cached=cached)
            if prices.read * batch.waited >= patience * rewrite * batch.rewritten
        ),
        key=lambda batch: gain * batch.saved - rewrite * batch.rewritten,
        default=None,
    )
    if best is None:
        return None
    net = gain * best.saved - rewrite * best.rewritten
    if net <= 0:
        return None
    return FoldPlan(
        reason=FoldReason.COLD if cold else FoldReason.PAYS,
        start=candidates[best.first].position,
        folds=tuple(
            index
            for index in range(best.first, len(candidates))
            if candidates[index].tokens > candidates[index].folded_tokens
        ),
        saved_tokens=best.saved,
        rewritten_tokens=best.rewritten,
        calls_expected=expected,
        net=net,
    )


def plan_window(candidates: Sequence[FoldCandidate], *, excess: int) -> FoldPlan:
    """Fold the oldest candidates until ``excess`` tokens are saved, or all of them."""
    folds, saved = [], 0
    for index, candidate in enumerate(candidates):
        if saved >= excess:
            break
        if candidate.tokens > candidate.folded_tokens:
            folds.append(index)
            saved += candidate.tokens - candidate.folded_tokens
    return FoldPlan(
        reason=FoldReason.WINDOW,
        start=candidates[folds[0]].position if folds else 0,
        folds=tuple(folds),
        saved_tokens=saved,
        rewritten_tokens=0,
        calls_expected=0,
        net=0,
    )


class _Batch(NamedTuple):
    first: int
    """Index of the first candidate."""
    saved: int
    rewritten: int
    waited: int
    """Tokens that were sent again since they could have been saved, over all calls."""


def _batches(
    candidates: Sequence[FoldCandidate], *, message_tokens: Sequence[int], cached: int
) -> Iterator[_Batch]:
    """Yield every possible batch, the shortest first: all foldable candidates from one on."""
    saved = rewritten = waited = 0
    message = cached
    for first in range(len(candidates) - 1, -1, -1):
        candidate = candidates[first]
        saving = candidate.tokens - candidate.folded_tokens
        if saving <= 0:
            continue
        while message > candidate.position:
            message -= 1
            rewritten += message_tokens[message]
        saved += saving
        waited += saving * candidate.waited
        if candidate.position < cached:
            rewritten -= saving
        yield _Batch(first, saved, rewritten, waited)


FULL_SHARE: Final = 0.8
"""The share of the window at which it counts as full (000-R144)."""

RELIEVED_SHARE: Final = 0.64
"""The share to which folding must bring a full window: otherwise old turns are summarised. It
leaves room for the next calls, since each relief breaks the cached prefix."""

SUMMARY_SHARE: Final = 0.15
"""The share of the window, without what must be shown, that a summary may take."""

SUMMARY_TOKENS_MIN: Final = 200
SUMMARY_TOKENS_MAX: Final = 12_000
"""For a summary, however small or large the window is: it is read with every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDue:
    """The oldest turns of a prompt, which are about to be shown as a summary."""

    first: int
    last: int
    """The numbers of the turns."""
    tokens: int
    """Of the whole prompt."""
    budget_tokens: int
    """For the summary."""
    text: Callable[[], str] = field(repr=False)
    """Returns the turns as they are shown, after the summary of earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDone:
    """A compaction, as a record of it is made from."""

    first: int
    last: int
    tokens_before: int
    tokens_after: int
    summary: Summary


Planning: TypeAlias = Generator[tuple[PressureStep, CompactionDue], str, "FoldPlan | None"]
"""Yields FLUSH before turns are summarised, and COMPACT, which is sent the notes of a model, or an
empty text; returns what was folded, and why."""


class FoldPlanner:
    """Plans the folds of one stream, call by call."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._sent = 0
        """Messages in the last prompt."""
        self._planned: tuple[int, FoldPlan | None] = (0, None)
        self._counted = 0
        """Tokens of the last prompt, by our count."""
        self._model = stream.policy.model
        self._calibration = _uncalibrated(self._model)
        self._flushed = False
        """Whether layers were asked to save since the last compaction."""
        self._aged_by: Economy | None = None
        self._aged_limits: dict[tuple[OutputKind, int], FoldLimits] = {}
        """By kind and length: every text is looked at before every call."""
        self.compactions: list[CompactionDone] = []
        """What was compacted and is not recorded yet."""

    def reported(self, tokens: int) -> None:
        """Calibrate by the number of tokens that the provider counted in the last prompt."""
        self._calibration = self._calibration.observe(counted=self._counted, reported=tokens)

    def state(self, sent_at: float) -> StreamState:
        """Return what a record needs, so that stream and planner can continue from it."""
        stream = self._stream
        return StreamState(
            sent_at=sent_at,
            sent=self._sent,
            counted=self._counted,
            samples=tuple((item.counted, item.reported) for item in self._calibration.samples),
            broken=stream.broken,
            asked_back={str(kind): times for kind, times in stream.asked_back.items()},
            settled=tuple(stream.slots.settled),
            used={text.slot.key: text.used for text in stream.slots.awake if not text.settled},
            newest=stream.newest(),
            message_tokens=tuple(stream.message_tokens),
            marked=stream.slots.marked,
            recounted=stream.recounted,
            repeated={
                text.slot.key: text.repeated_tokens
                for text in stream.slots.awake
                if text.repeated_tokens and not text.settled
            },
            alone={
                text.slot.key: text.alone_counted
                for text in stream.slots.awake
                if text.alone_counted is not None and not text.settled
            },
        )

    def restore(self, state: StreamState) -> None:
        """Continue from a record; the stream has been restored."""
        self._sent, self._counted = state.sent, state.counted
        samples = tuple(Sample(counted, reported) for counted, reported in state.samples)
        self._calibration = replace(self._calibration, samples=samples)

    def next_plan(
        self,
        *,
        fixed: Callable[[], int],
        put_away: Collection[str] = frozenset(),
        pinned: Collection[str] = frozenset(),
        cold: bool = False,
    ) -> FoldPlan | None:
        """Fold what should be shorter now, and return what was folded and why.

        If called again in the same turn, only an exceeded window can cause more folds. ``fixed``
        counts everything in the prompt besides the closed turns, at the time it is called.
        ``WindowExceeded`` if what must stay does not fit.
        """
        planning = self.planning(fixed=fixed, put_away=put_away, pinned=pinned, cold=cold)
        try:
            next(planning)
            while True:
                planning.send("")
        except StopIteration as end:
            plan: FoldPlan | None = end.value
            return plan

    def planning(
        self,
        *,
        fixed: Callable[[], int],
        put_away: Collection[str] = frozenset(),
        pinned: Collection[str] = frozenset(),
        cold: bool = False,
    ) -> Planning:
        """Do what ``next_plan`` does, and let the caller write the notes of summaries."""
        number, plan = self._planned
        if number != self._stream.number and self._stream.policy.folds_sent:
            plan = self._pays(put_away, pinned=pinned, cold=cold)
        window = self._stream.policy.window_tokens
        # What cannot be folded or compacted leaves less to fill: else a long system prompt would
        # make the window full at every turn.
        is_near = self._at_most(fixed) > window * FULL_SHARE
        unmovable = self._calibration.at_most(fixed()) if is_near else 0
        movable = max(0, window - unmovable)
        relieved_at = unmovable + int(movable * RELIEVED_SHARE)
        pressure = Pressure(
            full_at=unmovable + int(movable * FULL_SHARE) + 1,
            relieved_at=relieved_at + 1,
            flushed=self._flushed,
        )
        compacted = False
        while (step := pressure.step(self._at_most(fixed))) is not PressureStep.NONE:
            if step is PressureStep.FOLD and self._stream.summary is not None:
                pass  # folding would only delay the next compaction, and lose lines
            elif step is PressureStep.FOLD:
                excess = self._at_most(fixed) - relieved_at
                plan = self._fold_oldest(self._aged, excess=excess, pinned=pinned)
            else:
                due = self.due(fixed)
                if due is None:
                    break
                notes = yield step, due
                if step is PressureStep.COMPACT:
                    self.compact(due, fixed=fixed, notes=notes, pinned=pinned)
                    compacted = True
            pressure = pressure.done(step)
            self._flushed = pressure.flushed
        if compacted and self._stream.policy.folds_sent:
            plan = self._pays(put_away, pinned=pinned, cold=True) or plan
        plan = self._fits(fixed, pinned=pinned) or plan
        self._planned = (self._stream.number, plan)
        self._sent = len(self._stream.message_tokens) + 1
        return plan

    def next_batch(
        self, *, pinned: Collection[str] = frozenset(), cold: bool = False
    ) -> FoldPlan | None:
        """Fold what pays or is cold, without regard to the window, which the caller keeps."""
        plan = None
        if self._stream.policy.folds_sent:
            plan = self._pays(frozenset(), pinned=pinned, cold=cold)
        self._planned = (self._stream.number, plan)
        self._sent = len(self._stream.message_tokens) + 1
        return plan

    def due(self, fixed: Callable[[], int], *, until: int | None = None) -> CompactionDue | None:
        """Return the turns to summarise next; None if only the newest turn is left.

        They are the oldest half of the prompt, or those up to the number ``until``.
        """
        turns, counted = self._stream.compactable(), fixed() + self._stream.tokens()
        spans = oldest_half([tokens for _, tokens in turns], tokens=counted)
        if until is not None:
            spans = sum(number <= until for number, _ in turns[:-1])
        if not spans:
            return None
        last = turns[spans - 1][0]
        left = self._stream.policy.window_tokens - fixed()
        return CompactionDue(
            first=turns[0][0],
            last=last,
            tokens=self._at_most(fixed),
            budget_tokens=min(
                SUMMARY_TOKENS_MAX, max(SUMMARY_TOKENS_MIN, int(SUMMARY_SHARE * left))
            ),
            text=lambda: self._stream.shown_until(last),
        )

    def compact(
        self,
        due: CompactionDue,
        *,
        fixed: Callable[[], int],
        notes: str = "",
        pinned: Collection[str] = frozenset(),
    ) -> None:
        """Show turns as a summary from now on."""
        self._stream.compact(
            due.last,
            state=self.state(0.0),
            notes=notes,
            budget=due.budget_tokens,
            pinned=pinned,
        )
        summary = self._stream.summary
        assert summary is not None
        self._sent = 0
        self._flushed = False
        self.compactions.append(
            CompactionDone(
                first=due.first,
                last=due.last,
                tokens_before=due.tokens,
                tokens_after=self._at_most(fixed),
                summary=summary,
            )
        )

    def adopt(self, summary: Summary, *, pinned: Collection[str]) -> None:
        """Show a summary that was made before, if there are turns after it and none of it yet."""
        stream = self._stream
        if stream.compacted < summary.turns < stream.number - 1:
            stream.compact(summary.turns, state=self.state(0.0), pinned=pinned, summary=summary)
            self._sent = 0

    def marks(self) -> tuple[int, ...]:
        """Return the turns, from 1, after which a cached prefix should end, besides the last.

        The first ends before what changed last, where an earlier prefix can still be read. The
        second is half way from there, or from the oldest text that may still be folded, to the
        end: the next change is likely to come after it.
        """
        stream = self._stream
        turns = {stream.turn_at(stream.broken), self.middle()}
        return tuple(sorted(turn for turn in turns if turn > 0))

    def unchanging(self) -> int:
        """Return the last turn, from 1, before the oldest text that may still be folded; 0: none.

        Whatever is folded next, the prefix up to there stays.
        """
        return max(0, self._stream.turn_at(self._oldest()))

    def middle(self) -> int:
        """Return the turn half way from what changed last, or the oldest foldable text, to the end.

        The next change is likely to come after it.
        """
        first = max(self._stream.broken, self._oldest())
        return max(0, self._stream.turn_at((first + len(self._stream.message_tokens)) // 2))

    def _oldest(self) -> int:
        """Return the message with the oldest text that may still be folded; 0 if there is none."""
        texts = self._stream.slots.awake
        return next((text.message for text in texts if self._may_shrink(text)), 0)

    def _pays(
        self, put_away: Collection[str], *, pinned: Collection[str], cold: bool
    ) -> FoldPlan | None:
        stream = self._stream
        folds = [
            (text, limits)
            for text in stream.slots.awake
            if not text.settled
            and not self._stays(text, put_away)
            and text.slot.object_id not in pinned
            and (limits := self._limits(text, put_away)) is not None
        ]
        candidates = [self._candidate(text, limits, pinned) for text, limits in folds]
        digests = self._digests(pinned, cold=cold)
        kept = [
            n
            for n, (text, _) in enumerate(folds)
            if stream.turn_at(text.message) not in digests or not text.slot.message
        ]
        folds, candidates = [folds[n] for n in kept], [candidates[n] for n in kept]
        order = sorted(
            [
                *((c.position, 1, n) for n, c in enumerate(candidates)),
                *((c.position, 0, index) for index, c in digests.items()),
            ]
        )
        plan = plan_folds(
            [candidates[n] if kind else digests[n] for _, kind, n in order],
            message_tokens=stream.message_tokens,
            cached=min(self._sent, len(stream.message_tokens)),
            calls=stream.number,
            calls_expected=stream.policy.calls_expected,
            caution=stream.policy.caution,
            prices=stream.policy.prices,
            patience=PATIENCE,
            cold=cold,
        )
        if plan is not None:
            chosen = [order[index] for index in plan.folds]
            digested = [n for _, kind, n in chosen if not kind]
            batch = [folds[n] for _, kind, n in chosen if kind]
            stream.fold([*batch, *self._released(batch, digested, pinned)], digests=digested)
        return plan

    def _digests(self, pinned: Collection[str], *, cold: bool) -> dict[int, FoldCandidate]:
        """Return turns that could become a digest, by their index."""
        stream = self._stream
        if stream.summary is not None:
            return {}
        if stream.number < DIGEST_CALLS_MIN or (stream.number % DIGEST_EVERY and not cold):
            return {}
        return {
            index: FoldCandidate(
                stream.answer_at(index),
                now,
                min(now, then),
                waited=stream.number - index - DIGEST_AGE,
            )
            for index, now, then in stream.digestible(
                pinned=pinned, held=lambda label: self._releases(label, pinned) is None
            )
        }

    def _limits(self, text: SlotText, put_away: Collection[str]) -> FoldLimits | None:
        """Return how a text may be folded now; None if it may not."""
        number = self._stream.number
        if text.slot.object_id in put_away:
            return STUB
        if self._stream.summary is not None:
            return None
        if number <= text.slot.first_prompt:
            return None
        if number - text.used >= IDLE_CALLS:
            return self._aged(text)
        return REPEATS if text.repeated_tokens else None

    def _releases(self, label: str, pinned: Collection[str]) -> list[SlotText] | None:
        """Return what refers to a text and would be folded with it; None if that must stay."""
        referring = self._stream.slots.referring(label)
        if referring is None or not all(self._is_idle(text, pinned) for text in referring):
            return None
        return referring

    def _is_idle(self, text: SlotText, pinned: Collection[str]) -> bool:
        number = self._stream.number
        return (
            number > text.slot.first_prompt
            and number - text.used >= IDLE_CALLS
            and text.slot.object_id not in pinned
        )

    def _released(
        self,
        batch: Sequence[tuple[SlotText, FoldLimits]],
        digests: Collection[int],
        pinned: Collection[str],
    ) -> list[tuple[SlotText, FoldLimits]]:
        """Return what refers to the texts of a batch, and is not part of it itself."""
        stream = self._stream
        labels = [text.slot.label for text, _ in batch] + stream.labels(digests)
        present = {id(text) for text, _ in batch}
        released: list[tuple[SlotText, FoldLimits]] = []
        for label in dict.fromkeys(labels):
            for text in self._releases(label, pinned) or ():
                if id(text) not in present and stream.turn_at(text.message) not in digests:
                    present.add(id(text))
                    released.append((text, self._aged(text)))
        return released

    def _candidate(
        self, text: SlotText, limits: FoldLimits, pinned: Collection[str]
    ) -> FoldCandidate:
        """Estimate a fold; one that would save too little is no fold."""
        estimate = text.estimate
        if estimate is not None and estimate.limits is limits and not self._is_referred(text):
            folded = estimate.tokens
        else:
            folded = self._folded_tokens(text, limits, pinned)
        waited = self._stream.number - text.slot.first_prompt
        if not limits.only_repeats:
            waited = min(waited, self._stream.number - text.used - IDLE_CALLS) + 1
        return FoldCandidate(text.message, text.tokens, min(text.tokens, folded), max(0, waited))

    def _folded_tokens(self, text: SlotText, limits: FoldLimits, pinned: Collection[str]) -> int:
        """Return about the length of a text after a fold."""
        if limits.only_repeats:
            folded = text.whole_tokens - text.repeated_tokens + HANDLE_TOKENS
        else:
            releases = self._releases(text.slot.label, pinned)
            stays = self._stream.slots.required_tokens(text) if releases is None else 0
            if limits.protects:
                stays += text.protected_tokens
            kept = text.alone_tokens(limits) if limits.tokens else 0
            folded = max(kept, stays) + HANDLE_TOKENS
        if folded > (1 - SAVING_MIN) * text.whole_tokens:
            folded = text.tokens
        if not limits.only_repeats and not self._is_referred(text):
            text.estimate = FoldEstimate(self._stream.shaping, limits, folded)
        return folded

    def _stays(self, text: SlotText, put_away: Collection[str]) -> bool:
        """Whether a fold of a text is known to save nothing, as that of most short ones."""
        estimate = text.estimate
        return (
            estimate is not None
            and estimate.tokens >= text.tokens
            and estimate.policy is self._stream.shaping
            and not text.repeated_tokens
            and text.slot.object_id not in put_away
            and not self._is_referred(text)
        )

    def _is_referred(self, text: SlotText) -> bool:
        return self._stream.slots.is_referred(text.slot.label)

    def _fits(self, fixed: Callable[[], int], *, pinned: Collection[str]) -> FoldPlan | None:
        """Fold everything to its handle until the prompt fits: nothing is left to summarise."""
        window, plan = self._stream.policy.window_tokens, None
        # Texts that others refer to come after these, so that each round may find more to fold.
        for limits_of, newest, all_of_it in (
            (_stub, False, False),
            (_stub, False, True),
            (_stub, False, True),
            (_stub, True, True),
            (_bare, True, True),
        ):
            tokens = self._at_most(fixed)
            if tokens <= window:
                return plan
            excess = tokens if all_of_it else tokens - int(window * RELIEVED_SHARE)
            plan = self._fold_oldest(limits_of, excess=excess, pinned=pinned, newest=newest)
        tokens = self._at_most(fixed)
        if tokens <= window:
            return plan
        raise WindowExceeded(tokens, window=window, pinned=self._pinned_tokens(pinned))

    def _fold_oldest(
        self,
        limits_of: Callable[[SlotText], FoldLimits],
        *,
        excess: int,
        pinned: Collection[str],
        newest: bool = False,
    ) -> FoldPlan:
        folds = self._expendable(limits_of, pinned=pinned, newest=newest)
        candidates = [self._candidate(text, limits, pinned) for text, limits in folds]
        plan = plan_window(candidates, excess=excess)
        batch = [folds[index] for index in plan.folds]
        self._stream.fold([*batch, *self._released(batch, (), pinned)])
        return plan

    def _at_most(self, fixed: Callable[[], int]) -> int:
        """Return the most tokens that the provider may count in the prompt."""
        policy = self._stream.policy
        if policy.model != self._model:
            self._model, self._calibration = policy.model, _uncalibrated(policy.model)
        self._counted = fixed() + self._stream.tokens()
        return self._calibration.at_most(self._counted)

    def _expendable(
        self,
        limits_of: Callable[[SlotText], FoldLimits],
        *,
        pinned: Collection[str],
        newest: bool,
    ) -> Sequence[tuple[SlotText, FoldLimits]]:
        """Return what may be folded to fit the window: all but pins, and perhaps the newest turn.

        Notices before the open turn have not been sent yet, and are folded last.
        """
        last, opened = self._stream.last_start(), len(self._stream.message_tokens)
        return [
            (text, limits_of(text))
            for text in self._stream.slots.all()
            if (newest or not last <= text.message < opened) and text.slot.object_id not in pinned
        ]

    def _pinned_tokens(self, pinned: Collection[str]) -> dict[str, int]:
        tokens: Counter[str] = Counter()
        for text in self._stream.slots.all():
            if text.slot.object_id in pinned:
                tokens[text.slot.object_id] += text.tokens
        return dict(tokens.most_common())

    def _may_shrink(self, slot_text: SlotText) -> bool:
        return (
            not slot_text.settled
            and slot_text.tokens > self._aged(slot_text).tokens + HANDLE_TOKENS
        )

    def _aged(self, slot_text: SlotText) -> FoldLimits:
        shaping = self._stream.shaping
        if shaping is not self._aged_by:
            self._aged_by, self._aged_limits = shaping, {}
        key = slot_text.slot.kind, slot_text.whole_tokens
        limits = self._aged_limits.get(key)
        if limits is None:
            limits = self._aged_limits[key] = self._stream.aged(key[0], tokens=key[1])
        return limits


def _stub(_text: SlotText) -> FoldLimits:
    return STUB


def _bare(_text: SlotText) -> FoldLimits:
    return replace(STUB, names_tokens=0)


def _uncalibrated(model: str | None) -> Calibration:
    """Return the bound of the model's vocabulary; without a model, our counts count as exact."""
    return Calibration(EXACT if model is None else declared_bound(model))
