"""The names that each recorded action used and that had been seen before.

    keep       names that had occurred only in outputs
    all-line   names that had occurred in outputs or arguments, but not in text of user or model

Each name has the lines in which it occurred; of a line longer than ``LINE_CHARS_MAX``, the
characters around it. Arguments are decoded first: in JSON text, the letter of an escaped newline
would become part of a name.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.bench.economy.sessions import RecordedSession, ReplayedCall, ReplayedTurn
from ctxmgr.core.economy.visible_names import IDENTIFIER, identifiers

LINE_CHARS_MAX: Final = 200
AROUND_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class NeededLine:
    """A line in which a name occurred."""

    text: str
    whole: bool
    """False if ``text`` is only the characters around the name."""


@dataclass(frozen=True, slots=True)
class Need:
    """A name that an action used again."""

    name: str
    only_output: bool
    """Whether it had occurred only in outputs."""
    lines: tuple[NeededLine, ...] = field(repr=False)
    """Newest last."""


@dataclass(slots=True)
class _Seen:
    in_outputs: bool = False
    in_arguments: bool = False
    in_text: bool = False
    lines: dict[NeededLine, None] = field(default_factory=dict)


def needs(session: RecordedSession) -> list[tuple[Need, ...]]:
    """Return the needed names of every action of a session, in order."""
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    needed = []
    _add_text(seen, session.system_prompt)
    for turn in session.turns:
        _add_text(seen, turn.user)
        needed.append(tuple(_needed(turn, seen)))
        calls = [part for part in turn.parts if isinstance(part, ReplayedCall)]
        for part in turn.parts:
            if isinstance(part, str):
                _add_text(seen, part)
        for call in calls:
            _add_lines(seen, argument_text(call.args), output=False)
        for call in calls:
            _add_lines(seen, call.output or "", output=True)
    return needed


def argument_text(args: Any) -> str:
    """Return all values in the arguments as text, each starting on a new line."""
    return "\n".join(_values(args))


def _values(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for item in value.values():
                yield from _values(item)
        case list():
            for item in value:
                yield from _values(item)
        case int() | float() if not isinstance(value, bool):
            yield str(value)


def _needed(turn: ReplayedTurn, seen: Mapping[str, _Seen]) -> Iterator[Need]:
    texts = [part if isinstance(part, str) else argument_text(part.args) for part in turn.parts]
    for name in identifiers("\n".join(texts)):
        before = seen.get(name)
        if before is not None and not before.in_text:
            yield Need(name, not before.in_arguments, tuple(before.lines))


def _add_text(seen: defaultdict[str, _Seen], text: str) -> None:
    for name in identifiers(text):
        seen[name].in_text = True


def _add_lines(seen: defaultdict[str, _Seen], text: str, *, output: bool) -> None:
    for line in text.split("\n"):
        for match in IDENTIFIER.finditer(line):
            entry = seen[match[0]]
            entry.in_outputs |= output
            entry.in_arguments |= not output
            whole = len(line) <= LINE_CHARS_MAX
            around = slice(max(0, match.start() - AROUND_CHARS), match.end() + AROUND_CHARS)
            entry.lines[NeededLine(line if whole else line[around], whole=whole)] = None
