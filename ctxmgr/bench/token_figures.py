"""Tokens: our counter beside the bare tokenizer, on texts that it has not seen."""

from collections.abc import Callable
from random import Random
from statistics import median
from time import process_time
from typing import Final

from ctxmgr.bench.report import Figure, at_least
from ctxmgr.core.tokens import TokenCounter
from ctxmgr.core.vocabularies import CL100K, named_vocabulary

BOUND: Final = 0.8
_TEXTS: Final = 1_000
_QUICK_TEXTS: Final = 300
_LINES: Final = (8, 40, 300)
_ROUNDS: Final = 15


def token_figures(*, quick: bool) -> list[Figure]:
    """Count fresh texts of three sizes, each side in turn, and compare medians of CPU time."""
    texts = _texts(_QUICK_TEXTS if quick else _TEXTS)
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


def _texts(number: int) -> list[str]:
    random = Random(1)  # noqa: S311 - filler
    return ["".join(_line(random) for _ in range(_LINES[n % len(_LINES)])) for n in range(number)]


def _line(random: Random) -> str:
    return f"def f{random.getrandbits(30)}(first, second):  # {random.getrandbits(60):x}\n"


def _seconds(count: Callable[[str], int], texts: list[str]) -> float:
    started = process_time()
    for text in texts:
        count(text)
    return process_time() - started
