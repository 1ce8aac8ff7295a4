"""A note: a markdown file with optional frontmatter. Pure.

``read_note`` checks that the frontmatter can be read; whether its fields suit the type of the note
is for ``note_types`` to say.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from ctxmgr.errors import InvalidNote
from ctxmgr.knowledge.notes.frontmatter import Value, fields_of, split
from ctxmgr.knowledge.notes.sections import NoteSection, sections

NEEDS_VERIFICATION: Final = "needs-verification"
"""The field that lists what is gone of a project; empty again when all is there."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note as it is on disk."""

    path: str
    """Relative to the root, with ``/``."""
    text: str
    """The whole file."""

    @property
    def frontmatter(self) -> dict[str, Value]:
        """The fields as JSON values; dates are the text that the file has."""
        return fields_of(self.text)

    @property
    def body(self) -> str:
        """The text after the frontmatter."""
        return split(self.text).body

    @property
    def body_line(self) -> int:
        """The line of the file in which the body begins, from 1."""
        return self.text[: len(self.text) - len(self.body)].count("\n") + 1

    @property
    def type(self) -> str | None:
        """The field ``type``; None if it is missing or not text."""
        value = self.frontmatter.get("type")
        return value if isinstance(value, str) else None

    @property
    def tags(self) -> tuple[str, ...]:
        """The field ``tags``: a list, or one text as Obsidian writes it."""
        value = self.frontmatter.get("tags")
        if isinstance(value, str):
            value = list(value.replace(",", " ").split())
        return tuple(str(tag) for tag in value) if isinstance(value, list) else ()

    @property
    def needs_verification(self) -> tuple[str, ...]:
        """What the note names and its project no longer has."""
        value = self.frontmatter.get(NEEDS_VERIFICATION)
        if isinstance(value, str) and value.strip():
            return (value.strip(),)
        return tuple(map(str, value)) if isinstance(value, list) else ()

    @property
    def title(self) -> str:
        """The field ``title``, else the first heading of level 1, else the name of the file."""
        given = self.frontmatter.get("title")
        if isinstance(given, str) and given.strip():
            return given.strip()
        first = next((each.title for each in self.sections if each.level == 1), "")
        return first or self.path.rpartition("/")[2].removesuffix(".md")

    @property
    def sections(self) -> tuple[NoteSection, ...]:
        """The sections of the body; their lines are counted in the body."""
        return sections(self.body)

    @property
    def updated(self) -> datetime | None:
        """The field ``updated`` in UTC; None if it is missing or not a date."""
        return read_datetime(self.frontmatter.get("updated"))


def read_note(path: str, text: str) -> Note:
    """Read a note; ``InvalidNote`` names the path and line of what is wrong."""
    try:
        fields_of(text)
    except InvalidNote as error:
        raise InvalidNote(error.problem, line=error.line, path=path) from error
    return Note(path, text)


def read_datetime(value: Value) -> datetime | None:
    """Read an ISO date or datetime as UTC; a date is its midnight, a time without zone is UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def read_date(value: Value) -> date | None:
    """Read an ISO date; a datetime is not one."""
    if not isinstance(value, str):
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        return None
