"""Recall: what a session has met and does not show can be searched. Reads the store's feed.

    store's feed ─► entries of files and tool calls ─► search index ─► objects of this session

The index is brought up to date by whoever searches, page by page, with all that was committed
before; an index of another store, or of a later state of this one than there is now (a backup was
restored), is made anew. Outputs of recall itself are left out: they would be found before what they
quote.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.contents import File, ToolCall
from ctxmgr.core.documents import ID, KIND
from ctxmgr.core.envelopes import FILE, TOOLCALL
from ctxmgr.core.lines import file_line, toolcall_line
from ctxmgr.core.objects import from_document
from ctxmgr.core.recalled import TOOL, Recalled, told
from ctxmgr.core.search import Entry, Position, SearchIndex
from ctxmgr.core.secrets import Masker
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Store, Transaction, Version

FEED_PAGE: Final = 100
"""Transactions indexed at once: what is held in memory, and lost when the process dies."""

OBJECTS_MAX: Final = 20
"""The most that one search tells of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Searches what sessions have met."""

    store: Store
    index: SearchIndex
    masker: Masker
    display_path: Callable[[File], str]
    """Tells the path by which the agent knows a file."""

    async def search(self, query: str, session: Session, limit: int) -> str:
        """Return what the agent is told, with secrets masked as its policy says."""
        found = await recalled(self.store, self.index, query, session=session, limit=limit)
        return tell(query, found, masker=self.masker, display_path=self.display_path)


async def recalled(
    store: Store, index: SearchIndex, query: str, *, session: Session, limit: int
) -> list[Version]:
    """Return what a session has met and holds the words best, in its newest version."""
    await follow(store, index)
    hits = await index.search(
        query, limit=min(limit, OBJECTS_MAX), wanted=session.session_index.__contains__
    )
    found = await store.get_many([hit.object_id for hit in hits])
    return [found[hit.object_id] for hit in hits if hit.object_id in found]


def tell(
    query: str, found: Iterable[Version], *, masker: Masker, display_path: Callable[[File], str]
) -> str:
    """Return what the agent is told of what was found."""
    return told(query, [_shown(each, masker, display_path) for each in found])


def _shown(version: Version, masker: Masker, display_path: Callable[[File], str]) -> Recalled:
    stored = from_document(version.document)
    if isinstance(stored, File):
        line = file_line(stored, display_path=display_path(stored), state=stored.state())
    else:
        assert isinstance(stored, ToolCall)
        line = toolcall_line(stored)
    return Recalled(heading=line.rstrip("\n"), text=masker.shown(stored.content or ""))


async def follow(store: Store, index: SearchIndex) -> int:
    """Bring an index up to date with its store; return how many transactions were new."""
    first = await store.feed(limit=1, documents=False)
    if not first:
        return 0
    origin, new = first[0].key, 0
    at, newest = await _joined(store, index, origin)
    while at is None or at.sequence < newest:
        page = await store.feed(after=at.sequence if at else None, limit=FEED_PAGE)
        if not page:  # the newest transaction is none that a feed tells of
            break
        reached = Position(origin, page[-1].sequence)
        if await index.put(entries(page), after=at, position=reached):
            at, new = reached, new + len(page)
        else:
            at, newest = await _joined(store, index, origin)
    return new


async def _joined(store: Store, index: SearchIndex, origin: str) -> tuple[Position | None, int]:
    """Return how far the index is, and then how far the store was, in this order.

    An index that is not of this store, as it is now, begins anew.
    """
    at = await index.position()
    newest = (await store.status()).sequence or 0
    if at is None or (at.origin == origin and at.sequence <= newest):
        return at, newest
    await index.clear()
    return None, newest


_NEEDED: Final = {
    FILE: frozenset({"content", "source"}),
    TOOLCALL: frozenset({"content", "tool", "args"}),
}
"""What is read of each kind. Another program may keep documents of its own under these words."""
_NOT_OURS: Final = frozenset({""})


def entries(transactions: Iterable[Transaction]) -> list[Entry]:
    """Return what transactions say that can be searched for; of an object the newest only."""
    newest: dict[str, Entry] = {}
    for transaction in transactions:
        for write in transaction.writes:
            document = write.document
            if document is not None and _NEEDED.get(document[KIND], _NOT_OURS) <= document.keys():
                newest[document[ID]] = Entry(
                    object_id=document[ID],
                    sequence=transaction.sequence,
                    text=_searched(document),
                )
    return list(newest.values())


def _searched(document: Mapping[str, Any]) -> str | None:
    if document["content"] is None or document.get("tool") == TOOL:
        return None
    if document[KIND] == FILE:
        return f"{document['source'].get('path', '')}\n{document['content']}"
    args = json.dumps(document["args"], ensure_ascii=False)
    return f"{document['tool']} {args}\n{document['content']}"
