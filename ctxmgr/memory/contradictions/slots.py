"""Facts that give one slot two values. Pure.

    slot        the words of the key, without order and filler; abbreviations are spelt out
    same slot   equal scope, and keys that share at least KEY_SHARE of their words and have the
                same qualifiers, such as ``staging``
    value       words, numbers and units, lower case; number words are numbers
    disagree    neither value says the other with more or fewer words, or one negates the other

A scope and none are not the same slot: the narrower fact is an exception, not a contradiction.
"""

import re
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ctxmgr.memory.records.bodies import Fact
from ctxmgr.search.terms import terms

KEY_SHARE: Final = 0.6
KEYS_CACHED: Final = 32_768
"""Keys whose words are remembered: each is compared with many others."""

PREFIX_CHARS_MIN: Final = 4
"""Of two words, one may begin with the other: ``postgres`` and ``postgresql``."""

_FILLER: Final = frozenset(
    [
        "approach",
        "choice",
        "code",
        "convention",
        "count",
        "current",
        "default",
        "kind",
        "limit",
        "main",
        "maximum",
        "method",
        "name",
        "number",
        "our",
        "policy",
        "preference",
        "preferred",
        "project",
        "rule",
        "setting",
        "standard",
        "strategy",
        "style",
        "supported",
        "tool",
        "type",
        "use",
        "used",
        "using",
        "value",
        "version",
        "way",
    ]
)
_QUALIFIERS: Final = frozenset(
    [
        "backend",
        "backup",
        "client",
        "development",
        "external",
        "fallback",
        "former",
        "frontend",
        "internal",
        "legacy",
        "local",
        "minimum",
        "mobile",
        "old",
        "primary",
        "production",
        "public",
        "remote",
        "secondary",
        "server",
        "staging",
        "test",
    ]
)
"""A word that makes another thing of a key: ``staging database`` is not ``database``."""

_SPELT_OUT: Final = MappingProxyType(
    {
        "amount": "number",
        "auth": "authentication",
        "cfg": "configuration",
        "conf": "configuration",
        "config": "configuration",
        "db": "database",
        "dep": "dependency",
        "deploy": "deployment",
        "deployed": "deployment",
        "deploying": "deployment",
        "deploys": "deployment",
        "deps": "dependency",
        "dev": "development",
        "dir": "folder",
        "directory": "folder",
        "docs": "documentation",
        "env": "environment",
        "fmt": "format",
        "formatter": "format",
        "formatting": "format",
        "indent": "indentation",
        "lang": "language",
        "lib": "library",
        "linter": "lint",
        "linting": "lint",
        "max": "maximum",
        "mgr": "manager",
        "min": "minimum",
        "mocked": "mock",
        "mocking": "mock",
        "msg": "message",
        "owned": "owner",
        "owns": "owner",
        "param": "parameter",
        "params": "parameter",
        "perf": "performance",
        "pkg": "package",
        "prod": "production",
        "pwd": "password",
        "repo": "repository",
        "req": "request",
        "retries": "retry",
        "retrying": "retry",
        "runner": "run",
        "running": "run",
        "sec": "security",
        "srv": "server",
        "svc": "service",
        "testing": "test",
        "tests": "test",
        "tmp": "temporary",
        "var": "variable",
        "vars": "variable",
        "ver": "version",
    }
)
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
_VALUE_PART: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[+#@%$€]+")


def disagreement(one: Fact, other: Fact) -> str | None:
    """Return why two facts contradict each other, for a person; None if they do not."""
    if not same_slot(one, other) or _agree(one.value, other.value):
        return None
    scope = f" in {one.scope}" if one.scope else ""
    return f"{one.key}{scope}: {one.value!r:.80} or {other.value!r:.80}"


def same_slot(one: Fact, other: Fact) -> bool:
    """Whether two facts are about the same thing."""
    if _words(one.scope or "") != _words(other.scope or ""):
        return False
    if differ_in_qualifier(one, other):
        return False
    first, second = slot_words(one.key), slot_words(other.key)
    shared = len(first & second)
    return bool(shared) and shared / len(first | second) >= KEY_SHARE


def differ_in_qualifier(one: Fact, other: Fact) -> bool:
    """Whether a word such as ``staging`` in one key makes it another thing."""
    return bool((slot_words(one.key) ^ slot_words(other.key)) & _QUALIFIER_STEMS)


def says_nothing_new(new: Fact, known: Fact) -> bool:
    """Whether a fact fills the slot of a known one and adds nothing to its value."""
    if not same_slot(new, known) or bool(_NEGATION.search(new.value)) != bool(
        _NEGATION.search(known.value)
    ):
        return False
    parts, before = value_parts(new.value), value_parts(known.value)
    return all(any(_same_word(part, other) for other in before) for part in parts)


@lru_cache(maxsize=KEYS_CACHED)
def slot_words(key: str) -> frozenset[str]:
    """Return the words that identify a key; filler counts only where there is nothing else."""
    words = _words(key)
    return frozenset(words - _FILLER_STEMS) or words


@lru_cache(maxsize=KEYS_CACHED)
def _words(text: str) -> frozenset[str]:
    parts = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    spelt = " ".join(_SPELT_OUT.get(part, part) for part in parts)
    return frozenset(terms(spelt)) or frozenset(parts)


def _agree(one: str, other: str) -> bool:
    """Whether two values can both hold: the same, or one says more than the other."""
    first, second = value_parts(one), value_parts(other)
    if first == second:
        return True
    if _verdict(first) is not None and _verdict(second) is not None:
        return _verdict(first) == _verdict(second)
    if is_negated(one) != is_negated(other):
        return False
    if "/" in one + other and len(one.split()) == len(other.split()) == 1:
        return False  # a path that goes on is another path
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


_FILLER_STEMS: Final = frozenset(stem for word in _FILLER for stem in terms(word)) | _FILLER
_QUALIFIER_STEMS: Final = frozenset(stem for word in _QUALIFIERS for stem in terms(word))
"""Stems of the words that make another thing of a key."""
