"""A memory, and its stored form. Pure.

    memory          valid from ``valid_from`` until ``valid_to`` (None: still valid), in valid time
    forgotten       ``valid_to`` is set; nothing is deleted
    superseded      forgotten, and ``superseded_by`` names what took its place

The document of a memory is stored from ``valid_from`` on. Whoever reads as of an instant sees it
with its ``valid_to``: a memory is served while ``valid_from ≤ instant < valid_to``.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import FieldType, IdForm, Instant, Kind
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.memory.records.bodies import (
    Body,
    MemoryType,
    read_body,
    stored_body,
    type_of,
)
from ctxmgr.memory.records.levels import INDEX_CHARS_MAX, Levels
from ctxmgr.memory.records.principal import Principal

MEMORY: Final = "memory"
"""The ``type`` of stored memories; their ids are ``memory:UUID``."""

TAGS_MAX: Final = 50
TAG_CHARS_MAX: Final = 200
OWNER_CHARS_MAX: Final = 100
NOTE_CHARS_MAX: Final = 500
CONDENSED_MAX: Final = 2

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RULE_ENDED: Final = re.compile(
    rf"(?:not used in \d+ days|(?:says the same as|superseded by) {_UUID.pattern})$"
    r"|it is no longer in "
)
"""The reasons that rules gave before it was stored who ended a memory."""
_HASH: Final = re.compile("[0-9a-f]{64}")


class MemoryKind(StrEnum):
    """What a memory is for; it decides in which tier it is shown."""

    INSTRUCTION = "instruction"
    DECISION = "decision"
    ADR = "adr"
    CONVENTION = "convention"
    PREFERENCE = "preference"
    ERROR_FIX = "error_fix"
    QUESTION = "question"
    NOTE = "note"


class Visibility(StrEnum):
    """Who may see a memory."""

    USER_PRIVATE = "user-private"
    PROJECT_SHARED = "project-shared"
    SYSTEM = "system"


class Author(StrEnum):
    """Who wrote the present text. What a person wrote is never rewritten."""

    PERSON = "person"
    AGENT = "agent"
    RULE = "rule"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a memory was learnt."""

    session_id: str | None = None
    turn: int | None = None
    object_id: str | None = None
    object_hash: str | None = None
    """The version of the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One version of a memory."""

    id: str
    """A UUID."""
    body: Body
    kind: MemoryKind
    levels: Levels
    author: Author
    visibility: Visibility
    user_id: str
    project_id: str
    created_at: Instant
    valid_from: Instant
    valid_to: Instant | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    ended_because: str | None = None
    """Why it was forgotten; None while it is valid."""
    ended_by: Author | None = None
    """Who ended it: what a person ended is not learnt again. None while it is valid."""
    origin: Origin = Origin()
    tags: tuple[str, ...] = ()
    """Files, modules or people that it is about; a person is ``@name``."""
    condensed: int = 0
    """The longest level that prompts show of it: 0 or 1 the summary, 2 the compressed form."""
    cold: bool = False
    """Whether prompts get it only when it matches: it was shown before and did not help."""
    imported_from: str | None = None
    """The hash of the memory file that it came from; None if it was learnt or written here."""

    def __post_init__(self) -> None:
        if _UUID.fullmatch(self.id) is None:
            raise Incorrect(f"{self.id!r:.80} is not the id of a memory, which is a UUID")
        for name in ("user_id", "project_id"):
            owner = getattr(self, name)
            if not 0 < len(owner) <= OWNER_CHARS_MAX:
                raise Incorrect(f"{name} has 1 to {OWNER_CHARS_MAX} characters, not {owner!r:.80}")
        if len(self.levels.index) > INDEX_CHARS_MAX:
            raise Incorrect(f"an index entry has at most {INDEX_CHARS_MAX} characters")
        if self.valid_to is not None and self.valid_to < self.valid_from:
            raise Incorrect(f"memory {self.id} would end before it begins")
        if len(self.tags) > TAGS_MAX or not all(0 < len(tag) <= TAG_CHARS_MAX for tag in self.tags):
            raise Incorrect(f"at most {TAGS_MAX} tags of 1 to {TAG_CHARS_MAX} characters")
        if self.condensed not in range(CONDENSED_MAX + 1):
            raise Incorrect(f"condensed is 0 to {CONDENSED_MAX}, not {self.condensed!r:.80}")
        if self.imported_from is not None and _HASH.fullmatch(self.imported_from) is None:
            raise Incorrect(f"{self.imported_from!r:.80} is not the hash of a memory file")

    @property
    def type(self) -> MemoryType:
        return type_of(self.body)

    @property
    def content_hash(self) -> str:
        """Identifies what it says, whatever happens to its validity."""
        return hashlib.sha256(canonical([str(self.type), stored_body(self.body)])).hexdigest()

    def is_valid_at(self, instant: Instant) -> bool:
        return self.valid_from <= instant and (self.valid_to is None or instant < self.valid_to)

    def holds_in(self, project_id: str) -> bool:
        """Whether prompts of a project may use it: a user's preferences hold in all of them.

        What an agent says that the user prefers stays in its project, whatever made it say so.
        """
        preferred = self.kind is MemoryKind.PREFERENCE and self.author is not Author.AGENT
        return self.project_id == project_id or self.visibility is Visibility.SYSTEM or preferred

    def visible_to(self, principal: Principal) -> bool:
        """Whether a principal may see it."""
        match self.visibility:
            case Visibility.USER_PRIVATE:
                return self.user_id == principal.user_id
            case Visibility.PROJECT_SHARED:
                return self.project_id == principal.project_id
            case Visibility.SYSTEM:
                return True


def stored_id(memory_id: str) -> str:
    return f"{MEMORY}:{memory_id}"


def stored_memory(memory: Memory) -> dict[str, Any]:
    """Return the document of a memory."""
    return {
        "xt/id": stored_id(memory.id),
        "type": MEMORY,
        "memory_type": str(memory.type),
        "kind": str(memory.kind),
        "body": stored_body(memory.body),
        "content_full": memory.levels.full,
        "content_summary": memory.levels.summary,
        "content_compressed": memory.levels.compressed,
        "content_index": memory.levels.index,
        "author": str(memory.author),
        "visibility": str(memory.visibility),
        "user_id": memory.user_id,
        "project_id": memory.project_id,
        "created_at": memory.created_at,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "supersedes": list(memory.supersedes),
        "superseded_by": memory.superseded_by,
        "ended_because": memory.ended_because,
        "ended_by": None if memory.ended_by is None else str(memory.ended_by),
        "origin": {
            "session_id": memory.origin.session_id,
            "turn": memory.origin.turn,
            "object_id": memory.origin.object_id,
            "object_hash": memory.origin.object_hash,
        },
        "tags": list(memory.tags),
        "condensed": memory.condensed,
        "cold": memory.cold,
        # Only imported memories have it: the documents of all others stay as they were.
        **({} if memory.imported_from is None else {"imported_from": memory.imported_from}),
    }


def read_memory(stored: Mapping[str, Any]) -> Memory:
    """Read a document; ``Corrupt`` if a field is missing or damaged."""
    where = stored.get("xt/id")
    try:
        memory = Memory(
            id=_text(stored["xt/id"]).removeprefix(f"{MEMORY}:"),
            body=read_body(MemoryType(stored["memory_type"]), stored["body"]),
            kind=MemoryKind(stored["kind"]),
            levels=Levels(
                full=_text(stored["content_full"]),
                summary=_text(stored["content_summary"]),
                compressed=_text(stored["content_compressed"]),
                index=_text(stored["content_index"]),
            ),
            author=Author(stored["author"]),
            visibility=Visibility(stored["visibility"]),
            user_id=_text(stored["user_id"]),
            project_id=_text(stored["project_id"]),
            created_at=_integer(stored["created_at"]),
            valid_from=_integer(stored["valid_from"]),
            valid_to=None if stored["valid_to"] is None else _integer(stored["valid_to"]),
            supersedes=tuple(_text(each) for each in stored["supersedes"]),
            superseded_by=_optional(stored["superseded_by"]),
            ended_because=_optional(stored["ended_because"]),
            ended_by=_ended_by(stored),
            origin=Origin(
                session_id=_optional(stored["origin"]["session_id"]),
                turn=None
                if stored["origin"]["turn"] is None
                else _integer(stored["origin"]["turn"]),
                object_id=_optional(stored["origin"]["object_id"]),
                object_hash=_optional(stored["origin"]["object_hash"]),
            ),
            tags=tuple(_text(tag) for tag in stored["tags"]),
            # Memories that were stored before consolidation existed do not have these fields.
            condensed=_integer(stored.get("condensed", 0)),
            cold=stored.get("cold", False) is True,
            imported_from=_optional(stored.get("imported_from")),
        )
    except (KeyError, TypeError, ValueError, Incorrect) as error:
        raise Corrupt(f"the stored memory {where!r:.80} is not readable: {error}") from error
    return memory


def _check_stored(document: Mapping[str, Any]) -> None:
    """Refuse to store what could not be read again."""
    try:
        read_memory(document)
    except Corrupt as error:
        raise Incorrect(str(error)) from error


MEMORY_KIND: Final = Kind(
    MEMORY,
    {
        "memory_type": FieldType.TEXT,
        "kind": FieldType.TEXT,
        "visibility": FieldType.TEXT,
        "user_id": FieldType.TEXT,
        "project_id": FieldType.TEXT,
        "created_at": FieldType.INTEGER,
    },
    ids=IdForm.NAMED,
    check=_check_stored,
)
"""How stores index memories, so that visibility is part of the query."""


def _ended_by(stored: Mapping[str, Any]) -> Author | None:
    """Return who ended a memory; earlier versions stored only why."""
    if "ended_by" in stored:
        return None if stored["ended_by"] is None else Author(stored["ended_by"])
    if stored["valid_to"] is None:
        return None
    by_rule = _RULE_ENDED.match(stored["ended_because"] or "") is not None
    return Author.RULE if by_rule else Author.PERSON


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {value!r:.80}")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"expected an integer, not {value!r:.80}")
    return value
