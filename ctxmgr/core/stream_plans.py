"""What becomes shorter before a call, and where a cached prefix should end. Pure.

next_plan   folds what pays, what is cold anyway or what does not fit, once a turn
reported    how many tokens the provider counted: the next prompt is held to the window by that
marks       where an API that keeps only marked prefixes should keep them
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ctxmgr.core.calibration import Calibration
from ctxmgr.core.folding import HANDLE_TOKENS, Limits
from ctxmgr.core.pieces import Piece
from ctxmgr.core.planner import Candidate, Plan, plan_folds, plan_window
from ctxmgr.core.policies import STUB, idle_calls
from ctxmgr.core.stream import Stream
from ctxmgr.core.vocabularies import EXACT, vocabulary
from ctxmgr.errors import WindowExceeded

WINDOW_SLACK: Final = 0.8
"""A prompt that does not fit is folded to this share of the window, so that the next one does."""


class Planning:
    """Plans for one stream, call by call."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._sent = 0
        """So many messages were in the last prompt."""
        self._planned: tuple[int, Plan | None] = (0, None)
        self._counted = 0
        """Tokens of the last prompt, by our count."""
        self._model = stream.policy.model
        self._calibration = _uncalibrated(self._model)

    def reported(self, tokens: int) -> None:
        """Learn from what the provider counted of the last prompt."""
        self._calibration = self._calibration.observe(counted=self._counted, reported=tokens)

    def next_plan(
        self,
        *,
        fixed: Callable[[], int],
        put_away: Collection[str] = frozenset(),
        pinned: Collection[str] = frozenset(),
        cold: bool = False,
    ) -> Plan | None:
        """Fold what should be shorter now; say what and why.

        Asked again in the same turn, only the window can demand more. ``fixed`` counts what the
        prompt holds besides the closed turns, as it stands then. ``WindowExceeded`` if what must
        stay does not fit.
        """
        number, plan = self._planned
        if number != self._stream.number:
            plan = self._pays(put_away, pinned=pinned, cold=cold)
        plan = self._fits(fixed, pinned=pinned) or plan
        self._planned = (self._stream.number, plan)
        self._sent = len(self._stream.message_tokens) + 1
        return plan

    def marks(self) -> tuple[int, ...]:
        """Name turns, from 1, after which a cached prefix should end, besides the last.

        The first is before what changed last, where an earlier prefix can be found again. The
        second is half way from there, or from the oldest text that may still be folded, to the
        end: the next change is likely to come after it.
        """
        stream = self._stream
        oldest = next((each.message for each in stream.pieces.all if self._may_shrink(each)), 0)
        middle = (max(stream.broken, oldest) + len(stream.message_tokens)) // 2
        turns = {stream.turn_at(stream.broken), stream.turn_at(middle)}
        return tuple(sorted(each for each in turns if each > 0))

    def _pays(
        self, put_away: Collection[str], *, pinned: Collection[str], cold: bool
    ) -> Plan | None:
        stream = self._stream
        folds = [
            (each, STUB if each.place.object_id in put_away else self._aged(each))
            for each in stream.pieces.all
            if not each.settled
            and each.place.object_id not in pinned
            and self._is_idle(each, put_away)
        ]
        plan = plan_folds(
            [_candidate(*each) for each in folds],
            message_tokens=stream.message_tokens,
            cached=min(self._sent, len(stream.message_tokens)),
            calls=stream.number,
            calls_expected=stream.policy.calls_expected,
            caution=stream.policy.caution,
            prices=stream.policy.prices,
            cold=cold,
        )
        if plan is not None:
            stream.fold([folds[at] for at in plan.folds])
        return plan

    def _fits(self, fixed: Callable[[], int], *, pinned: Collection[str]) -> Plan | None:
        stream, window = self._stream, self._stream.policy.window_tokens
        tokens = self._at_most(fixed)
        if tokens <= window:
            return None
        plan = None
        for limits_of in (self._aged, _stub):
            folds = self._leaving(limits_of, pinned=pinned)
            plan = plan_window(
                [_candidate(*each) for each in folds],
                excess=tokens - int(window * WINDOW_SLACK),
            )
            stream.fold([folds[at] for at in plan.folds])
            tokens = self._at_most(fixed)
            if tokens <= window:
                return plan
        raise WindowExceeded(tokens, window=window, pinned=self._pinned_tokens(pinned))

    def _at_most(self, fixed: Callable[[], int]) -> int:
        """Count the prompt as its provider will, at most."""
        policy = self._stream.policy
        if policy.model != self._model:
            self._model, self._calibration = policy.model, _uncalibrated(policy.model)
        self._counted = fixed() + self._stream.tokens()
        return self._calibration.at_most(self._counted)

    def _leaving(
        self, limits_of: Callable[[Piece], Limits], *, pinned: Collection[str]
    ) -> Sequence[tuple[Piece, Limits]]:
        """Give what the window may cost: all but pins and what the newest turn has brought.

        Notices before the open turn were not sent yet, and go last.
        """
        newest, opened = self._stream.last_start(), len(self._stream.message_tokens)
        return [
            (each, limits_of(each))
            for each in self._stream.pieces.all
            if not newest <= each.message < opened and each.place.object_id not in pinned
        ]

    def _pinned_tokens(self, pinned: Collection[str]) -> dict[str, int]:
        tokens: Counter[str] = Counter()
        for each in self._stream.pieces.all:
            if each.place.object_id in pinned:
                tokens[each.place.object_id] += each.tokens
        return dict(tokens.most_common())

    def _is_idle(self, piece: Piece, put_away: Collection[str]) -> bool:
        if piece.place.object_id in put_away:
            return True
        return self._stream.number - piece.used >= idle_calls(piece.place.kind)

    def _may_shrink(self, piece: Piece) -> bool:
        return not piece.settled and piece.tokens > self._aged(piece).tokens + HANDLE_TOKENS

    def _aged(self, piece: Piece) -> Limits:
        return self._stream.policy.aged(piece.place.kind, tokens=piece.text.tokens)


def _uncalibrated(model: str | None) -> Calibration:
    """A model that is named is known by its vocabulary's bound; of none, ours is all there is."""
    return Calibration(EXACT if model is None else vocabulary(model).bound)


def _stub(_piece: Piece) -> Limits:
    return STUB


def _candidate(piece: Piece, limits: Limits) -> Candidate:
    folded = min(piece.tokens, limits.tokens + HANDLE_TOKENS)
    return Candidate(piece.message, piece.tokens, folded)
