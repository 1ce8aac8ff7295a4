"""Differences between two versions of an object, or between two prompts of a session. Pure.

    text     a unified diff
    fields   the other fields that differ; of a list, what was added and removed
    prompt   a unified diff, the sizes by section, and the length of the shared prefix
    blocks   each block of a prompt, compared with the previous prompt:
             same      present, in this order
             new       not present
             changed   another text of the same object
             moved     the same text, elsewhere
             gone      present only in the previous prompt

Prompts are long and mostly the same: a shared prefix and suffix are not compared line by line.
"""

import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Final

from ctxmgr.core.context.assembly import Context, Section
from ctxmgr.core.history.prompt_rows import CountedBlock, Prompt, common_length
from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import Instant
from ctxmgr.core.store.documents import Document

SAME: Final = "same"
NEW: Final = "new"
CHANGED: Final = "changed"
MOVED: Final = "moved"
GONE: Final = "gone"

CONTEXT_LINES: Final = 3
"""Lines around a change."""

COMPARED_LINES_MAX: Final = 20_000
"""Lines compared one by one; of longer texts all old lines are removed and all new ones added.
The comparison is quadratic in the worst case."""

_HUNK: Final = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


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
    """Length of the shared prefix, which a provider's cache could keep."""
    sections: tuple[SectionChange, ...]
    diff: str


def compare_documents(before: Document, after: Document) -> tuple[tuple[FieldChange, ...], str]:
    """Return the fields that differ, and the unified diff of the contents.

    Hashes are left out: they differ whenever anything does.
    """
    fields = tuple(
        _field(name, before.get(name), after.get(name))
        for name in {**before, **after}
        if name != "content"
        and not name.endswith("_hash")
        and canonical(before.get(name)) != canonical(after.get(name))
    )
    return fields, diff_texts(before.get("content") or "", after.get("content") or "")


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
                chars_before=len(old_text),
                chars_after=len(new_text),
                same=old_text == new_text,
            )
            for section, old_text, new_text in pairs
            if old_text or new_text
        ),
        diff=diff_texts(old, new, names=(f"turn {turns[0]}", f"turn {turns[1]}")),
    )


def compare_blocks(
    before: Prompt, now: Prompt
) -> tuple[list[tuple[CountedBlock, str]], list[CountedBlock]]:
    """Return each block with its change since the previous prompt, and the blocks that are gone."""
    blocks: list[tuple[CountedBlock, str]] = []
    gone: list[CountedBlock] = []
    for section in Section:
        old, new = before.row(section), now.row(section)
        changes, left = _changes(old.blocks, new.blocks)
        blocks += zip(new.blocks, changes, strict=True)
        gone += left
    return blocks, gone


def diff_texts(before: str, after: str, *, names: tuple[str, str] = ("before", "after")) -> str:
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
    """Count lines from the start of the text, and mark a last line without a newline."""
    if match := _HUNK.match(line):
        old_start, new_start = int(match[1]) + start, int(match[3]) + start
        return f"@@ -{old_start}{match[2] or ''} +{new_start}{match[4] or ''} @@\n"
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Split at newlines only, unlike ``str.splitlines``."""
    *lines, rest = text.split("\n")
    return [line + "\n" for line in lines] + ([rest] if rest else [])


def _text(context: Context, section: Section) -> str:
    return "".join(block.text for block in context.section(section))


def _field(name: str, before: Any, after: Any) -> FieldChange:
    if not isinstance(before, list) or not isinstance(after, list):
        return FieldChange(field=name, before=before, after=after)
    old = {canonical(item): item for item in before}
    new = {canonical(item): item for item in after}
    return FieldChange(
        field=name,
        before=len(before),
        after=len(after),
        added=tuple(new[key] for key in new if key not in old),
        removed=tuple(old[key] for key in old if key not in new),
    )


def _changes(
    old: Sequence[CountedBlock], new: Sequence[CountedBlock]
) -> tuple[list[str], list[CountedBlock]]:
    """Return the change of each piece of a section, and the pieces that are gone."""
    by_text: defaultdict[str, deque[int]] = defaultdict(deque)
    for at, piece in enumerate(old):
        by_text[piece.text].append(at)
    positions = [by_text[piece.text].popleft() if by_text[piece.text] else None for piece in new]
    in_order = _longest_increasing(positions)
    matched = set(positions)
    unmatched: defaultdict[str | None, deque[CountedBlock]] = defaultdict(deque)
    for at, piece in enumerate(old):
        if at not in matched:
            unmatched[piece.object_id].append(piece)
    changes = []
    for at, piece in enumerate(new):
        if positions[at] is not None:
            changes.append(SAME if at in in_order else MOVED)
        elif unmatched[piece.object_id] and not _is_last_message(piece):
            unmatched[piece.object_id].popleft()
            changes.append(CHANGED)
        else:
            changes.append(NEW)
    # The last message of the previous prompt is part of a turn in this one.
    gone = [piece for pieces in unmatched.values() for piece in pieces]
    return changes, [piece for piece in gone if not _is_last_message(piece)]


def _longest_increasing(positions: Sequence[int | None]) -> set[int]:
    """Return the indexes of a longest increasing subsequence: those kept their order."""
    ends: list[int] = []  # the last position of the best run of each length
    last: list[int] = []  # its index
    previous: dict[int, int | None] = {}
    for at, position in enumerate(positions):
        if position is None:
            continue
        length = bisect_left(ends, position)
        previous[at] = last[length - 1] if length else None
        ends[length : length + 1] = [position]
        last[length : length + 1] = [at]
    chain = set()
    index = last[-1] if last else None
    while index is not None:
        chain.add(index)
        index = previous[index]
    return chain


def _is_last_message(piece: CountedBlock) -> bool:
    """Return whether it is the user's last message, which is new in every prompt."""
    return piece.section is Section.CHAT and piece.object_id is None
