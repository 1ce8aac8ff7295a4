"""Recall: searches what a session has seen, also what it no longer shows. Reads the store's feed.

    store's feed ─► entries of files and tool calls ─► search index ─► objects of this session

A search first brings the index up to date with all transactions so far. An index of another store,
or of a later state of this store than its present one (a backup was restored), is built again.
Outputs of recall itself are not indexed: they would rank above what they quote. Neither are those
of the MCP server's tools, which a coding agent's hooks report like all others.

The agent receives the best lines of each object, with ids to activate:

    [recalled] 2 objects hold: retry timeout
    id=call-7 type=toolcall tool=bash status=ok
      12: raise TimeoutError("no reply")
    id=5f0c… type=file path=/src/retry.py file_type=py char_count=812
      3: def retry(call, timeout):
    Activate an id to see all of it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.context.lines import file_line, toolcall_line
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import FILE, TOOLCALL
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import Store, Transaction, Version
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.core.store.search_index import IndexPosition, ObjectIndex, SearchEntry, SearchHit
from ctxmgr.errors import Corrupt

MARK: Final = "[recalled]"
"""Begins every recalled text, so that agents and programs recognise it as a quotation."""

TOOL: Final = "recall"
"""Its calls are stored like any other, but not searched for file names, and not indexed."""

_QUOTES: Final = re.compile(
    r"recall|(?:.*_)?ctxmgr_+(?:recall|search|show|diff|as_of|sessions|expand)"
)
"""Tools whose outputs quote what is indexed: recall, and those of our MCP server, by the names that
clients give them."""

LINES_PER_OBJECT: Final = 3
LINE_CHARS_MAX: Final = 200

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """One object of a search result."""

    object_id: str
    kind: str
    name: str
    """The path of a file as the agent sees it; the tool of a call."""
    heading: str
    """The object's line in the pool, without the newline."""
    text: str = field(repr=False)


def recall_text(query: str, results: Sequence[Recalled], *, shown: str | None = None) -> str:
    """Return the text for the agent; ``shown`` is the query as it is repeated."""
    one_line = " ".join((query if shown is None else shown).split())[:LINE_CHARS_MAX]
    if not results:
        return f"{MARK} nothing that this session has met holds: {one_line}\n"
    objects = "1 object holds" if len(results) == 1 else f"{len(results)} objects hold"
    texts = [f"{MARK} {objects}: {one_line}\n"]
    for result in results:
        texts.append(f"{result.heading}\n")
        texts += (f"  {n}: {line}\n" for n, line in best_lines(result.text, words(query)))
    return "".join([*texts, "Activate an id to see all of it.\n"])


def words(query: str) -> frozenset[str]:
    """Return the words of a query, in lower case."""
    return frozenset(_WORD.findall(query.lower()))


def best_lines(text: str, wanted: frozenset[str]) -> list[tuple[int, str]]:
    """Return the lines that contain the most words, with their numbers, in order."""
    scored = []
    for number, line in enumerate(text.splitlines(), start=1):
        lower = line.lower()
        matches = sum(word in lower for word in wanted)
        if matches:
            scored.append((-matches, number, line))
    best = sorted(scored)[:LINES_PER_OBJECT]
    return [(n, _cut(line, wanted)) for _, n, line in sorted(best, key=lambda entry: entry[1])]


def _cut(line: str, wanted: frozenset[str]) -> str:
    """Cut a long line to the part around the first word."""
    line = line.strip()
    if len(line) <= LINE_CHARS_MAX:
        return line
    lower = line.lower()
    first = min((index for word in wanted if (index := lower.find(word)) >= 0), default=0)
    start = max(0, min(first - LINE_CHARS_MAX // 3, len(line) - LINE_CHARS_MAX))
    end = start + LINE_CHARS_MAX
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


FEED_PAGE: Final = 100
"""Transactions that are indexed at once and held in memory."""

OBJECTS_MAX: Final = 20
"""In the result of one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Searches for the agents of one client."""

    store: Store
    index: ObjectIndex
    masker: Masker
    display_path: Callable[[File], str]
    """Returns the path that the agent uses for a file."""

    async def search(self, query: str, session: Session, limit: int) -> str:
        """Return the text for the agent, with secrets masked by the client's policy."""
        seen = session.session_index.__contains__
        versions = await recalled(self.store, self.index, query, wanted=seen, limit=limit)
        return describe(query, versions, masker=self.masker, display_path=self.display_path)


async def recalled(
    store: Store, index: ObjectIndex, query: str, *, wanted: Callable[[str], bool], limit: int
) -> list[Version]:
    """Return the best matches among the wanted objects, in their newest versions.

    A damaged index is filled again.
    """
    try:
        hits = await _hits(store, index, query, wanted=wanted, limit=limit)
    except Corrupt:
        await index.clear()
        hits = await _hits(store, index, query, wanted=wanted, limit=limit)
    versions = await store.get_many([hit.object_id for hit in hits])
    return [versions[hit.object_id] for hit in hits if hit.object_id in versions]


async def _hits(
    store: Store, index: ObjectIndex, query: str, *, wanted: Callable[[str], bool], limit: int
) -> Sequence[SearchHit]:
    await update_index(store, index)
    return await index.search(query, limit=min(limit, OBJECTS_MAX), wanted=wanted)


def describe(
    query: str, versions: Iterable[Version], *, masker: Masker, display_path: Callable[[File], str]
) -> str:
    """Return the text for the agent about the versions that ``recalled`` returned."""
    results = search_results(versions, masker=masker, display_path=display_path)
    return recall_text(query, results, shown=masker.shown(query))


def search_results(
    versions: Iterable[Version], *, masker: Masker, display_path: Callable[[File], str]
) -> list[Recalled]:
    """Return the objects that ``recalled`` returned, with secrets masked."""
    results = []
    for version in versions:
        stored = from_document(version.document)
        if isinstance(stored, File):
            name = display_path(stored)
            line = file_line(stored, display_path=name, state=stored.state())
        else:
            assert isinstance(stored, ToolCall)
            name, line = stored.tool, toolcall_line(stored)
        results.append(
            Recalled(
                object_id=version.object_id,
                kind=str(version.document[KIND]),
                # A file's name can be a secret, and so can what was searched for.
                name=masker.shown(name),
                heading=masker.shown(line.rstrip("\n")),
                text=masker.shown(stored.content or ""),
            )
        )
    return results


async def update_index(store: Store, index: ObjectIndex) -> int:
    """Bring an index up to date with its store; return the number of new transactions."""
    first = await store.feed(limit=1, documents=False)
    if not first:
        return 0
    origin, new = first[0].key, 0
    position, newest = await _positions(store, index, origin)
    while position is None or position.sequence < newest:
        page = await store.feed(after=position.sequence if position else None, limit=FEED_PAGE)
        if not page:  # the feed leaves out the newest transaction
            break
        reached = IndexPosition(origin, page[-1].sequence)
        if await index.put(entries(page), after=position, position=reached):
            position, new = reached, new + len(page)
        else:
            position, newest = await _positions(store, index, origin)
    return new


async def _positions(
    store: Store, index: ObjectIndex, origin: str
) -> tuple[IndexPosition | None, int]:
    """Return the position of the index, then the newest sequence of the store, read in this order.

    An index that does not belong to this state of this store is cleared.
    """
    position = await index.position()
    newest = (await store.status()).sequence or 0
    if position is None or (position.origin == origin and position.sequence <= newest):
        return position, newest
    await index.clear()
    return None, newest


_NEEDED: Final = {
    FILE: frozenset({"content", "source"}),
    TOOLCALL: frozenset({"content", "tool", "args"}),
}
"""Fields that are read, by kind. Other programs may store documents with the same kind."""
_NOT_OURS: Final = frozenset({""})


def entries(transactions: Iterable[Transaction]) -> list[SearchEntry]:
    """Return what can be searched for in transactions; of each object, the newest version."""
    newest: dict[str, SearchEntry] = {}
    for transaction in transactions:
        for write in transaction.writes:
            document = write.document
            if document is not None and _NEEDED.get(document[KIND], _NOT_OURS) <= document.keys():
                newest[document[ID]] = SearchEntry(
                    object_id=document[ID],
                    sequence=transaction.sequence,
                    text=_search_text(document),
                )
    return list(newest.values())


def _search_text(document: Mapping[str, Any]) -> str | None:
    if document["content"] is None or _QUOTES.fullmatch(document.get("tool", "")):
        return None
    if document[KIND] == FILE:
        return f"{document['source'].get('path', '')}\n{document['content']}"
    args = json.dumps(document["args"], ensure_ascii=False)
    return f"{document['tool']} {args}\n{document['content']}"
