"""What an extractor found, and what it refused. Pure."""

from dataclasses import dataclass
from typing import Final

from ctxmgr.memory.records.bodies import KEY_CHARS_MAX, Body
from ctxmgr.memory.records.memory import TAG_CHARS_MAX, TAGS_MAX, Author, MemoryKind

EXCERPT_CHARS_MAX: Final = 300
"""Of a refused text that is kept for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntItem:
    """Something to remember, with the place where it was learnt."""

    body: Body
    kind: MemoryKind
    original: str
    """The text that it was learnt from."""
    extractor: str
    turn: int
    object_id: str | None = None
    """The tool call or file that shows it; None: the conversation."""
    object_hash: str | None = None
    tags: tuple[str, ...] = ()
    author: Author = Author.RULE
    """``AGENT`` if the agent said it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedItem:
    """Something that looked worth remembering, and is not remembered."""

    text: str
    reason: str
    extractor: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractorResult:
    """What extractors found in one exchange."""

    learnt: tuple[LearntItem, ...] = ()
    refused: tuple[RefusedItem, ...] = ()


def refused(text: str, reason: str, *, extractor: str, turn: int) -> RefusedItem:
    """Return a refusal with an excerpt of the text."""
    excerpt = " ".join(text.split())[:EXCERPT_CHARS_MAX]
    return RefusedItem(text=excerpt, reason=reason, extractor=extractor, turn=turn)


def as_line(text: str, chars_max: int = KEY_CHARS_MAX) -> str:
    """Return a text as one printable line; too long a line ends with a whole word."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line) <= chars_max:
        return line
    return line[: chars_max + 1].rsplit(" ", maxsplit=1)[0][:chars_max]


def file_tags(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return paths as the tags of a memory."""
    kept = [path for path in dict.fromkeys(paths) if 0 < len(path) <= TAG_CHARS_MAX]
    return tuple(kept[:TAGS_MAX])
