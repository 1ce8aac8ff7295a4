"""The fields and sections of every type of note, and what is wrong with one. Pure.

    type             where                           fields                      sections
    identity         knowledge/identity/             role                        –
    memory           knowledge/memory/MEMORY.md      line_count                  Key Decisions …
    journal          knowledge/journal/DAY.md        date, sessions              –
    project_index    knowledge/projects/_active.md   –                           –
    project_context  knowledge/projects/NAME/        project                     Current State …
    person           knowledge/people/               name, relationship          Communication …
    topic            topics/                         triggers, activation, …     Instructions …
    procedure        knowledge/procedures/           –                           –
    reference        knowledge/reference/            –                           –

Frontmatter is optional. What is there has to be right: a wrong value is an error, a missing one a
warning. Raw conversations need their frontmatter.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from ctxmgr.errors import Incorrect, InvalidNote
from ctxmgr.knowledge.notes.frontmatter import Value, field_lines, set_fields, split
from ctxmgr.knowledge.notes.note import Note, read_date, read_datetime
from ctxmgr.knowledge.notes.sections import one_line, outside_code

MEMORY_LINES_WARN: Final = 180
MEMORY_LINES_CAP: Final = 200
MEMORY_LINES_MAX: Final = 220
"""A commit with more lines of MEMORY.md is refused."""

Severity = Literal["error", "warning"]


class NoteType(StrEnum):
    """The values of the field ``type``."""

    IDENTITY = "identity"
    MEMORY = "memory"
    JOURNAL = "journal"
    PROJECT_CONTEXT = "project_context"
    PROJECT_INDEX = "project_index"
    PERSON = "person"
    TOPIC = "topic"
    PROCEDURE = "procedure"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteFinding:
    """Something that is wrong with a note."""

    path: str
    line: int
    severity: Severity
    message: str


FieldCheck = Callable[[Value], str | None]
"""Returns what a value should have been, None if it is right."""


def _text(value: Value) -> str | None:
    return None if isinstance(value, str) and value.strip() else "text"


def _whole(value: Value) -> str | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if right else "a whole number"


def _positive(value: Value) -> str | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return None if right else "a number above 0"


def _datetime(value: Value) -> str | None:
    return None if read_datetime(value) else "an ISO datetime such as 2026-11-18T10:00:00Z"


def _date(value: Value) -> str | None:
    return None if read_date(value) else "a date such as 2026-11-18"


def _texts(value: Value) -> str | None:
    right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return None if right else "a list of texts"


def _tags(value: Value) -> str | None:
    """Obsidian writes one tag without a list; numbers are tags, too."""
    if value is None or isinstance(value, str):
        return None
    right = isinstance(value, list) and all(isinstance(item, str | int) for item in value)
    return None if right else "a list of texts"


def _objects(value: Value) -> str | None:
    right = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return None if right else "a list of entries with fields"


def _one_of(*words: str) -> FieldCheck:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _session_id(value: Value) -> str | None:
    right = isinstance(value, str) and re.fullmatch(r"ses_[0-9a-z]{8}", value)
    return None if right else "ses_ and 8 letters or digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteForm:
    """What notes of one type have."""

    required: Mapping[str, FieldCheck]
    optional: Mapping[str, FieldCheck]
    sections: tuple[str, ...] = ()


_COMMON: Final[Mapping[str, FieldCheck]] = {"tags": _tags, "title": _text}
_UPDATED: Final[Mapping[str, FieldCheck]] = {"updated": _datetime}

FORMS: Final[Mapping[NoteType, NoteForm]] = MappingProxyType(
    {
        NoteType.IDENTITY: NoteForm(
            required={"role": _one_of("soul", "user", "rules", "tools"), **_UPDATED},
            optional=_COMMON,
        ),
        NoteType.MEMORY: NoteForm(
            required=_UPDATED,
            optional={"line_count": _whole, **_COMMON},
            sections=("Key Decisions", "Lessons Learned", "Active Context"),
        ),
        NoteType.JOURNAL: NoteForm(
            required={"date": _date}, optional={"sessions": _texts, **_UPDATED, **_COMMON}
        ),
        NoteType.PROJECT_CONTEXT: NoteForm(
            required={"project": _text, **_UPDATED},
            optional=_COMMON,
            sections=("Current State", "Key Decisions", "Stack"),
        ),
        NoteType.PROJECT_INDEX: NoteForm(required=_UPDATED, optional=_COMMON),
        NoteType.PERSON: NoteForm(
            required={"name": _text, **_UPDATED},
            optional={"relationship": _text, **_COMMON},
            sections=("Communication", "Context"),
        ),
        NoteType.TOPIC: NoteForm(
            required={"triggers": _objects},
            optional={
                "subscriptions": _texts,
                "activation": _one_of("auto", "gated", "manual"),
                "priority": _one_of("low", "medium", "high", "critical"),
                "max_context_kb": _positive,
                "similarity_threshold": _positive,
                "keywords": _texts,
                "description": _text,
                **_UPDATED,
                **_COMMON,
            },
            sections=("Instructions", "Context Notes"),
        ),
        NoteType.PROCEDURE: NoteForm(required=_UPDATED, optional=_COMMON),
        NoteType.REFERENCE: NoteForm(required=_UPDATED, optional=_COMMON),
    }
)
"""The form of every type."""

CONVERSATION: Final = NoteForm(
    required={"session_id": _session_id, "started": _datetime},
    optional={
        "ended": _datetime,
        "model": _text,
        "channel": _text,
        "topic": _text,
        "tokens_in": _whole,
        "tokens_out": _whole,
        "knowledge_changes": _objects,
        "tags": _tags,
    },
)
"""The form of raw conversations, which have no ``type``."""

_EXPECTED: Final = (
    ("knowledge/identity/", NoteType.IDENTITY),
    ("knowledge/memory/", NoteType.MEMORY),
    ("knowledge/journal/", NoteType.JOURNAL),
    ("knowledge/projects/_", NoteType.PROJECT_INDEX),
    ("knowledge/people/_", None),
    ("knowledge/people/", NoteType.PERSON),
    ("knowledge/procedures/", NoteType.PROCEDURE),
    ("knowledge/reference/", NoteType.REFERENCE),
    ("topics/", NoteType.TOPIC),
)


def expected_type(path: str) -> NoteType | None:
    """Return the type that notes at a path have; None if there is no rule for it."""
    if path.startswith("knowledge/projects/") and path.endswith("/context.md"):
        return NoteType.PROJECT_CONTEXT
    return next((kind for start, kind in _EXPECTED if path.startswith(start)), None)


def check_note(note: Note) -> tuple[NoteFinding, ...]:
    """Return what is wrong with a note, errors first."""
    found = [NoteFinding(path=note.path, line=line, severity=severity, message=message)
             for line, severity, message in _check(note)]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (each.severity != "error", each.line)))


def new_note(note_type: NoteType, *, title: str, fields: Mapping[str, Value]) -> str:
    """Return the text of a new note, with the sections of its type; ``Incorrect`` if a field is
    missing or has a value that its type does not allow."""
    heading = one_line(title)
    if not heading:
        raise Incorrect("a note needs a title")
    body = "\n\n".join((f"# {heading}", *(f"## {each}" for each in FORMS[note_type].sections)))
    text = set_fields(f"{body}\n", {"type": str(note_type), **fields})
    form = FORMS[note_type]
    missing = [name for name in form.required if name not in fields]
    if missing:
        raise Incorrect(f"a note of type {note_type} needs {', '.join(missing)}")
    for name, check in {**form.required, **form.optional}.items():
        wanted = check(fields[name]) if name in fields else None
        if wanted is not None:
            raise Incorrect(f"{name} is {fields[name]!r:.80}, but has to be {wanted}")
    return text


_Problem = tuple[int, Severity, str]

_CONFLICT: Final = ("<<<<<<< ", "=======", ">>>>>>> ")


def _check(note: Note) -> Iterator[_Problem]:
    try:
        fields, lines = note.frontmatter, field_lines(note.text)
    except InvalidNote as error:
        yield error.line or 1, "error", error.problem
        return
    if note.path.startswith("raw/conversations/"):
        if not fields:
            yield 1, "error", "a conversation needs frontmatter with session_id and started"
        else:
            yield from _fields(CONVERSATION, fields, lines, missing="error")
        return
    yield from _conflicts(note)
    expected = expected_type(note.path)
    if expected is NoteType.MEMORY:
        yield from _memory_lines(note)
    given = fields.get("type")
    if given is None:
        if split(note.text).present and expected is not None:
            yield 1, "warning", f"type is missing; notes here are of type {expected}"
        kind = expected
    elif given not in tuple(NoteType):
        words = ", ".join(NoteType)
        yield lines.get("type", 1), "error", f"type is {given!r:.80}, but has to be one of {words}"
        return
    else:
        kind = NoteType(str(given))
        if expected is not None and kind is not expected:
            yield lines["type"], "warning", f"type is {kind}; notes here are of type {expected}"
    if kind is None:
        return
    if fields or kind is NoteType.TOPIC:
        yield from _fields(FORMS[kind], fields, lines, missing="warning")
    yield from _sections(note, FORMS[kind])
    if kind is NoteType.JOURNAL:
        yield from _journal(note, fields, lines)
    if kind is NoteType.MEMORY:
        yield from _memory(note, fields, lines)


def _fields(
    form: NoteForm, fields: Mapping[str, Value], lines: Mapping[str, int], *, missing: Severity
) -> Iterator[_Problem]:
    for name, check in {**form.required, **form.optional}.items():
        if name not in fields:
            if name in form.required:
                yield 1, missing, f"{name} is missing"
            continue
        wanted = check(fields[name])
        if wanted is not None:
            shown = f"{fields[name]!r:.80}"
            yield lines.get(name, 1), "error", f"{name} is {shown}, but has to be {wanted}"


def _conflicts(note: Note) -> Iterator[_Problem]:
    """Find where git left both sides of a merge; the marks are looked for in their order."""
    wanted, begun = 0, 0
    for line, text in outside_code(note.body):
        if text.startswith(_CONFLICT[0]):
            wanted, begun = 1, line
        elif wanted and text.startswith(_CONFLICT[wanted]):
            wanted += 1
        if wanted == len(_CONFLICT):
            message = "both sides of a merge are here: keep one, and delete the marks of git"
            yield note.body_line + begun - 1, "error", message
            return


def _sections(note: Note, form: NoteForm) -> Iterator[_Problem]:
    titles = {each.title.casefold() for each in note.sections}
    for title in form.sections:
        if title.casefold() not in titles:
            yield note.body_line, "warning", f"the section {title} is missing"


def _journal(
    note: Note, fields: Mapping[str, Value], lines: Mapping[str, int]
) -> Iterator[_Problem]:
    named, given = read_date(note.path.rpartition("/")[2].removesuffix(".md")), fields.get("date")
    if named is None:
        yield 1, "warning", "a journal's file is named for its day, such as 2026-11-18.md"
    elif read_date(given) not in (None, named):
        yield lines.get("date", 1), "error", f"date is {given}, but the file is of {named}"


def _memory_lines(note: Note) -> Iterator[_Problem]:
    count = len(note.text.splitlines())
    if count > MEMORY_LINES_MAX:
        message = f"{count} lines; more than {MEMORY_LINES_MAX} are refused: condense it"
        yield count, "error", message
    elif count > MEMORY_LINES_WARN:
        yield count, "warning", f"{count} lines; the limit is {MEMORY_LINES_CAP}: condense it"


def _memory(
    note: Note, fields: Mapping[str, Value], lines: Mapping[str, int]
) -> Iterator[_Problem]:
    count, given = len(note.text.splitlines()), fields.get("line_count")
    if isinstance(given, int) and given != count:
        yield lines.get("line_count", 1), "warning", f"line_count is {given}, there are {count}"
    for section in note.sections:
        for bullet in section.bullets:
            if bullet.day is None:
                line = note.body_line + bullet.line - 1
                yield line, "warning", "an entry of MEMORY.md begins with its date"
