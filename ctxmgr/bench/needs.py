"""What each recorded action needed that had been seen before. Pure.

    keep       names of an action that had stood only in outputs
    all-line   names that had stood in outputs or in arguments, and not in what anyone said

Each with the lines it had stood on: of a line longer than ``LINE_CHARS_MAX`` the characters around
it. Arguments are read decoded, since in JSON text an escaped newline glues its letter to the name.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.bench.recorded import RecordedCall, RecordedSession, RecordedTurn
from ctxmgr.core.identifiers import IDENTIFIER, identifiers

LINE_CHARS_MAX: Final = 200
AROUND_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a name stood on."""

    text: str
    whole: bool
    """False: the characters around the name in a very long one."""


@dataclass(frozen=True, slots=True)
class Need:
    """A name that an action used again."""

    name: str
    only_output: bool
    """It had stood in outputs and nowhere else."""
    lines: tuple[Line, ...] = field(repr=False)
    """Newest last."""


@dataclass(slots=True)
class _Seen:
    in_outputs: bool = False
    in_arguments: bool = False
    said: bool = False
    lines: dict[Line, None] = field(default_factory=dict)


def needs(session: RecordedSession) -> list[tuple[Need, ...]]:
    """Return what every action of a session needed, in its order."""
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    found = []
    _say(seen, session.system_prompt)
    for turn in session.turns:
        _say(seen, turn.user)
        found.append(tuple(_needed(turn, seen)))
        for said in turn.said:
            if isinstance(said, str):
                _say(seen, said)
        for call in _calls(turn):
            _note(seen, argument_text(call.args), output=False)
        for call in _calls(turn):
            _note(seen, call.output or "", output=True)
    return found


def argument_text(args: Any) -> str:
    """Return every value in the arguments, decoded, a line each or more."""
    return "\n".join(_values(args))


def _values(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _values(each)
        case list():
            for each in value:
                yield from _values(each)
        case int() | float() if not isinstance(value, bool):
            yield str(value)


def _needed(turn: RecordedTurn, seen: Mapping[str, _Seen]) -> Iterator[Need]:
    said = [each if isinstance(each, str) else argument_text(each.args) for each in turn.said]
    for name in identifiers("\n".join(said)):
        before = seen.get(name)
        if before is not None and not before.said:
            yield Need(name, not before.in_arguments, tuple(before.lines))


def _calls(turn: RecordedTurn) -> list[RecordedCall]:
    return [each for each in turn.said if isinstance(each, RecordedCall)]


def _say(seen: defaultdict[str, _Seen], text: str) -> None:
    for name in identifiers(text):
        seen[name].said = True


def _note(seen: defaultdict[str, _Seen], text: str, *, output: bool) -> None:
    for line in text.split("\n"):
        for match in IDENTIFIER.finditer(line):
            entry = seen[match[0]]
            entry.in_outputs |= output
            entry.in_arguments |= not output
            entry.lines[_line(line, *match.span())] = None


def _line(line: str, start: int, end: int) -> Line:
    if len(line) <= LINE_CHARS_MAX:
        return Line(line, whole=True)
    return Line(line[max(0, start - AROUND_CHARS) : end + AROUND_CHARS], whole=False)
