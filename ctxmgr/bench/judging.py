"""What a policy's prompts cost and what they keep, judged on the messages that were sent. Pure.

    cost    every token of the longest common prefix with the prompt before is read from the cache,
            to the byte; the others are written; outputs are what was recorded
    keep    needed names that stand in the prompt, each by itself, no word character glued to it
    line    the same, and a line that it stood on is there whole

A message costs the tokens of its text, and some for its framing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Self

from ctxmgr.bench.needs import Line, Need
from ctxmgr.bench.sent_messages import Message
from ctxmgr.core.folding import Count
from ctxmgr.core.planner import Prices
from ctxmgr.core.tokens import MESSAGE_TOKENS


@dataclass(slots=True, kw_only=True)
class Score:
    """Sums over calls."""

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    breaks: int = 0
    """Calls whose prompt differs from the one before in more than that one's last message."""
    peak_tokens: int = 0
    needed: int = 0
    kept: int = 0
    lines_kept: int = 0
    all_needed: int = 0
    all_lines_kept: int = 0
    asked_back: int = 0
    """Calls that needed a name which stood nowhere: the agent would have had to ask."""

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
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self.peak_tokens = peak


@dataclass(frozen=True, slots=True)
class CallScore:
    """One call, for a picture."""

    tokens: int
    cached_tokens: int
    broke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    session_id: str
    score: Score
    calls: tuple[CallScore, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A policy on all sessions of one file."""

    policy: str
    total: Score
    sessions: tuple[SessionResult, ...] = field(repr=False)


class Judge:
    """Judges the prompts of one session in their order."""

    def __init__(self, *, count: Count) -> None:
        self._count = count
        self._before: Sequence[Message] = ()
        self.score = Score()
        self.calls: list[CallScore] = []

    def judge(self, prompt: Sequence[Message], needed: Iterable[Need], *, answer: str) -> None:
        """Take the next prompt, what its answer needed, and the answer as it was recorded."""
        score = self.score
        tokens = sum(each.tokens for each in prompt)
        same = _common(self._before, prompt)
        cached = sum(each.tokens for each in prompt[:same])
        if same < min(len(self._before), len(prompt)):
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

    def _look_up(self, prompt: Sequence[Message], needed: tuple[Need, ...]) -> None:
        if not needed:
            return
        text = "\n".join(message.readable for message in prompt)
        sets = [message.lines for message in reversed(prompt)]
        missed = False
        for need in needed:
            stands = _stands(need.name, text)
            with_line = stands and any(_is_there(line, text, sets) for line in reversed(need.lines))
            self.score.all_needed += 1
            self.score.all_lines_kept += with_line
            if need.only_output:
                self.score.needed += 1
                self.score.kept += stands
                self.score.lines_kept += with_line
                missed |= not stands
        self.score.asked_back += missed


def _common(before: Sequence[Message], prompt: Sequence[Message]) -> int:
    for at, (one, other) in enumerate(zip(before, prompt, strict=False)):
        if one != other:
            return at
    return min(len(before), len(prompt))


def _common_text(one: Message, other: Message) -> str:
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


def _is_there(line: Line, text: str, sets: Iterable[frozenset[str]]) -> bool:
    return any(line.text in lines for lines in sets) if line.whole else line.text in text


def _stands(name: str, text: str) -> bool:
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        glued = (at > 0 and _is_word(text[at - 1])) or (end < len(text) and _is_word(text[end]))
        if not glued:
            return True
        at = text.find(name, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
