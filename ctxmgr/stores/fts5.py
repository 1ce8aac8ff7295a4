"""A full-text index in a separate SQLite file (FTS5). Touches the file.

The index is derived data: if the file is deleted, it is rebuilt. Words match whatever their case
and accents, in names with dots, slashes and underscores, and inside camelCase names. The text
itself stays in the store: the index has only the words.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeVar

import apsw

from ctxmgr.core.private_files import make_private_file
from ctxmgr.core.store.search_index import IndexPosition, SearchEntry, SearchHit
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.stores.layer_file import application_of, file_identity, remove_file
from ctxmgr.stores.sqlite.connection import BUSY_WAIT_MS, statements, translate_error

APPLICATION_ID: Final = 0x63747873
"""``ctxs`` in the file header; a file with another id is never changed."""

PIECES_ID: Final = 0x63747866
"""``ctxf``: the index that is made where NumPy is installed. Each replaces a file of the other."""

LAYOUT: Final = 1
"""A file with another layout, older or newer, is emptied and filled again."""

TEXT_CHARS_MAX: Final = 2_000_000
"""Characters of an object that are indexed, from its beginning."""

QUERY_WORDS_MAX: Final = 32
"""Words of a query that are searched for, from its beginning."""

SCANNED_MAX: Final = 10_000
"""Hits that are tested for being wanted."""

_CAMEL: Final = re.compile(r"\b\w*[a-z][A-Z]\w*\b")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS: Final = re.compile(r"[^\W_](?:\S*[^\W_])?")

_QUOTE: Final = re.compile('["\0]')
"""Characters that would end a string in FTS5's query syntax."""

T = TypeVar("T")


class Fts5Index:
    """A ``ObjectIndex`` in one file."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._file = file_identity(path)
        self._sql = statements("fts5.sql")
        self._lock = Lock()

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open or create the index; ``Incorrect`` if the file is another program's."""
        if not path.parent.is_dir():
            raise Incorrect(f"{path}: the folder does not exist; create it first")
        if await asyncio.to_thread(application_of, path) == PIECES_ID:
            await asyncio.to_thread(remove_file, path)
        connection = await asyncio.to_thread(_connect, path)
        return cls(connection, path)

    def is_at(self, path: Path) -> bool:
        """Whether this index is the file at that path, which may have been replaced."""
        return self._file is not None and self._file == file_identity(path)

    async def position(self) -> IndexPosition | None:
        return await self._run(self._position)

    async def put(
        self,
        entries: Iterable[SearchEntry],
        *,
        after: IndexPosition | None,
        position: IndexPosition,
    ) -> bool:
        entries = tuple(entries)

        def write(connection: apsw.Connection) -> bool:
            with _transaction(connection):
                if self._position(connection) != after:
                    return False
                for entry in entries:
                    self._put(connection, entry)
                connection.execute(self._sql["move"], (position.origin, position.sequence))
            return True

        return await self._run(write)

    async def search(
        self, query: str, *, limit: int, wanted: Callable[[str], bool] = lambda _: True
    ) -> Sequence[SearchHit]:
        expression = _match_expression(query)
        if not expression:
            return ()

        def search(connection: apsw.Connection) -> list[SearchHit]:
            hits: list[SearchHit] = []
            rows = connection.execute(self._sql["search"], (expression,))
            for _, (object_id, score) in zip(range(SCANNED_MAX), rows, strict=False):
                if len(hits) >= limit:
                    break
                if wanted(object_id):
                    hits.append(SearchHit(object_id=object_id, score=score))
            return hits

        return await self._run(search)

    async def clear(self) -> None:
        await self._run(lambda connection: _create_tables(connection, replace=True))

    async def close(self) -> None:
        await asyncio.to_thread(self._connection.close)

    def _position(self, connection: apsw.Connection) -> IndexPosition | None:
        row = connection.execute(self._sql["place"]).fetchone()
        return None if row is None else IndexPosition(*row)

    def _put(self, connection: apsw.Connection, entry: SearchEntry) -> None:
        row = connection.execute(self._sql["entry"], (entry.object_id,)).fetchone()
        if row is not None:
            connection.execute(self._sql["remove_words"], (row[0],))
        bindings = (entry.object_id, entry.sequence)
        rowid: int = connection.execute(self._sql["add_entry"], bindings).get
        if entry.text is not None:
            text = entry.text[:TEXT_CHARS_MAX]
            connection.execute(self._sql["add_words"], (rowid, text, _name_parts(text)))

    async def _run(self, query: Callable[[apsw.Connection], T]) -> T:
        """Run a query in a thread, one at a time."""

        def run() -> T:
            with self._lock:
                try:
                    return query(self._connection)
                except apsw.Error as error:
                    raise _translate_error(error, self._path) from error

        return await asyncio.to_thread(run)


def _connect(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with suppress(OSError):  # SQLite says what is wrong
        make_private_file(path)
    try:
        connection = apsw.Connection(str(path.absolute()), flags=flags)
    except apsw.Error as error:
        raise _translate_error(error, path) from error
    try:
        connection.set_busy_timeout(BUSY_WAIT_MS)
        _check_application(connection, path)
        connection.execute("PRAGMA synchronous = normal")
        _create_tables(connection, replace=False)
    except apsw.Error as error:
        connection.close()
        raise _translate_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check_application(connection: apsw.Connection, path: Path) -> None:
    application: int = connection.execute("PRAGMA application_id").get
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and tables:
        raise Incorrect(f"{path}: a SQLite file of another program; it was not changed")


def _create_tables(connection: apsw.Connection, *, replace: bool) -> None:
    """Create empty tables; those of the current layout are kept unless ``replace`` is set."""
    sql = statements("fts5.sql")
    with _transaction(connection):
        if not replace and connection.execute("PRAGMA user_version").get == LAYOUT:
            return
        connection.execute(sql["remove_layout"])
        connection.execute(sql["layout"])
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _translate_error(error: apsw.Error, path: Path) -> Exception:
    translated = translate_error(error, str(path))
    if isinstance(translated, Corrupt):
        return Corrupt(f"{path}: the search index is damaged; delete the file to rebuild it")
    return translated


def _match_expression(query: str) -> str:
    """Return an FTS5 expression that matches any word of the query, each quoted."""
    words = [_QUOTE.sub(" ", word) for word in _WORDS.findall(query)[:QUERY_WORDS_MAX]]
    parts = [part for word in words for part in _name_parts(word).split()]
    return " OR ".join(f'"{word}"' for word in dict.fromkeys([*words, *parts]))


def _name_parts(text: str) -> str:
    """Return the words inside camelCase names, without duplicates."""
    names: dict[str, Any] = dict.fromkeys(_CAMEL.findall(text))
    return " ".join(dict.fromkeys(part for name in names for part in _PART.findall(name)))
