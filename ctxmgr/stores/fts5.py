"""A full-text index in a SQLite file of its own (FTS5). Derived: delete it, and it is made again.

Words are found whatever their case and accents, in names with dots, slashes and underscores, and
inside camelCase names. The text itself stays in the store: the index has only the words.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeVar

import apsw

from ctxmgr.core.search import Entry, Hit, Position
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.stores.sqlite_file import BUSY_WAIT_MS, translate
from ctxmgr.stores.sqlite_statements import statements

APPLICATION_ID: Final = 0x63747873
"""``ctxs``; in the header, so that a file of another program is never touched."""

LAYOUT: Final = 1
"""Another one in the file, older or newer, is made anew: nothing is lost."""

TEXT_CHARS_MAX: Final = 2_000_000
"""Characters of one object that are searched: its beginning."""

QUERY_WORDS_MAX: Final = 32
"""Words of a query that count: the first ones."""

SCANNED_MAX: Final = 10_000
"""Hits that are looked at for those that are wanted."""

_CAMEL: Final = re.compile(r"\b\w*[a-z][A-Z]\w*\b")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS: Final = re.compile(r"[^\W_](?:\S*[^\W_])?")

_QUOTE: Final = re.compile('["\0]')
"""What would end a string in FTS5's language."""

T = TypeVar("T")


class Fts5Index:
    """One index file. The contract is ``core.search.SearchIndex``."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._file = _identity(path)
        self._sql = statements("fts5.sql")
        self._lock = Lock()

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open the index, or begin a new one; ``Incorrect`` if it is some other file."""
        if not path.parent.is_dir():
            raise Incorrect(f"{path}: its folder does not exist")
        connection = await asyncio.to_thread(_opened, path)
        return cls(connection, path)

    def is_at(self, path: Path) -> bool:
        """Tell whether this is the index that lies there now: its file may have been replaced."""
        return self._file is not None and self._file == _identity(path)

    async def position(self) -> Position | None:
        return await self._run(self._position)

    async def put(
        self, entries: Iterable[Entry], *, after: Position | None, position: Position
    ) -> bool:
        given = tuple(entries)

        def write(connection: apsw.Connection) -> bool:
            with _transaction(connection):
                if self._position(connection) != after:
                    return False
                for entry in given:
                    self._put(connection, entry)
                connection.execute(self._sql["move"], (position.origin, position.sequence))
            return True

        return await self._run(write)

    async def search(
        self, query: str, *, limit: int, wanted: Callable[[str], bool] = lambda _: True
    ) -> Sequence[Hit]:
        asked = _matching(query)
        if not asked:
            return ()
        return await self._run(lambda connection: self._search(connection, asked, limit, wanted))

    async def clear(self) -> None:
        await self._run(lambda connection: _lay_out(connection, anew=True))

    async def close(self) -> None:
        await asyncio.to_thread(self._connection.close)

    def _position(self, connection: apsw.Connection) -> Position | None:
        row = connection.execute(self._sql["place"]).fetchone()
        return None if row is None else Position(*row)

    def _search(
        self, connection: apsw.Connection, asked: str, limit: int, wanted: Callable[[str], bool]
    ) -> list[Hit]:
        hits: list[Hit] = []
        rows = connection.execute(self._sql["search"], (asked,))
        for _, (object_id, sequence, score) in zip(range(SCANNED_MAX), rows, strict=False):
            if len(hits) >= limit:
                break
            if wanted(object_id):
                hits.append(Hit(object_id=object_id, sequence=sequence, score=score))
        return hits

    def _put(self, connection: apsw.Connection, entry: Entry) -> None:
        known = connection.execute(self._sql["entry"], (entry.object_id,)).fetchone()
        if known is not None:
            connection.execute(self._sql["remove_words"], (known[0],))
        named = (entry.object_id, entry.sequence)
        number: int = connection.execute(self._sql["add_entry"], named).get
        if entry.text is not None:
            text = entry.text[:TEXT_CHARS_MAX]
            connection.execute(self._sql["add_words"], (number, text, _parts(text)))

    async def _run(self, do: Callable[[apsw.Connection], T]) -> T:
        return await asyncio.to_thread(self._locked, do)

    def _locked(self, do: Callable[[apsw.Connection], T]) -> T:
        with self._lock:
            try:
                return do(self._connection)
            except apsw.Error as error:
                raise _ours(error, self._path) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Name the file of a path; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        connection = apsw.Connection(str(path.absolute()), flags=flags)
    except apsw.Error as error:
        raise _ours(error, path) from error
    try:
        connection.set_busy_timeout(BUSY_WAIT_MS)
        _check(connection, path)
        connection.execute("PRAGMA synchronous = normal")
        _lay_out(connection, anew=False)
    except apsw.Error as error:
        connection.close()
        raise _ours(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    application: int = connection.execute("PRAGMA application_id").get
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and tables:
        raise Incorrect(f"{path}: a SQLite file of another program; it was not touched")


def _lay_out(connection: apsw.Connection, *, anew: bool) -> None:
    """Make the tables; those of this layout stay, unless they are to be made anew."""
    sql = statements("fts5.sql")
    with _transaction(connection):
        if not anew and connection.execute("PRAGMA user_version").get == LAYOUT:
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


def _ours(error: apsw.Error, path: Path) -> Exception:
    found = translate(error, str(path))
    if isinstance(found, Corrupt):
        return Corrupt(f"{path}: the search index is damaged; delete the file, it is made again")
    return found


def _matching(query: str) -> str:
    """Return the query in FTS5's language: any of the words, each as it stands."""
    words = [_QUOTE.sub(" ", word) for word in _WORDS.findall(query)[:QUERY_WORDS_MAX]]
    parts = [part for word in words for part in _parts(word).split()]
    return " OR ".join(f'"{word}"' for word in dict.fromkeys([*words, *parts]))


def _parts(text: str) -> str:
    """Return the words that camelCase names are made of, each once."""
    names: dict[str, Any] = dict.fromkeys(_CAMEL.findall(text))
    return " ".join(dict.fromkeys(part for name in names for part in _PART.findall(name)))
