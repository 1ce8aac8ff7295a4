"""Which memories a prompt gets, and in which tier. Pure.

    1 critical     open contradictions; standing instructions; decisions about the current file;
                   fixes of the errors at hand and of the last 24 hours
    2 relevant     what matches the work at hand: summaries; then what is predicted to be needed,
                   what is linked with a match, and what a collaborator prefers
    3 background   the history of the current file's folder, conventions and preferences of the
                   project, workflow hints: compressed
    4 index        whatever else there is, by name, to be expanded

Tier 2 takes only what clears a relevance cut, never a fixed number. Episodes are never shown in
full. What is cold is shown only if it matches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.memory.records.bodies import MemoryType
from ctxmgr.memory.records.contradiction import Contradiction
from ctxmgr.memory.records.memory import Memory, MemoryKind
from ctxmgr.memory.records.usage import MemoryUsage
from ctxmgr.memory.tiers.context_builder import (
    ContextBuilder,
    OmittedItem,
    ShownItem,
    TierItem,
)
from ctxmgr.memory.tiers.profiles import BUDGET_TOKENS
from ctxmgr.memory.tiers.ranking import usefulness

RECENT_ERROR_MS: Final = 24 * 3_600_000
RELEVANCE_CUT: Final = 0.35
"""The share of the best match's score that a memory needs to be relevant."""

RECALL: Final = "recall"
RECALL_CUT: Final = 0.15
"""The same when a question about the past is asked: then the budget is there to be used."""

SHORT_ID_CHARS: Final = 8

NEXT_FILES: Final = "next-files"
"""Stands for the id of a memory in the line of predicted files."""

SIDES_MAX: Final = 5
"""Memories that one line shows of those that contradict each other, the newest."""

HISTORY_MAX: Final = 5
"""Episodes about the current file's folder that are shown unasked, the most useful."""

_LAID_DOWN: Final = frozenset({MemoryKind.INSTRUCTION, MemoryKind.QUESTION})
_DECIDED: Final = frozenset({MemoryKind.DECISION, MemoryKind.ADR})
_PROJECT_WIDE: Final = frozenset({MemoryKind.CONVENTION, MemoryKind.PREFERENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What is known about the work at hand."""

    current_file: str | None = None
    recent_errors: tuple[str, ...] = ()
    activity: str | None = None
    message: str | None = None
    branch: str | None = None
    collaborator: str | None = None
    next_files: tuple[tuple[str, str], ...] = ()
    """Files that will probably be needed next, each with the reason."""

    def question(self) -> str:
        """Return the words that memories are matched with."""
        parts = (self.current_file or "").split("/")[-2:]
        return " ".join((*parts, *self.recent_errors, self.message or "")).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledContext:
    """The text for a prompt, what is in it, and what is not."""

    context: str
    token_count: int
    tiers: tuple[int, ...]
    shown: tuple[ShownItem, ...]
    left_out: Callable[[], tuple[OmittedItem, ...]] = field(repr=False, compare=False)

    @property
    def omitted(self) -> tuple[OmittedItem, ...]:
        """What is not shown, with the reason; this is found out when somebody asks."""
        return self.left_out()


def assemble_context(
    memories: Sequence[Memory],
    *,
    signals: Signals,
    relevance: Mapping[str, float],
    usage: Mapping[str, MemoryUsage] = MappingProxyType({}),
    scores: Mapping[str, float] = MappingProxyType({}),
    contradictions: Sequence[Contradiction],
    count: Callable[[str], int],
    now: Instant,
    budget: int = BUDGET_TOKENS,
    marked: bool = False,
    predicted: Mapping[str, str] = MappingProxyType({}),
) -> AssembledContext:
    """Fill the tiers. ``relevance`` has the score of every memory that matches the signals.

    ``predicted`` are memories that are shown after the matches, with the reason, the likeliest
    first.

    ``scores`` is the usefulness of memories where it is known already; the rest is computed from
    ``usage``.
    With ``marked``, every line ends with the first characters of its memory's id, so that an agent
    can cite it.
    """
    by_id = {memory.id: memory for memory in memories}
    best = max(relevance.values(), default=0.0)
    cut = RECALL_CUT if signals.activity == RECALL else RELEVANCE_CUT
    matching = {
        memory_id: score / best
        for memory_id, score in relevance.items()
        if memory_id in by_id and score >= cut * best > 0
    }

    def order(memory: Memory) -> tuple[float, Instant, str]:
        score = scores.get(memory.id)
        if score is None:
            used = usage.get(memory.id, MemoryUsage(memory_id=memory.id))
            score = usefulness(memory, used, now=now)
        return -score * (1 + matching.get(memory.id, 0.0)), memory.created_at, memory.id

    ranked = sorted(memories, key=order)
    builder = ContextBuilder(budget, count=count, activity=signals.activity)
    builder.add_tier1(_disputes([pair for pair in contradictions if _known(pair, by_id)], by_id))
    warm = [memory for memory in ranked if not memory.cold or memory.id in matching]
    mark = _with_marker if marked else iter
    builder.add_tier1(mark(_critical(warm, signals, matching, now)))
    builder.add_tier2(mark(_relevant(ranked, matching)))
    builder.add_tier2(_next_files(signals.next_files))
    expected = [(by_id[each], why) for each, why in predicted.items() if each in by_id]
    builder.add_tier2(mark(_summary(memory, why) for memory, why in expected))
    builder.add_tier3(mark(_history(warm, signals.current_file)))
    builder.add_tier3(mark(_background(warm)))
    builder.add_tier4(_index_item(memory) for memory in warm)
    return AssembledContext(
        context=builder.render(),
        token_count=builder.token_count,
        tiers=builder.tier_tokens,
        shown=builder.shown,
        left_out=lambda: builder.omitted,
    )


def _critical(
    ranked: Iterable[Memory],
    signals: Signals,
    matching: Mapping[str, float],
    now: Instant,
) -> Iterable[TierItem]:
    for memory in ranked:
        if memory.kind in _LAID_DOWN:
            yield _summary(memory, f"{memory.kind}")
        elif memory.kind in _DECIDED and _is_about(memory, signals.current_file):
            yield _summary(memory, f"{memory.kind} about {signals.current_file}")
        elif memory.kind is MemoryKind.ERROR_FIX and (
            now - memory.created_at <= RECENT_ERROR_MS
            or (signals.recent_errors and memory.id in matching)
        ):
            yield _summary(memory, "fix of a recent or similar error")


def _relevant(ranked: Iterable[Memory], matching: Mapping[str, float]) -> Iterable[TierItem]:
    found = [memory for memory in ranked if memory.id in matching]
    for memory in sorted(found, key=lambda memory: -matching[memory.id]):
        score = matching[memory.id]
        yield _summary(memory, f"matches the work at hand ({score:.2f} of the best match)")


def _next_files(files: Sequence[tuple[str, str]]) -> list[TierItem]:
    if not files:
        return []
    reasons = ", ".join(f"{path} ({why})" for path, why in files)
    names = ", ".join(path for path, _ in files)
    forms = tuple(f"Probably needed next: {each}" for each in (reasons, names))
    return [TierItem(id=NEXT_FILES, forms=forms, why="predicted from what was touched so far")]


def _history(ranked: Iterable[Memory], path: str | None) -> Iterator[TierItem]:
    if path is None:
        return
    folder = path.rpartition("/")[0]
    past = (each for each in ranked if each.type is MemoryType.EPISODE and in_module(each, path))
    for memory in islice(past, HISTORY_MAX):
        yield _compressed(memory, f"history of {folder or path}")


def in_module(memory: Memory, path: str) -> bool:
    """Whether a memory names a file or something in its folder; at the root, only the file."""
    folder, slash, _ = path.rpartition("/")
    return any(tag == path or (slash and tag.startswith(folder + slash)) for tag in memory.tags)


def _background(ranked: Iterable[Memory]) -> Iterable[TierItem]:
    for memory in ranked:
        if memory.kind in _PROJECT_WIDE:
            yield _compressed(memory, f"{memory.kind} of the project")
        elif memory.type is MemoryType.WORKFLOW:
            yield _compressed(memory, "workflow")
        elif memory.kind in _DECIDED:
            yield _compressed(memory, f"earlier {memory.kind}")


def _summary(memory: Memory, why: str) -> TierItem:
    """Show the summary, or less; of a pattern or workflow, the hint. Old episodes are short."""
    hinted = memory.type in (MemoryType.PATTERN, MemoryType.WORKFLOW)
    is_short = hinted or memory.condensed > 1
    forms = (memory.levels.summary, memory.levels.compressed)
    return TierItem(id=memory.id, forms=forms[1:] if is_short else forms, why=why)


def _compressed(memory: Memory, why: str) -> TierItem:
    forms = (memory.levels.compressed, memory.levels.index)
    return TierItem(id=memory.id, forms=forms, why=why)


def _with_marker(items: Iterable[TierItem]) -> Iterator[TierItem]:
    for item in items:
        mark = f" [{item.id[:SHORT_ID_CHARS]}]"
        yield TierItem(id=item.id, forms=tuple(form + mark for form in item.forms), why=item.why)


def _index_item(memory: Memory) -> TierItem:
    name = f"{memory.id[:SHORT_ID_CHARS]} {memory.levels.index}"
    return TierItem(id=memory.id, forms=(name,), why="can be expanded")


def _disputes(pairs: Sequence[Contradiction], by_id: Mapping[str, Memory]) -> list[TierItem]:
    """Return a line for each group of memories that disagree, with all sides, oldest first.

    Three values of one slot are three pairs, and one question.
    """
    group_of: dict[str, dict[str, None]] = {}
    first: dict[str, Contradiction] = {}
    for pair in pairs:
        one = group_of.setdefault(pair.memory_a, {pair.memory_a: None})
        other = group_of.setdefault(pair.memory_b, {pair.memory_b: None})
        if one is not other:
            one.update(other)
            group_of.update(dict.fromkeys(other, one))
        first.setdefault(next(iter(one)), pair)
    groups = {next(iter(group)): group for group in group_of.values()}
    return [
        _dispute(first[oldest], [by_id[memory_id] for memory_id in group])
        for oldest, group in groups.items()
    ]


def _dispute(pair: Contradiction, sides: Sequence[Memory]) -> TierItem:
    order = sorted(sides, key=lambda memory: (memory.created_at, memory.id))
    shown, more = order[-SIDES_MAX:], len(order) - SIDES_MAX
    rest = f" or {more} earlier ones" if more > 0 else ""
    text = " or ".join(f"{side.levels.summary} ({_source(side)})" for side in shown)
    short = " or ".join(side.levels.compressed for side in shown)
    return TierItem(
        id=pair.id,
        forms=(f"Unresolved: {text}{rest}?", f"Unresolved: {short}{rest}?"),
        why="open contradiction",
    )


def _source(memory: Memory) -> str:
    where = f" in {memory.origin.session_id}" if memory.origin.session_id else ""
    return f"{memory.id[:SHORT_ID_CHARS]}, {memory.author}{where}"


def _known(pair: Contradiction, by_id: Mapping[str, Memory]) -> bool:
    return pair.memory_a in by_id and pair.memory_b in by_id


def _is_about(memory: Memory, path: str | None) -> bool:
    """Whether a memory names a file, or a folder above it."""
    if path is None:
        return False
    return any(path == tag or path.startswith(tag.rstrip("/") + "/") for tag in memory.tags)
