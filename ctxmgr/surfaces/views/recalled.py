"""The result of a search in a session. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ctxmgr.core.client.recall import Recalled, best_lines, recall_text, words


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
