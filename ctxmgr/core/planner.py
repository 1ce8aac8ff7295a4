"""What to fold and when, by cost. Pure.

A prompt is paid by what the provider's cache has of it. Folding something saves its tokens in every
call to come, and makes the provider write again all that follows it. So folds wait until one batch
of them saves more than that rewrite costs:

    saves     read price · calls to come · tokens saved from p on
    costs     (write price - read price) · cached tokens from p on, as they will be

for the place p where the batch begins; everything after p that may be folded goes along, since it
is written again anyway. On a call whose cache is cold all is written in any case, and everything
that may be folded is. Where the window demands it, the oldest is folded until the prompt fits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

CALLS_MIN: Final = 5
"""A session that has just begun is taken to have had so many calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a token costs, with an uncached input token as 1."""

    read: float = 0.1
    """From the provider's cache."""
    write: float = 1.25
    """Into it."""
    output: float = 5.0
    ttl_seconds: float = 300.0
    """How long the provider keeps what nobody reads."""


class Reason(StrEnum):
    """Why something is folded now."""

    PAYS = "pays"
    """The batch saves more than the rewrite costs."""
    COLD = "cold"
    """Nothing of the prompt is cached any more, so the rewrite is free."""
    WINDOW = "window"
    """The prompt would not fit."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One text of the stream as the planner sees it."""

    position: int
    """Which message holds it."""
    tokens: int
    folded_tokens: int
    """What it would be; the same: it cannot be folded now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A batch of folds, with the reason as data."""

    reason: Reason
    start: int
    """The first message that changes."""
    folds: tuple[int, ...]
    """Places among the candidates."""
    saved_tokens: int
    """In every call to come."""
    rewritten_tokens: int
    """Cached now, and written again."""
    calls_expected: float
    net: float
    """In uncached input tokens, over the calls to come."""


def plan_folds(
    candidates: Sequence[Candidate],
    *,
    message_tokens: Sequence[int],
    cached: int,
    calls: int,
    caution: float,
    prices: Prices,
    calls_expected: int | None = None,
    cold: bool = False,
) -> Plan | None:
    """Find the batch that pays most; None: none pays.

    ``candidates`` are in the order of the stream, ``message_tokens`` what each message is now, of
    which the first ``cached`` ones were in the last prompt. ``caution`` is how many times fewer
    calls are expected to come than there have been, unless ``calls_expected`` says how many.
    """
    expected = max(calls, CALLS_MIN) / caution if calls_expected is None else calls_expected
    gain = prices.read * expected + (prices.write if cold else 0.0)
    rewrite = 0.0 if cold else prices.write - prices.read
    best = max(
        _batches(candidates, message_tokens=message_tokens, cached=cached),
        key=lambda batch: gain * batch.saved - rewrite * batch.rewritten,
        default=None,
    )
    if best is None:
        return None
    net = gain * best.saved - rewrite * best.rewritten
    if net <= 0:
        return None
    return Plan(
        reason=Reason.COLD if cold else Reason.PAYS,
        start=candidates[best.first].position,
        folds=tuple(
            at
            for at in range(best.first, len(candidates))
            if candidates[at].tokens > candidates[at].folded_tokens
        ),
        saved_tokens=best.saved,
        rewritten_tokens=best.rewritten,
        calls_expected=expected,
        net=net,
    )


def plan_window(candidates: Sequence[Candidate], *, excess: int) -> Plan:
    """Take the oldest until ``excess`` tokens are saved, or all there are."""
    folds, saved = [], 0
    for at, each in enumerate(candidates):
        if saved >= excess:
            break
        if each.tokens > each.folded_tokens:
            folds.append(at)
            saved += each.tokens - each.folded_tokens
    return Plan(
        reason=Reason.WINDOW,
        start=candidates[folds[0]].position if folds else 0,
        folds=tuple(folds),
        saved_tokens=saved,
        rewritten_tokens=0,
        calls_expected=0,
        net=0,
    )


class _Batch(NamedTuple):
    first: int
    """Place among the candidates."""
    saved: int
    rewritten: int


def _batches(
    candidates: Sequence[Candidate], *, message_tokens: Sequence[int], cached: int
) -> Iterator[_Batch]:
    """Give every batch there could be, the shortest first: all that can be folded from a place."""
    saved = rewritten = 0
    place = cached
    for at in range(len(candidates) - 1, -1, -1):
        each = candidates[at]
        saving = each.tokens - each.folded_tokens
        if saving <= 0:
            continue
        while place > each.position:
            place -= 1
            rewritten += message_tokens[place]
        saved += saving
        if each.position < cached:
            rewritten -= saving
        yield _Batch(at, saved, rewritten)
