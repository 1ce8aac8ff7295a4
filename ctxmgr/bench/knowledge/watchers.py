"""Benchmarks of the watchers: speed with 200 topics, and what each part is good for. Reads files.

``watched/`` holds topics and labelled messages that were written for this benchmark: what
developers and people in offices write, what agents answer, and messages that only look like a
topic. Half of the messages (``tune``) served to choose the weights of Tier 2 and the gate's rule;
the figures are those of the other half (``test``).

How many messages each tier filters depends on what people write. The labelled messages were
written to be about topics, or to look like it, so with a folder the tiers also get what users of
LongMemEval wrote to their assistants: those are ordinary messages.

The gate is its rule: there is no model here.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Final, Literal

from ctxmgr.bench.measure import percentile
from ctxmgr.bench.report import Figure, Say, reported, within
from ctxmgr.knowledge.notes.note import read_note
from ctxmgr.knowledge.topics.gate_decision import GateResult
from ctxmgr.knowledge.topics.pattern_matcher import PatternMatcher, check_triggers
from ctxmgr.knowledge.topics.similarity_scorer import SimilarityScorer
from ctxmgr.knowledge.topics.switches import ALL_ON, WatcherSwitches
from ctxmgr.knowledge.topics.topic import (
    Direction,
    MessageTrigger,
    Topic,
    TriggerKind,
    read_topics,
)
from ctxmgr.knowledge.topics.watcher_pipeline import WatcherPipeline

WATCHED: Final = Path(__file__).parent / "watched"
TOPICS: Final = 200
TIER1_MS_MAX: Final = 1.0
TIER2_MS_MAX: Final = 10.0
TIER1_SHARE_MIN: Final = 0.8
TIER2_SHARE_MIN: Final = 0.9
ORDINARY_MAX: Final = 2_000
SEED: Final = 88
ROUNDS: Final = 7
QUICK_ROUNDS: Final = 2
PARTS: Final = (
    *("tier1", "tier2", "gate", "output_steering"),
    *("tfidf", "bm25", "jaccard", "minhash", "sentiment"),
    *("patterns", "keywords", "paths", "language", "sentiment_shift"),
)
"""What is turned off, one at a time."""

ALGORITHM_MS: Final = {"tfidf": 1, "bm25": 1, "jaccard": 1, "minhash": 2, "sentiment": 5}
"""The algorithms of Tier 2, and what the design allows each, in milliseconds."""
COSTED: Final = 60
"""Messages whose algorithms are measured one by one."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledMessage:
    half: Literal["tune", "test"]
    direction: Direction
    text: str
    topics: frozenset[str]
    """Those that it should activate."""
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Right and wrong activations."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterShares:
    """How many pairs of a message and a topic each tier leaves over."""

    pairs: int
    silent_messages: float
    """The share of messages that match no trigger."""
    after_tier1: int
    matched: int
    """Those of them that a trigger matched; the others opted in to similarity alone."""
    after_tier2: int
    asked: int
    """Pairs that the gate is asked about."""

    @property
    def tier1(self) -> float:
        """The share that Tier 1 filters."""
        return 1 - self.after_tier1 / max(1, self.pairs)

    @property
    def tier2(self) -> float:
        """The share of the rest that similarity and the bypass table filter."""
        return 1 - self.after_tier2 / max(1, self.after_tier1)


async def filter_shares(
    topics: Sequence[Topic], messages: Sequence[LabelledMessage]
) -> FilterShares:
    """Count what each tier passes on."""
    pipeline = WatcherPipeline(topics)
    after_tier1 = after_tier2 = asked = silent = matched = 0
    for message in messages:
        verdicts = await pipeline.verdicts(
            message.text, message.direction, tool_paths=message.paths
        )
        silent += not any(each.triggers for each in verdicts)
        after_tier1 += len(verdicts)
        matched += sum(bool(each.triggers) for each in verdicts)
        after_tier2 += sum(each.result is not GateResult.DROPPED for each in verdicts)
        asked += sum(each.result in {GateResult.YES, GateResult.NO} for each in verdicts)
    return FilterShares(
        pairs=len(topics) * len(messages),
        silent_messages=silent / max(1, len(messages)),
        after_tier1=after_tier1,
        matched=matched,
        after_tier2=after_tier2,
        asked=asked,
    )


def _share_figures(shares: FilterShares) -> list[Figure]:
    note = (
        f"{shares.after_tier1} of {shares.pairs:,} pairs of message and topic pass Tier 1,"
        f" {shares.after_tier2} Tier 2; the gate is asked about {shares.asked}"
    )
    return [
        reported("Tier 1 filters, share of pairs", shares.tier1, against="–", note=note),
        reported(
            "messages that match no trigger, share",
            shares.silent_messages,
            against="002-R088: 0.8",
            note="the test messages were written to be about topics, or to look like it",
        ),
        reported(
            "Tier 2 filters, share of the rest", shares.tier2, against="002-R089: 0.9", note=note
        ),
    ]


def algorithm_costs(
    topics: Sequence[Topic], messages: Sequence[LabelledMessage], *, rounds: int
) -> list[Figure]:
    """Measure each algorithm of Tier 2 with the others off."""
    names, figures = {topic.name for topic in topics}, []
    for algorithm, guide in ALGORITHM_MS.items():
        others = {name: False for name in ALGORITHM_MS if name != algorithm}
        scorer = SimilarityScorer(topics, switches=replace(ALL_ON, **others))
        times = []
        for message in messages:
            runs = []
            for _ in range(rounds):
                started = thread_time()
                scorer.score(message.text, names)
                runs.append(1e3 * (thread_time() - started))
            times.append(median(runs))
        figures.append(
            reported(
                f"Tier 2, {algorithm} alone with {len(topics)} topics, p50",
                median(times),
                against=f"002-R105: {guide:g} ms",
                note=f"ms of CPU time; p99 {percentile(times, 99):.2f}",
            )
        )
    return figures


async def ordinary_figures(texts: Sequence[str], *, say: Say) -> list[Figure]:
    """Measure what the tiers filter of messages that were not written for any topic."""
    topics, _ = read_watched()
    chosen = random.Random(SEED).sample(texts, min(ORDINARY_MAX, len(texts)))  # noqa: S311
    say(f"knowledge: {len(chosen):,} ordinary messages, {len(topics)} topics")
    shares = await filter_shares(topics, [ordinary_message(text) for text in chosen])
    note = (
        f"{len(chosen):,} messages; {shares.after_tier1:,} pairs of message and topic reach Tier 2"
        f", {shares.matched} of them by a trigger; {shares.after_tier2} pass it"
    )
    return [
        Figure(
            what="ordinary messages that match no trigger, share",
            value=shares.silent_messages,
            bound=f"at least {TIER1_SHARE_MIN:g}",
            meets=shares.silent_messages >= TIER1_SHARE_MIN,
            against="002-R088",
            note=note,
        ),
        Figure(
            what="Tier 2 filters of the rest of ordinary messages, share",
            value=shares.tier2,
            bound=f"at least {TIER2_SHARE_MIN:g}",
            meets=shares.tier2 >= TIER2_SHARE_MIN,
            against="002-R089",
            note=note,
        ),
    ]


def ordinary_message(text: str) -> LabelledMessage:
    """Return a message that no topic is expected for."""
    return LabelledMessage(
        half="test", direction=Direction.INPUT, text=text, topics=frozenset(), paths=()
    )


async def watcher_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure speed and the ablation on the messages that are kept for testing."""
    topics, messages = read_watched()
    say(f"knowledge: {len(messages)} labelled messages, {len(topics)} topics")
    test = [message for message in messages if message.half == "test"]
    rounds = QUICK_ROUNDS if quick else ROUNDS
    speed = _speed(with_clones(topics), messages, rounds=rounds)
    costs = algorithm_costs(with_clones(topics), messages[:COSTED], rounds=rounds)
    shares = await filter_shares(topics, test)
    return [*speed, *costs, *_share_figures(shares), *await _ablation(topics, test)]


def read_watched() -> tuple[list[Topic], list[LabelledMessage]]:
    """Read the topics and the labelled messages."""
    notes = [
        read_note(f"topics/{path.name}", path.read_text(encoding="utf-8"))
        for path in sorted((WATCHED / "topics").glob("*.md"))
    ]
    topics, problems = check_triggers(read_topics(notes).topics)
    assert not problems, problems
    lines = (WATCHED / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    messages = [
        LabelledMessage(
            half=row["half"],
            direction=Direction(row["direction"]),
            text=row["text"],
            topics=frozenset(row["topics"]),
            paths=tuple(row.get("paths", ())),
        )
        for row in rows
    ]
    return topics, messages


def with_clones(topics: Sequence[Topic]) -> list[Topic]:
    """Return 200 topics: the given ones, and clones of them in made-up words."""
    clones = [_clone(topic, shift) for shift in range(1, len(_LETTERS)) for topic in topics]
    return [*topics, *clones][:TOPICS]


async def evaluate(
    topics: Sequence[Topic], messages: Sequence[LabelledMessage], switches: WatcherSwitches
) -> Hits:
    """Compare what messages activate with what they should."""
    pipeline = WatcherPipeline(topics, switches=switches)
    right = wrong = missed = 0
    for message in messages:
        activations = await pipeline.process(
            message.text, message.direction, tool_paths=message.paths
        )
        found = {activation.topic.name for activation in activations}
        right += len(found & message.topics)
        wrong += len(found - message.topics)
        missed += len(message.topics - found)
    return Hits(right=right, wrong=wrong, missed=missed)


def _clone(topic: Topic, shift: int) -> Topic:
    """Return a topic in words that no message has, with as many triggers."""

    def turned(text: str) -> str:
        table = str.maketrans(_LETTERS, _LETTERS[shift:] + _LETTERS[:shift])
        return text.lower().translate(table)

    words = tuple(turned(word) for word in topic.keywords)
    pattern = rf"\b({'|'.join(words[:4])})\w*\b"
    return replace(
        topic,
        name=f"{topic.name}-{shift}",
        description=turned(topic.description),
        instructions=turned(topic.instructions),
        context_notes=turned(topic.context_notes),
        keywords=words,
        triggers=(
            MessageTrigger(kind=TriggerKind.PATTERN, values=(pattern,)),
            MessageTrigger(kind=TriggerKind.KEYWORD, values=words),
        ),
    )


def _speed(
    topics: Sequence[Topic], messages: Sequence[LabelledMessage], *, rounds: int
) -> list[Figure]:
    matcher, scorer = PatternMatcher(topics), SimilarityScorer(topics)
    names = {topic.name for topic in topics}
    first: list[float] = []
    second: list[float] = []
    for message in messages:
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds + 1):
            started = thread_time()
            matcher.matches(message.text, direction=message.direction, tool_paths=message.paths)
            middle = thread_time()
            scorer.score(message.text, names)
            if number:
                times[0].append(middle - started)
                times[1].append(thread_time() - middle)
        first.append(1e3 * median(times[0]))
        second.append(1e3 * median(times[1]))
    note = f"CPU time; {len(messages)} messages, each the median of {rounds} runs"
    return [
        within(
            f"Tier 1 with {len(topics)} topics, p99",
            percentile(first, 99),
            bound=TIER1_MS_MAX,
            unit="ms",
            against="–",
            note=f"{note}; p50 {median(first):.2f} ms",
        ),
        within(
            f"Tier 2 with {len(topics)} topics, p99",
            percentile(second, 99),
            bound=TIER2_MS_MAX,
            unit="ms",
            against="–",
            note=f"{note}; all topics are candidates; p50 {median(second):.2f} ms",
        ),
    ]


async def _ablation(topics: Sequence[Topic], messages: Sequence[LabelledMessage]) -> list[Figure]:
    whole = await evaluate(topics, messages, ALL_ON)
    figures = [
        reported(
            f"topics of {len(messages)} test messages, all on: F1",
            whole.f1,
            against="–",
            note=f"{_described(whole)}; the gate is its rule, no model was asked",
        )
    ]
    for part in PARTS:
        without = await evaluate(topics, messages, replace(ALL_ON, **{part: False}))
        gain = whole.f1 - without.f1
        verdict = "no difference" if not gain else "it helps" if gain > 0 else "it harms"
        figures.append(
            reported(
                f"{part} off: F1",
                without.f1,
                against=f"all on: {whole.f1:.3f}",
                note=f"{_described(without)}; {verdict}",
            )
        )
    return figures


def _described(hits: Hits) -> str:
    return (
        f"precision {hits.precision:.3f}, recall {hits.recall:.3f}"
        f" ({hits.right} right, {hits.wrong} wrong, {hits.missed} missed)"
    )
