"""The results of a search in a session, in several sessions, or in notes. No I/O."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.client.recall import Recalled, best_lines, recall_text, words

CALL_CHARACTERS: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLine:
    line: int
    """Its number in the text, from 1."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHit:
    """One object, the best first."""

    object_id: str
    kind: str
    name: str
    """The path of a file as the agent sees it; the tool of a call."""
    char_count: int
    lines: tuple[RecallLine, ...]
    """The lines that hold most of the words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallView:
    session_id: str
    query: str
    hits: tuple[RecallHit, ...]
    text: str = field(repr=False)
    """The same as the agent reads it."""


def recall_view(
    session_id: str, query: str, results: Sequence[Recalled], *, shown: str
) -> RecallView:
    """Return the objects that were found; ``shown`` is the query with secrets masked."""
    hits = (
        RecallHit(
            object_id=result.object_id,
            kind=result.kind,
            name=result.name,
            char_count=len(result.text),
            lines=tuple(
                RecallLine(line=number, text=text)
                for number, text in best_lines(result.text, words(query))
            ),
        )
        for result in results
    )
    text = recall_text(query, results, shown=shown)
    return RecallView(session_id=session_id, query=shown, hits=tuple(hits), text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """A note or an object, the best first."""

    path: str
    """Of a note or a file; the tool of a call, and what it did."""
    category: str
    """Of a note; of an object, file or toolcall."""
    score: float | None
    """Comparable only within one result. Objects are in their order, without one."""
    snippet: str
    object_id: str | None = None
    session_id: str | None = None
    """The session that has seen the object; of several, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    query: str
    scope: str
    """Where was searched: notes, session, project or all."""
    hits: tuple[FoundEntry, ...]
    text: str = field(repr=False)
    """The same as people and agents read it."""


def search_view(query: str, scope: str, hits: Sequence[FoundEntry]) -> SearchView:
    return SearchView(query=query, scope=scope, hits=tuple(hits), text=_text(query, hits))


def _text(query: str, hits: Sequence[FoundEntry]) -> str:
    if not hits:
        return f"nothing found: {query}\n"
    lines = []
    for hit in hits:
        session = "" if hit.session_id is None else f" session={hit.session_id}"
        handle = "" if hit.object_id is None else f" id={hit.object_id}"
        lines.append(f"{hit.path} [{hit.category}]{session}{handle}\n")
        lines += (f"  {line}\n" for line in hit.snippet.splitlines() if line.strip())
    return "".join(lines)


def describe_args(args: Any) -> str:
    """Return the argument that says what a call does: its command, path or pattern."""
    for name in ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description"):
        value = args.get(name)
        if isinstance(value, list):
            value = " ".join(map(str, value))
        if isinstance(value, str) and value:
            return one_line(value, CALL_CHARACTERS)
    return one_line(json.dumps(args, ensure_ascii=False, default=str), CALL_CHARACTERS)


def one_line(text: str, characters: int) -> str:
    """Return a text as one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"
