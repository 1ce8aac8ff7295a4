"""Two versions of an object, or two prompts of a session, side by side. Pure.

    text     a unified diff
    fields   what else differs; of a list, what was added and removed
    prompt   a unified diff, the sizes by section, and how far both begin alike

Prompts are long and mostly alike: what both begin and end with is not compared line by line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Final

from ctxmgr.core.assembly import Context, Section
from ctxmgr.core.canonical import canonical
from ctxmgr.core.documents import Document
from ctxmgr.core.prompt_rows import common_length
from ctxmgr.core.store import Instant

CONTEXT_LINES: Final = 3
"""Lines around a change."""

COMPARED_LINES_MAX: Final = 20_000
"""Lines that are compared one with another; beyond it the old ones are all removed and the new
ones all added, which is as true and less clear. Comparing takes the square of them at worst."""

_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")
_UNTOLD: Final = frozenset({"content"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs."""

    field: str
    before: Any
    """Of a list: how long it was."""
    after: Any
    added: tuple[Any, ...] = ()
    removed: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVersion:
    """One of the two versions."""

    version: int
    """Its number in the object's history, from 1."""
    valid_time: Instant
    system_time: Instant
    sequence: int
    object_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two versions of one object."""

    object_id: str
    kind: str
    before: ComparedVersion
    after: ComparedVersion
    same: bool
    fields: tuple[FieldChange, ...]
    diff: str
    """Of the content; empty: that is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChange:
    """One section of two prompts."""

    section: str
    chars_before: int
    chars_after: int
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDifference:
    """Two prompts of one session."""

    session_id: str
    from_turn: int
    to_turn: int
    same: bool
    common_chars: int
    """So many characters at the beginning are the same: what a provider's cache could keep."""
    sections: tuple[SectionChange, ...]
    diff: str


def compare_documents(before: Document, after: Document) -> tuple[tuple[FieldChange, ...], str]:
    """Return the fields that differ, and the unified diff of the contents.

    Hashes are left out: they differ whenever anything does.
    """
    names = [name for name in {**before, **after} if _is_told(name)]
    fields = tuple(
        _field(name, before.get(name), after.get(name))
        for name in names
        if canonical(before.get(name)) != canonical(after.get(name))
    )
    return fields, unified(before.get("content") or "", after.get("content") or "")


def compare_prompts(before: Context, after: Context, *, turns: tuple[int, int]) -> PromptDifference:
    """Compare two prompts section by section and as a whole."""
    old, new = before.text(), after.text()
    pairs = [(section, _text(before, section), _text(after, section)) for section in Section]
    return PromptDifference(
        session_id=after.session_id,
        from_turn=turns[0],
        to_turn=turns[1],
        same=old == new,
        common_chars=common_length(old, new),
        sections=tuple(
            SectionChange(
                section=str(section),
                chars_before=len(one),
                chars_after=len(other),
                same=one == other,
            )
            for section, one, other in pairs
            if one or other
        ),
        diff=unified(old, new, names=(f"turn {turns[0]}", f"turn {turns[1]}")),
    )


def unified(before: str, after: str, *, names: tuple[str, str] = ("before", "after")) -> str:
    """Return a unified diff as ``diff -u`` prints it; empty if both are the same."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    start = max(0, common_length(old, new) - CONTEXT_LINES)
    old, new = old[start:], new[start:]
    end = max(0, common_length(old[::-1], new[::-1]) - CONTEXT_LINES)
    old, new = old[: len(old) - end], new[: len(new) - end]
    if len(old) + len(new) > COMPARED_LINES_MAX:
        body = _replaced(old, new, names)
    else:
        body = unified_diff(old, new, *names, n=CONTEXT_LINES)
    return "".join(_finished(line, start) for line in body)


def _replaced(old: list[str], new: list[str], names: tuple[str, str]) -> Iterator[str]:
    yield f"--- {names[0]}\n"
    yield f"+++ {names[1]}\n"
    yield f"@@ -1,{len(old)} +1,{len(new)} @@\n"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def _finished(line: str, start: int) -> str:
    """Count lines from the beginning of the text, and say where the last has no newline."""
    if found := _HUNK.match(line):
        one, other = int(found[1]) + start, int(found[3]) + start
        return f"@@ -{one}{found[2] or ''} +{other}{found[4] or ''} @@\n"
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Split at newlines only: other characters at which Python would are part of a line."""
    *lines, rest = text.split("\n")
    return [line + "\n" for line in lines] + ([rest] if rest else [])


def _text(context: Context, section: Section) -> str:
    return "".join(block.text for block in context.section(section))


def _is_told(name: str) -> bool:
    return name not in _UNTOLD and not name.endswith("_hash")


def _field(name: str, before: Any, after: Any) -> FieldChange:
    if not isinstance(before, list) or not isinstance(after, list):
        return FieldChange(field=name, before=before, after=after)
    old, new = _by_value(before), _by_value(after)
    return FieldChange(
        field=name,
        before=len(before),
        after=len(after),
        added=tuple(new[each] for each in new if each not in old),
        removed=tuple(old[each] for each in old if each not in new),
    )


def _by_value(items: list[Any]) -> Mapping[bytes, Any]:
    return {canonical(item): item for item in items}
