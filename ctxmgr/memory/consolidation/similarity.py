"""How alike two facts are. Pure.

Two facts are compared only if they are about the same thing: the same words of the key, in any
order, no other sort of thing, the same scope and the same project. Their similarity is that of the
values: the share of words, without filler, that both have. Other numbers, other addresses, or a
negation in one of them, make it 0.
"""

import re
from typing import Final

from ctxmgr.memory.contradictions.slot_words import scope_words, slot_name, slot_words
from ctxmgr.memory.contradictions.slots import is_negated, name_other_addresses, value_parts
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.search.terms import STOP_WORDS, stem

MERGE_SIMILARITY: Final = 0.92

_FILLER: Final = STOP_WORDS | {"always", "use", "used", "uses", "using", "please", "should", "must"}
_DIGIT: Final = re.compile(r"\d")


def fact_key(fact: Fact) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a fact is about: the words of its key and of its scope."""
    return slot_words(fact.key), scope_words(fact.scope or "")


def similarity(one: Fact, other: Fact) -> float:
    """Return how alike two facts are, from 0 to 1."""
    if (
        fact_key(one) != fact_key(other)
        or slot_name(one.key).is_of_another_sort(slot_name(other.key))
        or is_negated(one.value) != is_negated(other.value)
        or name_other_addresses(one.value, other.value)
    ):
        return 0.0
    first, second = value_parts(one.value), value_parts(other.value)
    if first == second:
        return 1.0
    if {part for part in first if _DIGIT.search(part)} != {
        part for part in second if _DIGIT.search(part)
    }:
        return 0.0
    first, second = _telling(first), _telling(second)
    if not first or not second:
        return 0.0
    return 2 * len(first & second) / (len(first) + len(second))


def _telling(parts: frozenset[str]) -> frozenset[str]:
    return frozenset(stem(part) for part in parts if part not in _FILLER)
