"""The figures of the economy benchmark, with their targets.

sessions    cost and kept names of the policies; only some recordings, which are recognised by
            the beginning of their file's name, have targets
planning    CPU time of one turn's plan in a session of a thousand objects
tokens      the token counter against the plain tokenizer, on texts it has not seen
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from time import process_time
from typing import Final

from ctxmgr.bench.economy.judge import PolicyResult
from ctxmgr.bench.economy.replay import Truth
from ctxmgr.bench.report import Figure, at_least
from ctxmgr.core.context.tokens import CL100K, TokenCounter, named_vocabulary
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.planner import FoldPlanner
from ctxmgr.core.economy.policy import Economy, Prices
from ctxmgr.core.economy.stream import Stream
from ctxmgr.core.objects.answers import AnswerCall, CallRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The targets for one kind of recordings; None if there is none."""

    cost: float | None = None
    keep: float | None = None
    line: float | None = None
    all_line: float | None = None
    written: float | None = None
    arrival_cost: float | None = None
    arrival_keep: float | None = None
    arrival_line: float | None = None
    marked: float | None = None
    """Cost with a cache that keeps only marked prefixes."""
    loss_by_keep: float | None = None
    """Loss relative to that of a simple policy at the same cost."""
    loss_by_line: float | None = None


BOUNDS: Final[Mapping[str, Bounds]] = {
    "pi": Bounds(
        cost=0.42,
        keep=0.99,
        line=0.94,
        written=1.2,
        arrival_cost=0.65,
        arrival_keep=0.99,
        arrival_line=0.99,
        marked=0.50,
        loss_by_keep=0.5,
        loss_by_line=0.5,
    ),
    "mini": Bounds(
        cost=0.87,
        keep=0.99,
        line=0.98,
        all_line=0.92,
        written=1.2,
        loss_by_keep=0.5,
        loss_by_line=0.5,
    ),
    "tau": Bounds(cost=0.975, keep=1.0, line=0.97, written=1.2, loss_by_keep=0.5),
}

FULL: Final = "full history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All results on one file."""

    name: str
    full: PolicyResult
    simple: tuple[PolicyResult, ...]
    dial: tuple[PolicyResult, ...]
    """Our policy, in order of increasing fidelity."""
    default: PolicyResult
    """Our policy with default settings."""
    arrival: PolicyResult
    """Our policy, which never changes what was sent."""
    prose: PolicyResult
    """Our policy, which also shortens the assistant's own text."""
    marked_cost: float
    """Cost of our policy, without outputs, with a cache that keeps only marked prefixes."""
    one_mark_cost: float
    """The same, with one mark besides those of the system prompt and the end."""
    truth: Truth

    def cost(self, result: PolicyResult, prices: Prices) -> float:
        return result.total.cost(prices) / self.full.total.cost(prices)


def figures(measured: Measured, *, prices: Prices, promised: bool = True) -> Iterator[Figure]:
    """Yield the figures of one file; without ``promised``, none has a target."""
    name, ours = measured.name, measured.default.total
    targets = (target for prefix, target in BOUNDS.items() if name.startswith(prefix))
    bounds = next(targets, Bounds()) if promised else Bounds()
    yield _most(f"{name}: cost", measured.cost(measured.default, prices), bounds.cost)
    yield _least(f"{name}: keep", ours.keep, bounds.keep)
    yield _least(f"{name}: line", ours.line, bounds.line)
    yield _least(f"{name}: all-line", ours.all_line, bounds.all_line)
    written = ours.written_tokens / measured.full.total.written_tokens
    yield _most(f"{name}: tokens written to the cache", written, bounds.written)
    marked = measured.marked_cost + prices.output * ours.output_tokens
    share = marked / measured.full.total.cost(prices)
    yield _most(f"{name}: cost, cache of marked prefixes only", share, bounds.marked)
    one_mark = measured.one_mark_cost + prices.output * ours.output_tokens
    share = one_mark / measured.full.total.cost(prices)
    yield _most(f"{name}: cost, one free mark", share, None)
    yield _most(f"{name}: references that do not resolve", measured.truth.dangling, 0)
    yield _most(f"{name}: reads that are not whole in the next prompt", measured.truth.withheld, 0)
    arrival = measured.arrival.total
    cost = measured.cost(measured.arrival, prices)
    yield _most(f"{name}: on arrival only, cost", cost, bounds.arrival_cost)
    yield _least(f"{name}: on arrival only, keep", arrival.keep, bounds.arrival_keep)
    yield _least(f"{name}: on arrival only, line", arrival.line, bounds.arrival_line)
    cost = measured.cost(measured.prose, prices)
    yield _most(f"{name}: prose shortened too, cost", cost, None)
    yield _least(f"{name}: prose shortened too, line", measured.prose.total.line, None)
    yield from _against_simple(measured, bounds, prices)


def undominated(results: Sequence[PolicyResult], prices: Prices) -> list[PolicyResult]:
    """Leave out policies that another one beats in cost or keep without being worse in either."""
    scores = [(result, result.total.cost(prices), result.total.keep) for result in results]
    return [
        result
        for result, cost, kept in scores
        if not any(
            other_cost <= cost and other_kept >= kept and (other_cost, other_kept) != (cost, kept)
            for _, other_cost, other_kept in scores
        )
    ]


def _against_simple(measured: Measured, bounds: Bounds, prices: Prices) -> Iterator[Figure]:
    """Compare the losses of each simple policy with ours at no higher cost."""
    for simple in undominated(measured.simple, prices):
        limit = simple.total.cost(prices)
        affordable = (
            result for result in reversed(measured.dial) if result.total.cost(prices) <= limit
        )
        ours = next(affordable, None)
        for what, bound in (("keep", bounds.loss_by_keep), ("line", bounds.loss_by_line)):
            theirs = 1 - getattr(simple.total, what)
            our_loss = 1.0 if ours is None else 1 - getattr(ours.total, what)
            if theirs > 0:
                policy = "no setting of ours is as cheap" if ours is None else ours.policy
                yield _most(
                    f"{measured.name}: loss by {what} at the cost of {simple.policy}",
                    our_loss / theirs,
                    bound,
                    note=f"{policy}: loses {our_loss:.3f}, the other {theirs:.3f}",
                )


def _most(what: str, value: float, bound: float | None, *, note: str = "") -> Figure:
    return Figure(
        what=what,
        value=value,
        bound="" if bound is None else f"at most {bound:g}",
        meets=None if bound is None else value <= bound,
        against=FULL,
        note=note,
    )


def _least(what: str, value: float, bound: float | None, *, note: str = "") -> Figure:
    return Figure(
        what=what,
        value=value,
        bound="" if bound is None else f"at least {bound:g}",
        meets=None if bound is None else value >= bound,
        against=FULL,
        note=note,
    )


OBJECTS: Final = 1_000
BOUND_MS: Final = 2.0
_TURNS_TIMED: Final = 50


def planning_figures(*, count: Count) -> list[Figure]:
    """Time the plans of the last turns, in CPU time, because the machine may be busy."""
    stream = Stream(Economy(), count=count)
    planning = FoldPlanner(stream)
    times_ms = []
    for number in range(1, OBJECTS + 1):
        call_id = f"c{number}"
        lines = [f"def function_{number}_{n}(argument): ..." for n in range(10)]
        ref = CallRef(object_id=call_id, tool="read", status="ok")
        call = AnswerCall(ref=ref, call_id=call_id, args={"path": f"src/file_{number}.py"})
        stream.close("", (call,), outputs={call_id: "\n".join(lines)})
        started = process_time()
        planning.next_plan(fixed=int)
        times_ms.append(1000 * (process_time() - started))
    last = times_ms[-_TURNS_TIMED:]
    value = median(last)
    return [
        Figure(
            what=f"planning one turn, {OBJECTS} objects, ms",
            value=value,
            bound=f"at most {BOUND_MS:g} ms",
            meets=value <= BOUND_MS,
            against="",
            note=f"slowest of {_TURNS_TIMED}: {max(last):.1f} ms, with the folds of a batch",
        )
    ]


BOUND: Final = 0.8
_TEXTS: Final = 1_000
_QUICK_TEXTS: Final = 300
_LINES: Final = (8, 40, 300)
_ROUNDS: Final = 15


def token_figures(*, quick: bool) -> list[Figure]:
    """Count new texts of three sizes on both sides alternately; compare medians of CPU time."""
    random = Random(1)  # noqa: S311 (filler)
    texts = [
        "".join(
            f"def f{random.getrandbits(30)}(first, second):  # {random.getrandbits(60):x}\n"
            for _ in range(_LINES[n % len(_LINES)])
        )
        for n in range(_QUICK_TEXTS if quick else _TEXTS)
    ]
    alone = named_vocabulary(CL100K).count
    ours, theirs = [], []
    for _ in range(_ROUNDS):
        ours.append(_seconds(TokenCounter().count, texts))
        theirs.append(_seconds(alone, texts))
    ratio = median(theirs) / median(ours)
    tokens = sum(map(alone, texts))
    note = f"{tokens / min(ours) / 1e6:.1f} M tokens/s, tokenizer {tokens / min(theirs) / 1e6:.1f}"
    what = f"tokens counted per second, {len(texts)} new texts"
    return [at_least(what, ratio, bound=BOUND, against="tokenizer alone", note=note)]


def _seconds(count: Callable[[str], int], texts: list[str]) -> float:
    started = process_time()
    for text in texts:
        count(text)
    return process_time() - started
