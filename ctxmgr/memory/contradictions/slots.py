"""Facts that give one slot two values. Pure.

    slot        the words of the key, however it is put (``slot_words``)
    same slot   equal scope, and keys that share at least KEY_SHARE of their words, have the same
                qualifiers, such as ``staging``, and do not ask for different sorts of things
    value       words, numbers and units, lower case; number words are numbers
    disagree    neither value says the other with more or fewer words, or one negates the other

A scope and none are not the same slot: the narrower fact is an exception, not a contradiction.
"""

import re
from types import MappingProxyType
from typing import Final

from ctxmgr.memory.contradictions.slot_words import scope_words, slot_name
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.search.terms import terms

PREFIX_CHARS_MIN: Final = 4
"""Of two words, one may begin with the other: ``postgres`` and ``postgresql``."""

_YES: Final = frozenset(["allowed", "always", "enabled", "on", "required", "true", "yes"])
_NO: Final = frozenset(["disabled", "false", "forbidden", "never", "no", "off", "prohibited"])
_NEGATION: Final = re.compile(r"\b(?:not|never|no|without|don'?t|doesn'?t|avoid)\b", re.IGNORECASE)
_NUMBERS: Final = MappingProxyType(
    {
        word: str(number)
        for number, word in enumerate(
            [
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
                "eleven",
                "twelve",
            ]
        )
    }
)
_ADDRESS: Final = re.compile(r"[/@:]")
_BEFORE: Final = "([<\"'`"
_AFTER: Final = ")]>\"'`,.;:/"
"""Around an address."""
_VALUE_PART: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[+#@%$€]+")


def disagreement(one: Fact, other: Fact) -> str | None:
    """Return why two facts contradict each other, for a person; None if they do not."""
    if not same_slot(one, other) or _agree(one.value, other.value):
        return None
    scope = f" in {one.scope}" if one.scope else ""
    return f"{one.key}{scope}: {one.value!r:.80} or {other.value!r:.80}"


def same_slot(one: Fact, other: Fact) -> bool:
    """Whether two facts are about the same thing."""
    if scope_words(one.scope or "") != scope_words(other.scope or ""):
        return False
    return slot_name(one.key).is_like(slot_name(other.key))


def says_nothing_new(new: Fact, known: Fact) -> bool:
    """Whether a fact fills the slot of a known one and adds nothing to its value."""
    if not same_slot(new, known) or bool(_NEGATION.search(new.value)) != bool(
        _NEGATION.search(known.value)
    ):
        return False
    if name_other_addresses(new.value, known.value):
        return False
    parts, before = value_parts(new.value), value_parts(known.value)
    return all(any(_same_word(part, other) for other in before) for part in parts)


def _agree(one: str, other: str) -> bool:
    """Whether two values can both hold: the same, or one says more than the other."""
    if name_other_addresses(one, other):
        return False
    first, second = value_parts(one), value_parts(other)
    if first == second:
        return True
    if _verdict(first) is not None and _verdict(second) is not None:
        return _verdict(first) == _verdict(second)
    if is_negated(one) != is_negated(other):
        return False
    shorter, longer = sorted((first, second), key=len)
    return bool(shorter) and all(
        any(_same_word(part, candidate) for candidate in longer) for part in shorter
    )


def is_negated(value: str) -> bool:
    return _NEGATION.search(value) is not None


def value_parts(value: str) -> frozenset[str]:
    """Return the words, numbers and signs that a value consists of."""
    parts = _VALUE_PART.findall(value.lower())
    kept = [_NUMBERS.get(part, part.replace(",", ".")) for part in parts]
    return frozenset(part for part in kept if part not in {"a", "an", "the"})


def name_other_addresses(one: str, other: str) -> bool:
    """Whether two values have paths, URLs or addresses, and none in common.

    Their words say nothing: ``https://api.shop.io`` is not ``https://shop.io/api``.
    """
    first, second = _addresses(one), _addresses(other)
    return bool(first and second) and first.isdisjoint(second)


def _addresses(value: str) -> frozenset[str]:
    """Return the paths, URLs and addresses of a value: ``./build/`` is ``build``."""
    found = (part.lstrip(_BEFORE).rstrip(_AFTER).lower() for part in value.split())
    return frozenset(part.removeprefix("./") for part in found if _ADDRESS.search(part))


def _verdict(parts: frozenset[str]) -> bool | None:
    """Return what a value says if it is one of the words for yes or no."""
    if len(parts) == 1:
        (word,) = parts
        if word in _YES or word in _NO:
            return word in _YES
    return None


def _same_word(one: str, other: str) -> bool:
    if one == other:
        return True
    shorter, longer = sorted((one, other), key=len)
    return (
        len(shorter) >= PREFIX_CHARS_MIN and shorter.isalpha() and longer.startswith(shorter)
    ) or (terms(one) == terms(other) != [])
