"""Additions to notes, each with its origin. No I/O.

    - 2026-11-18: We use SQLite for one machine. ^5f1c09ab-3-a1b2c3
      day of the session   what was said            session, turn and a hash of the text

The mark at the end is a block id, as Obsidian has them. An addition whose mark a note has already,
or whose text one of its bullets has, is not made again: applying twice is applying once, also after
a person reworded the bullet. The day is the session's, so that replaying gives the same notes.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.knowledge.notes.frontmatter import fields_of, set_fields
from ctxmgr.knowledge.notes.layout import MEMORY_FILE, Category, category_of, day_of
from ctxmgr.knowledge.notes.sections import (
    BULLET_CHARS_MAX,
    add_bullet,
    dated,
    find_section,
    one_line,
    sections,
)
from ctxmgr.knowledge.transcripts.transcript import iso, moment

CONTENT_CHARS_MAX: Final = 2_000
"""Of one addition: what is longer is not a note but a document."""
LINES_MAX: Final = 40
"""Of a procedure."""

_MARK: Final = re.compile(r"\^([0-9a-f]{8}-\d+-[0-9a-f]{6})\b")
_DAY: Final = re.compile(r"^\d{4}-\d\d-\d\d: ")


class ChangeAction(StrEnum):
    """What an addition does to its note."""

    APPENDED = "appended"
    """A bullet in a section."""
    CREATED = "created"
    """A numbered list in a section of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOrigin:
    """Where an addition comes from."""

    transcript: str
    """Its path."""
    session_id: str
    turn: int
    """The turn of the transcript, from 1."""
    extractor: str
    version: int
    at: Instant
    """When the session started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChange:
    """One addition to a note."""

    path: str
    action: ChangeAction
    section: str
    content: str = field(repr=False)
    origin: ChangeOrigin

    @property
    def mark(self) -> str:
        """Identifies the addition in its note."""
        text = f"{self.path}\n{self.section}\n{plain(self.content)}"
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:6]
        return f"{self.origin.session_id.removeprefix('ses_')}-{self.origin.turn}-{digest}"

    @property
    def day(self) -> date:
        return moment(self.origin.at).date()


def changed_text(text: str | None, change: KnowledgeChange) -> str:
    """Return a note's text with an addition; unchanged if it has it. None: there is no note yet."""
    before = new_note(change.path, at=change.origin.at) if text is None else text
    if change.mark in marks(before) or plain(change.content) in _contents(before):
        after = before
    elif change.action is ChangeAction.APPENDED:
        after = add_bullet(before, change.section, _bullet(change))
    else:
        after = _with_list(before, change)
    after = with_session(after, change.path, change.origin.session_id)
    if after == before:
        return before if text is None else text
    return stamped(after, change.path, at=change.origin.at)


def new_note(path: str, *, at: Instant) -> str:
    """Return the text of a note that does not exist yet: its frontmatter, title and sections."""
    name = path.rpartition("/")[2].removesuffix(".md")
    title = name.replace("-", " ").replace("_", " ").strip().capitalize()
    fields: dict[str, str] = {}
    headings: tuple[str, ...] = ()
    match category_of(path):
        case Category.MEMORY:
            fields, title = {"type": "memory"}, "Memory"
            headings = ("Key Decisions", "Lessons Learned", "Active Context")
        case Category.JOURNAL:
            fields, title = {"type": "journal", "date": name}, name
        case Category.PROJECT:
            project = path.split("/")[-2]
            fields, title = {"type": "project_context", "project": project}, project
            headings = ("Current State", "Key Decisions")
        case Category.PERSON:
            shown = " ".join(word.capitalize() for word in name.split("-"))
            fields = {"type": "person", "name": shown, "relationship": "unknown"}
            title, headings = shown, ("Communication", "Context")
        case Category.PROCEDURE:
            fields = {"type": "procedure"}
        case _:
            fields = {"type": "reference"}
    lines = ["---", *(f"{key}: {_scalar(value)}" for key, value in fields.items())]
    lines += [f"updated: {iso(at)}", "---", "", f"# {title}", ""]
    for heading in headings:
        lines += [f"## {heading}", ""]
    return "\n".join(lines)


def stamped(text: str, path: str, *, at: Instant) -> str:
    """Return a note's text with ``updated``, unless that is later, and MEMORY.md's line count."""
    updated = fields_of(text).get("updated")
    if not isinstance(updated, str) or updated < iso(at):
        text = set_fields(text, {"updated": iso(at)})
    return counted(text) if path == MEMORY_FILE else text


def counted(text: str) -> str:
    """Return MEMORY.md with the number of its lines."""
    text = set_fields(text, {"line_count": 0})
    return set_fields(text, {"line_count": len(text.splitlines())})


def with_session(text: str, path: str, session_id: str) -> str:
    """Return a journal that lists a session; other notes as they are."""
    if category_of(path) is not Category.JOURNAL or day_of(path) is None:
        return text
    listed = fields_of(text).get("sessions")
    known = [str(each) for each in listed] if isinstance(listed, list) else []
    return text if session_id in known else set_fields(text, {"sessions": [*known, session_id]})


def marks(text: str) -> set[str]:
    """Return the marks of all additions in a note."""
    return set(_MARK.findall(text))


def plain(content: str) -> str:
    """Return what a bullet says, for comparison: without day, mark, case and punctuation."""
    without = _DAY.sub("", _MARK.sub("", one_line(content)).removeprefix("- ").strip())
    return " ".join(re.findall(r"\w+", without.casefold()))


def slug(name: str) -> str:
    """Return the name of a file for what people or models call something; empty if nothing fits."""
    words = re.findall(r"[^\W_]+", one_line(name[:200]).casefold())
    return "-".join(words)[:60].strip("-")


def _contents(text: str) -> set[str]:
    return {plain(bullet.text) for section in sections(text) for bullet in section.bullets}


def _bullet(change: KnowledgeChange) -> str:
    content = one_line(change.content)[: min(CONTENT_CHARS_MAX, BULLET_CHARS_MAX - 100)]
    shown = content if category_of(change.path) is Category.JOURNAL else dated(change.day, content)
    return f"{shown} ^{change.mark}"


def _with_list(text: str, change: KnowledgeChange) -> str:
    section = one_line(change.section)[:120]
    title, number = section, 1
    while find_section(text, title) is not None:
        number += 1
        title = f"{section} ({number})"
    lines = _numbered(change.content.split("\n"))
    block = ["", f"## {title}", "", *lines, "", f"From {change.day.isoformat()}. ^{change.mark}"]
    return text.rstrip("\n") + "\n" + "\n".join(block) + "\n"


def _numbered(lines: Iterable[str]) -> list[str]:
    filled = [one_line(line)[:400] for line in lines if line.strip()]
    return [f"{number}. {line}" for number, line in enumerate(filled[:LINES_MAX], start=1)]


def _scalar(value: str) -> str:
    return value if re.fullmatch(r"[a-z_]+|\d{4}-\d\d-\d\d", value) else json.dumps(value)
