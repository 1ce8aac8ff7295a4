"""What a key is about, however it is put: its words without order, filler and endings. Pure.

    "how long cache entries live"     →  how long → duration
    "cache TTL", "time to live"       →  ttl → duration
    "runner for tests", "test_runner" →  run, test
    "where we deploy"                 →  location, deploy
    "Deployment target"               →  deploy, location

A word that only says what sort of thing is asked for (``tool``, ``strategy``, ``version``) may be
missing; two keys that name different sorts are about different things. A qualifier, such as
``staging``, makes another thing of a key. Otherwise two keys are about the same thing if they share
``KEY_SHARE`` of their words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ctxmgr.search.terms import terms

KEYS_CACHED: Final = 32_768
"""Keys whose words are remembered: each is compared with many others."""

KEY_SHARE: Final = 0.6
"""The share of their words that two keys about the same thing have in common."""

QUESTION_WORDS_MIN: Final = 2
"""Words that a question shares with a key that is wholly in it."""

ROOT_CHARS_MIN: Final = 4
"""What is left of a word without its ending: ``layer`` is no form of ``lay``."""


@dataclass(frozen=True, slots=True)
class SlotName:
    """What a key is about."""

    words: frozenset[str]
    """Stems that identify it."""
    sorts: frozenset[str]
    """What sort of thing is asked for, if the key says so."""
    is_question: bool
    """Whether it is put as a question, which takes more words: ``how long cache entries live``."""

    def is_like(self, other: "SlotName") -> bool:
        """Whether two keys are about the same thing."""
        if self.qualifiers != other.qualifiers or self.is_of_another_sort(other):
            return False
        shared = len(self.words & other.words)
        if shared >= QUESTION_WORDS_MIN and (
            (self.is_question and other.words <= self.words)
            or (other.is_question and self.words <= other.words)
        ):
            return True
        return bool(shared) and shared / len(self.words | other.words) >= KEY_SHARE

    @property
    def qualifiers(self) -> frozenset[str]:
        """The words that make another thing of it."""
        return self.words & _QUALIFIER_ROOTS

    def is_of_another_sort(self, other: "SlotName") -> bool:
        """Whether both say what sort of thing is asked for, and not the same."""
        return bool(self.sorts and other.sorts) and not self.sorts & other.sorts


@lru_cache(maxsize=KEYS_CACHED)
def slot_name(key: str) -> SlotName:
    """Return what a key is about; filler counts only where there is nothing else."""
    words = _in_common_words(key)
    sorts = frozenset(_SORT_OF[word] for word in words if word in _SORT_OF)
    telling = [word for word in words if word not in _FILLER and word not in _SORT_OF]
    return SlotName(
        words=_roots(telling) or _roots(words) or frozenset(words),
        sorts=sorts,
        is_question=_QUESTION.match(key) is not None,
    )


def slot_words(key: str) -> frozenset[str]:
    """Return the words that identify a key."""
    return slot_name(key).words


@lru_cache(maxsize=KEYS_CACHED)
def scope_words(scope: str) -> frozenset[str]:
    """Return the words of a scope, filler included."""
    words = _in_common_words(scope)
    return _roots(words) or frozenset(words)


def _in_common_words(key: str) -> list[str]:
    """Return the words of a key, each replaced by the one that stands for its synonyms."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).lower().replace("'", "")
    text = " ".join(re.findall(r"[^\W_]+", spaced))
    text = _PHRASE.sub(lambda match: _PHRASES[match[0]], text)
    return [_STANDS_FOR.get(word, word) for word in text.split()]


def _roots(words: list[str]) -> frozenset[str]:
    return frozenset(_root(stem) for word in words for stem in terms(word))


def _root(stem: str) -> str:
    """Remove an ending that makes a noun of a verb: ``deployment``, ``storage``, ``tracker``."""
    if stem in _WHOLE:
        return stem
    for ending in _ENDINGS:
        root = stem.removesuffix(ending)
        if root != stem and len(root) >= ROOT_CHARS_MIN:
            return _root_of_verb(root)
    return _root_of_verb(stem)


def _root_of_verb(root: str) -> str:
    if root[-2:] == "at" and len(root) >= ROOT_CHARS_MIN + 2 and root not in _WHOLE:
        return root[:-2]  # migrate, migration
    if len(root) >= ROOT_CHARS_MIN and root[-1] == root[-2] and root[-1] not in "aeiouylsz":
        root = root[:-1]  # mapper, map
    return root.removesuffix("e")


_QUESTION: Final = re.compile(r"\s*(?:how|what|when|where|which|who)\b", re.IGNORECASE)

_ENDINGS: Final = ("ation", "ment", "anc", "ag", "ion", "or", "er")
_WHOLE: Final = frozenset(["format", "languag", "messag", "number", "order", "packag", "server"])
"""Stems that only look as if they had one of these endings."""


def _stand_for(groups: Mapping[str, str]) -> Mapping[str, str]:
    return {word: name for name, words in groups.items() for word in words.split()}


_PHRASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "back end": "backend",
        "continuous delivery": "cd",
        "continuous deployment": "cd",
        "continuous integration": "ci",
        "end to end": "e2e",
        "front end": "frontend",
        "how big": "size",
        "how large": "size",
        "how long": "duration",
        "how many": "number",
        "how much": "number",
        "how often": "schedule",
        "in charge of": "owner",
        "java script": "javascript",
        "merge request": "pr",
        "merge requests": "pr",
        "node js": "node",
        "object relational mapper": "orm",
        "pull request": "pr",
        "pull requests": "pr",
        "stand up": "standup",
        "time out": "timeout",
        "time to live": "duration",
        "time zone": "timezone",
        "type script": "typescript",
        "user interface": "frontend",
    }
)
_PHRASE: Final = re.compile(rf"\b(?:{'|'.join(_PHRASES)})\b")

_STANDS_FOR: Final = MappingProxyType(
    _stand_for(
        {
            "authentication": "auth authn",
            "backend": "backends",
            "configuration": "cfg conf config",
            "database": "db dbs",
            "dependency": "dep deps",
            "development": "dev",
            "documentation": "doc docs",
            "duration": "ttl lifetime lifespan expiry expiration expires",
            "email": "mail emails mails",
            "environment": "env",
            "folder": "dir directory path",
            "format": "fmt formatted formatter formatters formatting",
            "frontend": "frontends ui",
            "host": "hosting",
            "indentation": "indent indenting",
            "javascript": "js",
            "kubernetes": "k8s",
            "language": "lang",
            "library": "lib libs",
            "license": "licence",
            "limit": "cap ceiling",
            "lint": "linter linters linting",
            "location": "destination place target where",
            "manager": "mgr mgmt",
            "maximum": "max maximal highest largest longest upper",
            "message": "msg msgs",
            "minimum": "min minimal least lowest required shortest smallest threshold",
            "node": "nodejs",
            "number": "amount",
            "owner": "maintainer maintains owned owns responsible",
            "package": "pkg pkgs",
            "parameter": "param params",
            "performance": "perf",
            "pr": "prs mr mrs",
            "production": "prod",
            "password": "pwd passwd passwords",
            "repository": "repo repos",
            "request": "req reqs",
            "retry": "retries retrying",
            "schedule": "cadence frequency interval",
            "security": "sec",
            "server": "srv servers",
            "service": "svc",
            "temporary": "tmp temp",
            "test": "tests testing tested",
            "time": "when",
            "timezone": "tz timezones",
            "toggle": "flag flags toggles switch switches",
            "typescript": "ts",
            "url": "address addresses endpoint uri urls",
            "variable": "var vars",
            "version": "ver",
        }
    )
)

_SORT_OF: Final = MappingProxyType(
    _stand_for(
        {
            "tool": "engine framework library mechanism platform provider service software"
            " solution stack system tool tooling vendor",
            "method": "algorithm approach convention method policy rule rules standard strategy"
            " style technique way",
            "quantity": "count limit maximum number",
            "version": "version",
        }
    )
)

_FILLER: Final = frozenset(
    [
        *("actual", "choice", "chosen", "code", "current", "default", "general", "kind", "main"),
        *("name", "our", "preference", "preferred", "project", "selected", "setting", "supported"),
        *("type", "use", "used", "uses", "using", "usual", "value"),
    ]
)
_QUALIFIERS: Final = [
    *("backend", "backup", "client", "development", "e2e", "external", "fallback", "former"),
    *("frontend", "internal", "legacy", "local", "minimum", "mobile", "old", "primary"),
    *("production", "public", "remote", "secondary", "server", "staging", "test"),
]
_QUALIFIER_ROOTS: Final = _roots(_QUALIFIERS)
"""Roots of the words that make another thing of a key: ``staging database``."""
