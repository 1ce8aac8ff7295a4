"""One memory at four lengths, made by rule. Pure.

    level 0  full         the original; of an episode it is never shown
    level 1  summary      tier 2
    level 2  compressed   tier 3; of patterns and workflows, their hint
    level 3  index        tier 4: a name of at most 50 characters

No level has more tokens than the one before.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ctxmgr.memory.records.bodies import Body, Episode, Fact, Pattern, Workflow
from ctxmgr.search.terms import STOP_WORDS, words

INDEX_CHARS_MAX: Final = 50
SUMMARY_WORDS: Final = 40
"""Words of an episode's summary, when only its narrative is known."""
COMPRESSED_WORDS: Final = 8
SLUG_WORDS: Final = 3

_LAST_WORD: Final = re.compile(r"[\s-]+[^\s-]+[\s-]*$")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The texts of a memory, longest first."""

    full: str
    summary: str
    compressed: str
    index: str

    def at(self, level: int) -> str:
        return (self.full, self.summary, self.compressed, self.index)[level]


def levels_by_rule(
    body: Body, count: Callable[[str], int], *, original: str | None = None
) -> Levels:
    """Return the levels of a body. ``original`` is the text it was learnt from, if any."""
    full, summary, compressed, index = _wanted(body)
    full = original or full
    return ordered(
        Levels(full=full, summary=summary, compressed=compressed, index=index), count=count
    )


def ordered(levels: Levels, *, count: Callable[[str], int]) -> Levels:
    """Return levels of which none has more tokens than the one before.

    A text that has more is replaced by that one: cut short, it would say something else. Only an
    index, which is a name, is cut.
    """
    summary = min(levels.summary, levels.full, key=count)
    compressed = min(levels.compressed, summary, key=count)
    index = _at_most(levels.index[:INDEX_CHARS_MAX].strip(), count(compressed), count)
    return Levels(full=levels.full, summary=summary, compressed=compressed, index=index)


def _wanted(body: Body) -> tuple[str, str, str, str]:
    match body:
        case Fact():
            scope = f" ({body.scope})" if body.scope else ""
            reason = f", because {body.reason}" if body.reason else ""
            short = body.value if _names(body.value, body.key) else f"{body.key}: {body.value}"
            return f"{short}{scope}{reason}", f"{short}{scope}{reason}", short, body.key
        case Episode():
            parts = [body.problem, body.fix, body.outcome]
            known = "; ".join(_clause(part) for part in parts if part)
            return (
                body.full_narrative,
                known or _first_sentences(body.full_narrative, SUMMARY_WORDS),
                _first_words(body.title, COMPRESSED_WORDS),
                _slug(body.title),
            )
        case Pattern():
            slots = "\n".join(f"{slot}: {text}" for slot, text in body.template.items())
            return f"{body.trigger}\n{slots}\n{body.hint}", slots, body.hint, body.name
        case Workflow():
            steps = " → ".join(body.steps)
            details = "\n".join(f"{step}: {text}" for step, text in body.details.items())
            full = "\n".join(filter(None, (f"{body.trigger}: {steps}", body.hint, details)))
            return full, steps, body.hint, body.name


def _names(value: str, key: str) -> bool:
    """Whether a value says by itself what it is about, as a whole sentence does."""
    return set(words(key)) <= set(words(value))


def _clause(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _first_words(text: str, words: int) -> str:
    """Return the first sentence, or its first words."""
    sentence = _SENTENCE_END.split(" ".join(text.split()), maxsplit=1)[0]
    return " ".join(sentence.split()[:words])


def _first_sentences(text: str, words: int) -> str:
    """Return as many whole sentences as have at most these words, or the start of the first."""
    kept: list[str] = []
    for sentence in _SENTENCE_END.split(" ".join(text.split())):
        if len(" ".join((*kept, sentence)).split()) > words:
            break
        kept.append(sentence)
    return " ".join(kept) or _first_words(text, words)


def _slug(title: str) -> str:
    found = words(title)
    telling = [word for word in found if word not in STOP_WORDS] or found
    return "-".join(telling[:SLUG_WORDS]) or title


def _at_most(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest start of a text, in words if possible, that has at most these tokens."""
    while count(text) > tokens:
        shorter = _LAST_WORD.sub("", text)
        text = shorter if shorter and shorter != text else text[:-1]
    return text
