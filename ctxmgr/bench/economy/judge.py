"""Evaluates the cost of a policy's prompts and the names they keep.

    cost    tokens of the longest common prefix with the previous prompt, to the byte, are read from
            the cache, and the rest is written; outputs are as recorded
    keep    share of needed names that occur in the prompt as whole words
    line    share of needed names that occur with a complete line in which they were seen

A message costs the tokens of its text, and a constant for its framing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Self

from ctxmgr.bench.economy.needs import Need, NeededLine
from ctxmgr.bench.economy.sent_messages import SentMessage
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.policy import Prices


@dataclass(slots=True, kw_only=True)
class Score:
    """Sums over calls."""

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    breaks: int = 0
    """Calls whose prompt differs from the previous one before that one's last message."""
    peak_tokens: int = 0
    needed: int = 0
    kept: int = 0
    lines_kept: int = 0
    all_needed: int = 0
    all_lines_kept: int = 0
    asked_back: int = 0
    """Calls that needed a name missing from the prompt, which the agent would have to look up."""

    @property
    def written_tokens(self) -> int:
        return self.input_tokens - self.cached_tokens

    @property
    def keep(self) -> float:
        return self.kept / self.needed if self.needed else 1.0

    @property
    def line(self) -> float:
        return self.lines_kept / self.needed if self.needed else 1.0

    @property
    def all_line(self) -> float:
        return self.all_lines_kept / self.all_needed if self.all_needed else 1.0

    @property
    def hit(self) -> float:
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0

    @property
    def breaks_per_100(self) -> float:
        return 100 * self.breaks / self.calls if self.calls else 0.0

    def cost(self, prices: Prices) -> float:
        """Return the price in uncached input tokens."""
        cached, written = self.cached_tokens, self.written_tokens
        return prices.write * written + prices.read * cached + prices.output * self.output_tokens

    def add(self, other: Self) -> None:
        peak = max(self.peak_tokens, other.peak_tokens)
        for field_ in fields(self):
            name = field_.name
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak_tokens = peak


@dataclass(frozen=True, slots=True)
class CallScore:
    """The figures of one call, for the chart."""

    tokens: int
    cached_tokens: int
    broke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    session_id: str
    score: Score
    calls: tuple[CallScore, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """A policy on all sessions of one file."""

    policy: str
    total: Score
    sessions: tuple[SessionResult, ...] = field(repr=False)


class Judge:
    """Evaluates the prompts of one session in order."""

    def __init__(self, *, count: Count) -> None:
        self._count = count
        self._before: Sequence[SentMessage] = ()
        self.score = Score()
        self.calls: list[CallScore] = []

    def judge(self, prompt: Sequence[SentMessage], needed: Iterable[Need], *, answer: str) -> None:
        """Add the next prompt, the names that its answer needed, and the recorded answer."""
        score = self.score
        tokens = sum(message.tokens for message in prompt)
        pairs = enumerate(zip(self._before, prompt, strict=False))
        shorter = min(len(self._before), len(prompt))
        same = next((n for n, (one, other) in pairs if one != other), shorter)
        cached = sum(message.tokens for message in prompt[:same])
        if same < shorter:
            cached += self._count(_common_text(self._before[same], prompt[same]))
        broke = same < len(self._before) - 1
        score.calls += 1
        score.input_tokens += tokens
        score.cached_tokens += cached
        score.output_tokens += self._count(answer) + MESSAGE_TOKENS
        score.breaks += broke
        score.peak_tokens = max(score.peak_tokens, tokens)
        self._look_up(prompt, tuple(needed))
        self.calls.append(CallScore(tokens, cached, broke))
        self._before = prompt

    def _look_up(self, prompt: Sequence[SentMessage], needed: tuple[Need, ...]) -> None:
        if not needed:
            return
        text = "\n".join(message.readable for message in prompt)
        sets = [message.lines for message in reversed(prompt)]
        missed = False
        for need in needed:
            kept = _has_word(need.name, text)
            with_line = kept and any(_has_line(line, text, sets) for line in reversed(need.lines))
            self.score.all_needed += 1
            self.score.all_lines_kept += with_line
            if need.only_output:
                self.score.needed += 1
                self.score.kept += kept
                self.score.lines_kept += with_line
                missed |= not kept
        self.score.asked_back += missed


def _common_text(one: SentMessage, other: SentMessage) -> str:
    if one.role != other.role:
        return ""
    low, high = 0, min(len(one.text), len(other.text))
    while low < high:
        middle = (low + high + 1) // 2
        if one.text[:middle] == other.text[:middle]:
            low = middle
        else:
            high = middle - 1
    return one.text[:low]


def _has_line(line: NeededLine, text: str, sets: Iterable[frozenset[str]]) -> bool:
    return any(line.text in lines for lines in sets) if line.whole else line.text in text


def _has_word(name: str, text: str) -> bool:
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if not _is_word(before) and not _is_word(after):
            return True
        start = text.find(name, start + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
