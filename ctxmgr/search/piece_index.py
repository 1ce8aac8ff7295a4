"""The index of a store's objects by pieces of their text. Touches its file; needs NumPy.

Names in code are searched by their parts: ``openConnection`` is also found as ``connection``, and
``café`` as ``cafe``. The text itself stays in the store; the file has only words and places. There
are no vectors: what is recalled has at least one word of the query.
"""

import asyncio
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Self

import orjson

from ctxmgr.core.store.search_index import IndexPosition, SearchEntry, SearchHit
from ctxmgr.errors import Corrupt
from ctxmgr.search.pieces import SearchSource
from ctxmgr.search.text_index import TextIndex
from ctxmgr.stores import fts5
from ctxmgr.stores.layer_file import application_of, file_identity, remove_file

OBJECT: Final = "object"

_CAMEL: Final = re.compile(r"\b\w*[a-z][A-Z]\w*\b")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class PieceIndex:
    """An ``ObjectIndex`` with the ranking of ``ctxmgr.search``."""

    def __init__(self, index: TextIndex, path: Path) -> None:
        self._index, self._path = index, path
        self._file = file_identity(path)

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open or create an index; a damaged one, or one of FTS5, is replaced."""
        if await asyncio.to_thread(application_of, path) == fts5.APPLICATION_ID:
            await asyncio.to_thread(remove_file, path)
        try:
            index = await _open(path)
        except Corrupt:
            if await asyncio.to_thread(application_of, path) != fts5.PIECES_ID:
                raise
            await asyncio.to_thread(remove_file, path)
            index = await _open(path)
        return cls(index, path)

    def is_at(self, path: Path) -> bool:
        """Whether this index is the file at that path, which may have been replaced."""
        return self._file is not None and self._file == file_identity(path)

    async def position(self) -> IndexPosition | None:
        return _position(await self._index.mark())

    async def put(
        self,
        entries: Iterable[SearchEntry],
        *,
        after: IndexPosition | None,
        position: IndexPosition,
    ) -> bool:
        entries = tuple(entries)

        def sources() -> list[SearchSource]:
            return [
                SearchSource.from_text(
                    searched_text(entry.text), source_id=entry.object_id, category=OBJECT
                )
                for entry in entries
                if entry.text is not None
            ]

        return await self._index.follow(
            await asyncio.to_thread(sources),
            removed=[entry.object_id for entry in entries if entry.text is None],
            after=None if after is None else _mark(after),
            mark=_mark(position),
        )

    async def search(
        self, query: str, *, limit: int, wanted: Callable[[str], bool] = lambda _: True
    ) -> Sequence[SearchHit]:
        found = await self._index.search(searched_text(query), limit=limit, wanted=wanted)
        return [SearchHit(object_id=result.path, score=result.score) for result in found]

    async def clear(self) -> None:
        try:
            await self._index.clear()
        except Corrupt:
            self._index.close()
            await asyncio.to_thread(remove_file, self._path)
            self._index = await _open(self._path)
            self._file = file_identity(self._path)

    async def close(self) -> None:
        await asyncio.to_thread(self._index.close)


def searched_text(text: str) -> str:
    """Return a text without accents, and with the parts of camelCase names after each."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return _CAMEL.sub(lambda name: f"{name[0]} {' '.join(_PART.findall(name[0]))}", text)


async def _open(path: Path) -> TextIndex:
    return await TextIndex.open(path, keeps_text=False)


def _mark(position: IndexPosition) -> str:
    return orjson.dumps([position.origin, position.sequence]).decode()


def _position(mark: str | None) -> IndexPosition | None:
    if mark is None:
        return None
    try:
        origin, sequence = orjson.loads(mark)
        return IndexPosition(str(origin), int(sequence))
    except ValueError as error:
        raise Corrupt(f"the search index has a position that cannot be read: {mark!r}") from error
