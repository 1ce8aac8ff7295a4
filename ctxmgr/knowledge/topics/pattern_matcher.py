"""Tier 1: which topics have a trigger that matches a message. No I/O.

    pattern     regular expressions, ignoring case; linear in time, whatever the pattern
    path        globs on the paths of tool calls
    keyword     words and phrases, by their stems, in one pass
    code, language, mention, url, sentiment      signals of the message

Patterns come from a repository. RE2 matches them in time linear in the text and refuses what it
cannot (lookaround, back-references); its filter tests the literals of all patterns in one pass, so
that few patterns are tried at all.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ctxmgr.errors import Incorrect, requires_extra
from ctxmgr.knowledge.topics.signals import (
    TEXT_CHARS_MAX,
    code_languages,
    known_languages,
    language_of,
    mentions,
    shifts,
    url_hosts,
)
from ctxmgr.knowledge.topics.switches import ALL_ON, WatcherSwitches
from ctxmgr.knowledge.topics.topic import (
    Direction,
    MessageTrigger,
    Severity,
    Topic,
    TopicProblem,
    TriggerKind,
)
from ctxmgr.search.terms import stem, words

if TYPE_CHECKING:
    import re2

PATTERN_MEMORY_MAX: Final = 256 * 1024
"""Bytes of one compiled pattern and its states; one that needs more is refused."""

PATHS_MAX: Final = 1_000
"""Paths of one tool call that are compared; a search may list a whole tree."""

PHRASE_WORDS_MAX: Final = 8

_PROBE: Final = "ctxmgr-probe-7f3a"
"""A pattern of our own: if the filter does not find it, the filter is not used."""

_Owner = tuple[str, MessageTrigger]


def pattern_problem(pattern: str) -> str | None:
    """Return why a regular expression cannot be used; None if it can."""
    try:
        _compiled(pattern)
    except Incorrect as error:
        return str(error)
    return None


def check_triggers(topics: Iterable[Topic]) -> tuple[list[Topic], list[TopicProblem]]:
    """Separate the topics whose patterns and languages can be used from what is wrong."""
    valid, problems = [], []
    for topic in topics:
        found = [
            TopicProblem(path=topic.path, severity=Severity.ERROR, message=message)
            for trigger in topic.message_triggers
            for message in _trigger_problems(trigger)
        ]
        problems += found
        if not found:
            valid.append(topic)
    return valid, problems


class PatternMatcher:
    """The triggers of all topics, compiled once."""

    def __init__(self, topics: Sequence[Topic], *, switches: WatcherSwitches = ALL_ON) -> None:
        """``Incorrect`` if a pattern cannot be compiled."""
        self._triggers: dict[TriggerKind, list[_Owner]] = defaultdict(list)
        for topic in topics:
            for trigger in topic.message_triggers:
                if getattr(switches, _SWITCH[trigger.kind]):
                    self._triggers[trigger.kind].append((topic.name, trigger))
        self._patterns = _Patterns(
            [(owner[1].values[0], owner) for owner in self._triggers[TriggerKind.PATTERN]]
        )
        self._globs = _Patterns(
            [
                (_from_glob(glob), owner)
                for owner in self._triggers[TriggerKind.PATH]
                for glob in owner[1].values
            ]
        )
        self._keywords = _Keywords(self._triggers[TriggerKind.KEYWORD])
        self._languages = frozenset(
            value for _, trigger in self._triggers[TriggerKind.LANGUAGE] for value in trigger.values
        )
        if self._languages:
            known_languages()  # loading takes a second, which no message should wait for

    def match(
        self,
        text: str,
        *,
        direction: Direction = Direction.INPUT,
        tool_paths: Sequence[str] = (),
        previous: str = "",
    ) -> set[str]:
        """Return the names of the topics with a trigger that matches."""
        return set(
            self.matches(text, direction=direction, tool_paths=tool_paths, previous=previous)
        )

    def matches(
        self,
        text: str,
        *,
        direction: Direction = Direction.INPUT,
        tool_paths: Sequence[str] = (),
        previous: str = "",
    ) -> dict[str, tuple[MessageTrigger, ...]]:
        """Return the topics with the triggers that match. ``previous``: the message before."""
        text = text[:TEXT_CHARS_MAX]
        found: dict[str, dict[MessageTrigger, None]] = defaultdict(dict)
        for name, trigger in self._hits(text, tool_paths, previous):
            if trigger.scope.covers(direction):
                found[name][trigger] = None
        return {name: tuple(triggers) for name, triggers in found.items()}

    def _hits(self, text: str, tool_paths: Sequence[str], previous: str) -> Iterator[_Owner]:
        yield from self._patterns.hits(text)
        yield from self._keywords.hits(text)
        for path in tool_paths[:PATHS_MAX]:
            yield from self._globs.hits(path)
        yield from self._signal_hits(text, previous)

    def _signal_hits(self, text: str, previous: str) -> Iterator[_Owner]:
        """Yield triggers by signals; each signal is looked for only if a topic asks for it."""
        if owners := self._triggers[TriggerKind.CODE]:
            languages = code_languages(text)
            if languages is not None:
                yield from _by_values(owners, languages)
        if owners := self._triggers[TriggerKind.LANGUAGE]:
            language = language_of(text, among=self._languages)
            if language is not None:
                yield from _by_values(owners, {language})
        if owners := self._triggers[TriggerKind.MENTION]:
            named, said = mentions(text), frozenset(words(text))
            yield from (owner for owner in owners if _is_named(owner[1].values, named, said))
        if (owners := self._triggers[TriggerKind.URL]) and (hosts := url_hosts(text)):
            yield from (owner for owner in owners if _is_host(owner[1].values, hosts))
        if (owners := self._triggers[TriggerKind.SENTIMENT]) and shifts(text, previous=previous):
            yield from owners


_SWITCH: Final[Mapping[TriggerKind, str]] = {
    TriggerKind.PATTERN: "patterns",
    TriggerKind.PATH: "paths",
    TriggerKind.KEYWORD: "keywords",
    TriggerKind.CODE: "code",
    TriggerKind.LANGUAGE: "language",
    TriggerKind.MENTION: "mentions",
    TriggerKind.URL: "urls",
    TriggerKind.SENTIMENT: "sentiment_shift",
}


class _Patterns:
    """Regular expressions behind a filter of their literals."""

    def __init__(self, patterns: Sequence[tuple[str, _Owner]]) -> None:
        self._owners = [owner for _, owner in patterns]
        self._singles = [_compiled(pattern) for pattern, _ in patterns]
        self._filter = _combined([pattern for pattern, _ in patterns]) if patterns else None

    def hits(self, text: str) -> Iterator[_Owner]:
        if not self._owners:
            return
        data = text.encode(errors="replace")
        if self._filter is not None:
            found = self._filter.Match(data) or ()
            yield from (self._owners[index] for index in found if index < len(self._owners))
        else:
            for owner, pattern in zip(self._owners, self._singles, strict=True):
                if pattern.search(data):
                    yield owner


class _Keywords:
    """Phrases by the stem of their first word."""

    def __init__(self, owners: Sequence[_Owner]) -> None:
        self._phrases: dict[str, list[tuple[tuple[str, ...], _Owner]]] = defaultdict(list)
        for owner in owners:
            for phrase in owner[1].values:
                stems = tuple(stem(word) for word in words(phrase))[:PHRASE_WORDS_MAX]
                if stems:
                    self._phrases[stems[0]].append((stems, owner))

    def hits(self, text: str) -> Iterator[_Owner]:
        if not self._phrases:
            return
        stems = [stem(word) for word in words(text)]
        for position, first in enumerate(stems):
            for phrase, owner in self._phrases.get(first, ()):
                if tuple(stems[position : position + len(phrase)]) == phrase:
                    yield owner


def _trigger_problems(trigger: MessageTrigger) -> Iterator[str]:
    if trigger.kind is TriggerKind.PATTERN:
        for pattern in trigger.values:
            problem = pattern_problem(pattern)
            if problem is not None:
                yield problem
        if len(trigger.values) > 1:
            yield "a pattern trigger has one 'match'; use a trigger for each pattern"
    if trigger.kind is TriggerKind.LANGUAGE:
        unknown = sorted(set(trigger.values) - known_languages())
        if unknown:
            yield f"unknown language {unknown[0]!r:.40}; use a code of two letters, such as 'de'"


def _compiled(pattern: str) -> "re2._Regexp[str]":
    with requires_extra("knowledge", "re2"):
        import re2  # noqa: PLC0415 (an extra)
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise Incorrect(f"the pattern {pattern!r:.80} cannot be used: {reason}") from error


def _combined(patterns: Sequence[str]) -> "re2.Filter | None":
    """Return one filter for all patterns; None if it does not work.

    Too many literals for its memory would make it find nothing, without an error.
    """
    import re2  # noqa: PLC0415 (an extra; the patterns were compiled)

    combined = re2.Filter()
    for pattern in patterns:
        combined.Add(pattern, _options())
    probe = combined.Add(_PROBE, _options())
    combined.Compile()
    return combined if probe in (combined.Match(_PROBE.encode()) or ()) else None


def _options() -> "re2.Options":
    import re2  # noqa: PLC0415 (an extra; its callers have imported it)

    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = PATTERN_MEMORY_MAX
    options.log_errors = False
    return options


def _by_values(owners: Iterable[_Owner], found: Iterable[str]) -> Iterator[_Owner]:
    """Yield the triggers that ask for one of these values, or for any."""
    wanted = frozenset(found)
    for owner in owners:
        values = owner[1].values
        if not values or any(value.lower() in wanted for value in values):
            yield owner


def _is_named(wanted: Sequence[str], named: frozenset[str], said: frozenset[str]) -> bool:
    """Whether one of the names is mentioned: with an @, or, unless it has one, as words."""
    return any(
        name.lower().removeprefix("@") in named
        or (not name.startswith("@") and said.issuperset(words(name)))
        for name in wanted
    ) or (not wanted and bool(named))


def _is_host(wanted: Sequence[str], hosts: Iterable[str]) -> bool:
    """Whether a host, or a domain above it, is wanted; no wish takes every host."""
    names = [name.lower().removeprefix("*.") for name in wanted]
    return not names or any(
        host == name or host.endswith(f".{name}") for host in hosts for name in names
    )


def _from_glob(glob: str) -> str:
    """Return a glob as a regular expression: from some folder on, to the end of the path.

    ``*`` and ``?`` stay within a folder, ``**`` does not.
    """
    parts = re.split(r"(\*\*/?|\*|\?)", glob.removeprefix("./"))
    written = "".join(_WILD.get(part, re.escape(part)) for part in parts)
    return f"^{written}$" if glob.startswith("/") else f"(?:^|/){written}$"


_WILD: Final[Mapping[str, str]] = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
