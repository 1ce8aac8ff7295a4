"""Count tokens, and calibrate the counts by what providers report. Pure.

``vocabulary`` chooses a model's tokenizer:

    known     the model's own vocabulary, which counts as the provider does
    unknown   cl100k, with a declared range of tokens that the provider reports for one of ours

Vocabularies are compiled into the tokenizer's wheel: nothing is read or downloaded at run time.

``TokenCounter`` caches counts by the SHA-256 of the text. A short text is its own key, since
hashing it would cost as much as counting it. The sum of parts may differ from the count of the
joined text by about one token per joint.

``Calibration`` learns the ratio of reported to counted tokens:

    before CALLS_MIN calls   the declared range, widened by the ratios seen
    from then on             the smallest, the summed and the largest ratio of the last calls

A report is ignored if the prompt is so small that framing dominates, or if the number is so far off
that it counts something else, such as only the uncached part.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from typing import Final, Protocol, Self, TypeAlias

from splintr import Tokenizer

from ctxmgr.core.bounded_cache import BoundedCache

CL100K: Final = "cl100k_base"
O200K: Final = "o200k_base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The range of tokens that a provider reports for one of ours."""

    low: float
    likely: float
    high: float

    def __post_init__(self) -> None:
        assert 0 < self.low <= self.likely <= self.high


EXACT: Final = Bound(low=1.0, likely=1.0, high=1.0)
UNKNOWN: Final = Bound(low=0.95, likely=1.2, high=1.5)
"""Measured on 4,547 recorded calls of more than 2,000 tokens, whole prompts with their framing:
Claude 4.5 reported 1.10 to 1.46 times cl100k (median 1.21), Gemini 3 1.07 to 1.30 (1.16)."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Counts the tokens of a text."""

    name: str
    count: Callable[[str], int] = field(repr=False)
    bound: Bound = EXACT
    """How many tokens the provider reports for one of ours: lowest, likely and highest."""


_FAMILIES: Final = (
    (re.compile(r"(gpt-4o|gpt-4\.[15]|gpt-[5-9]|gpt-oss|chatgpt-4o|o[1-9])\b"), O200K),
    (re.compile(r"(gpt-4|gpt-3\.5|text-embedding-(3|ada))\b"), CL100K),
)


def vocabulary(model: str) -> Vocabulary:
    """Return the vocabulary of a model, by its provider's name for it.

    The name may begin with ``provider/``. A model whose tokenizer is not public is counted by
    cl100k_base, and the vocabulary's ``bound`` says how far that may be off.
    """
    known = _known_vocabulary(model)
    if known is not None:
        return named_vocabulary(known)
    return Vocabulary(CL100K, named_vocabulary(CL100K).count, UNKNOWN)


def declared_bound(model: str) -> Bound:
    """Return the bound of a model's vocabulary, without loading the vocabulary."""
    return UNKNOWN if _known_vocabulary(model) is None else EXACT


def _known_vocabulary(model: str) -> str | None:
    name = model.lower().rpartition("/")[2]
    return next((vocabulary for family, vocabulary in _FAMILIES if family.match(name)), None)


@cache
def named_vocabulary(name: str) -> Vocabulary:
    """Return one of the vocabularies in the wheel. The first call for a name takes about 30 ms."""
    encode = Tokenizer.from_pretrained(name).encode_ordinary

    def count(text: str) -> int:
        try:
            return len(encode(text))
        except UnicodeEncodeError:  # a lone surrogate, which cannot be sent to a provider either
            return len(encode(text.encode(errors="replace").decode()))

    return Vocabulary(name, count)


CALLS_KEPT: Final = 32
"""Reports that a ratio is computed from. The kind of text changes, so older ones are dropped."""

CALLS_MIN: Final = 8
"""Reports after which only their own range is used."""

COUNTED_MIN: Final = 1_000
"""In smaller prompts, framing and tool definitions, which are not counted, dominate."""

RATIO_MIN, RATIO_MAX = 0.5, 3.0
"""No tokenizer in use differs so much from cl100k; such a report counts something else."""

MARGIN: Final = 1.03
"""Over the largest reported ratio, since the next text may be denser. Of 3,739 recorded calls, one
in eight exceeded the largest ratio before it; with this margin, a single call exceeded it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt as both sides count it."""

    counted: int
    reported: int

    @property
    def ratio(self) -> float:
        return self.reported / self.counted


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ratio of a provider's token counts to ours for one model, learnt from its reports."""

    declared: Bound = UNKNOWN
    samples: tuple[Sample, ...] = ()

    def observe(self, *, counted: int, reported: int) -> Self:
        """Return the calibration with one more report; an implausible one is ignored."""
        if counted < COUNTED_MIN or not RATIO_MIN <= reported / counted <= RATIO_MAX:
            return self
        return replace(self, samples=(*self.samples, Sample(counted, reported))[-CALLS_KEPT:])

    @property
    def bound(self) -> Bound:
        """The expected ratio and its range."""
        if not self.samples:
            return self.declared
        ratios = [sample.ratio for sample in self.samples]
        low, high = min(ratios), max(ratios)
        if len(ratios) < CALLS_MIN:
            low, high = min(low, self.declared.low), max(high, self.declared.high)
        likely = sum(r.reported for r in self.samples) / sum(r.counted for r in self.samples)
        return Bound(low=low, likely=min(max(likely, low), high), high=high)

    def likely(self, counted: int) -> int:
        """Return how many tokens the provider is expected to report."""
        return round(counted * self.bound.likely)

    def at_most(self, counted: int) -> int:
        """Return how many tokens the provider will report at most, to stay within a window."""
        return ceil(counted * self.bound.high * (MARGIN if self.samples else 1.0))


MESSAGE_TOKENS: Final = 4
"""Framing of one message, in addition to its text."""

COUNTS_MAX: Final = 65_536
"""Counts that are cached at least; with their keys about 10 MB."""

KEY_CHARS_MAX: Final = 64
"""A longer text is cached by its hash."""

_Key: TypeAlias = str | bytes


class TextBlock(Protocol):
    """A piece of a prompt, such as ``assembly.Block``."""

    @property
    def section(self) -> str: ...
    @property
    def text(self) -> str: ...


class TokenCounter:
    """Counts tokens by one vocabulary, and caches the counts."""

    __slots__ = ("_counts", "vocabulary")

    def __init__(
        self, vocabulary: Vocabulary | None = None, *, counts_max: int = COUNTS_MAX
    ) -> None:
        self.vocabulary = vocabulary or named_vocabulary(CL100K)
        self._counts: BoundedCache[_Key, int] = BoundedCache(counts_max)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        if len(text) <= KEY_CHARS_MAX:
            return self._counted(text, text)
        data = text.encode(errors="surrogatepass")
        return self._counted(hashlib.sha256(data).digest(), text)

    def count_sections(self, blocks: Iterable[TextBlock]) -> dict[str, int]:
        """Return the number of tokens of each section, for ``Context.blocks()``."""
        counts: dict[str, int] = {}
        for block in blocks:
            counts[block.section] = counts.get(block.section, 0) + self.count(block.text)
        return counts

    def _counted(self, key: _Key, text: str) -> int:
        count = self._counts.get(key)
        if count is None:
            count = self.vocabulary.count(text)
            self._counts.keep(key, count)
        return count
