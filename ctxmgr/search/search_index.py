"""The index of a knowledge repository: documents by words and by vectors. Touches its file.

    index_file, remove_file ─► knowledge_fts, knowledge_meta ─► vectors follow ─► knowledge_vec
    search ─► best by BM25 ┐
              nearest      ┴─► merged 0.4 : 0.6 ─► paths with extracts

The file is derived data. It may be deleted at any time, by anybody: the next call creates it again
and, if the index has a source, fills it before it answers. A damaged file is moved aside, never
searched. Several processes may use one file: a write is one transaction, a search sees one moment,
and a full rebuild is invisible until it is done.

Text can be found as soon as ``index_file`` returns. Vectors are made in the background; they need
an embedder, and are kept in sqlite-vec's table, or in an ordinary one if it is not installed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import orjson

from ctxmgr.core.context.tokens import CL100K, named_vocabulary
from ctxmgr.core.model import cut_at_word
from ctxmgr.errors import Corrupt, CtxmgrError, Incorrect, Unavailable
from ctxmgr.search.documents import SearchDocument, SearchResult
from ctxmgr.search.hybrid import HybridWeights, merge_sides
from ctxmgr.search.terms import STOP_WORDS, words
from ctxmgr.stores.layer_file import LayerFile, LayerLayout, file_identity, rows_of
from ctxmgr.stores.sqlite.connection import statements
from ctxmgr.stores.vector_extension import load_vector_extension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctxmgr.core.store.contract import Instant
    from ctxmgr.search.documents import DocumentSource
    from ctxmgr.search.embedder import Embedder
    from ctxmgr.stores.layer_file import SqlConnection

EMBEDDED_CHARS_MAX: Final = 8_000
"""Characters of a document that are embedded, from its beginning."""

EMBEDDED_AT_ONCE: Final = 64
"""Documents whose vectors are made and stored at once."""

SNIPPET_TOKENS: Final = 48
"""Words of an extract."""

QUERY_TERMS_MAX: Final = 64
"""Words of a query that count, from its beginning."""

RESULTS_MAX: Final = 1_000
"""In the result of one search."""

CANDIDATES_FACTOR: Final = 2
"""Each side is asked for so many times the wanted results."""

VEC0, PLAIN = "vec0", "plain"

_LAYOUT: Final = LayerLayout(
    application_id=0x6374786B,  # ``ctxk``
    migrations=Path(__file__).parent / "sql" / "documents",
    what="knowledge index",
)
_SQL: Final = statements("knowledge_index.sql")
_log = logging.getLogger(__name__)

T = TypeVar("T")


class _State(NamedTuple):
    is_built: int
    embedder: str | None
    dimension: int | None
    form: str | None


class _OpenFile(NamedTuple):
    file: LayerFile
    identity: tuple[int, int]
    has_extension: bool


class SearchIndex:
    """An open index. May be used by several tasks."""

    def __init__(
        self,
        path: Path,
        *,
        embedder: Embedder | None,
        source: DocumentSource | None,
        weights: HybridWeights,
    ) -> None:
        self.path = path
        self._embedder, self._source, self._weights = embedder, source, weights
        self._open_file: _OpenFile | None = None
        self._retired: list[LayerFile] = []
        self._lock = RLock()
        self._embedding: asyncio.Task[None] | None = None
        self._embed_again = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        embedder: Embedder | None = None,
        source: DocumentSource | None = None,
        weights: HybridWeights | None = None,
    ) -> Self:
        """Open or create an index; an empty one is filled from ``source``.

        ``Incorrect`` if the file belongs to another program.
        """
        index = cls(path, embedder=embedder, source=source, weights=weights or HybridWeights())
        await index._run(lambda _: None)
        index._embed_later()
        return index

    async def index_file(
        self,
        path: str,
        content: str,
        category: str,
        *,
        modified: Instant | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        """Add a document, in place of an earlier one with the same path.

        ``modified`` is when the file changed; without it, now.
        """
        document = SearchDocument(
            path=path,
            text=content,
            category=category,
            modified=_now() if modified is None else modified,
            tags=tuple(tags),
        )
        await self._write(lambda connection: self._put(connection, [document]))

    async def remove_file(self, path: str) -> bool:
        """Remove a document; return whether there was one."""
        return await self._write(lambda connection: self._remove(connection, path))

    async def update(self, paths: Iterable[str]) -> None:
        """Read these paths from the source again, in one transaction; for instance after a commit.

        What no longer exists is removed.
        """
        source, wanted = self._required_source(), tuple(dict.fromkeys(paths))

        def change(connection: SqlConnection) -> None:
            for path in wanted:
                document = source.read(path)
                if document is None:
                    self._remove(connection, path)
                else:
                    self._put(connection, [document])

        await self._write(change)

    async def refresh(self) -> int:
        """Index what differs from the source; return the number of documents that did."""
        source = self._required_source()

        def change(connection: SqlConnection) -> int:
            known = {row[0]: tuple(row[1:]) for row in connection.execute(_SQL["documents"])}
            found: set[str] = set()
            changed = 0
            for document in _all_documents(source):
                found.add(document.path)
                if known.get(document.path) != _description(document):
                    self._put(connection, [document])
                    changed += 1
            for path in known.keys() - found:
                changed += self._remove(connection, path)
            return changed

        return await self._write(change)

    async def rebuild_full(self, documents: Iterable[SearchDocument] | None = None) -> int:
        """Index everything again, from the source if no documents are given; return how many.

        Searches see the old index until it is done. Vectors of another embedder are replaced.
        """
        given = None if documents is None else tuple(documents)
        if given is None:
            self._required_source()
        return await self._write(lambda connection: self._rebuild(connection, given))

    async def search(
        self, query: str, limit: int = 10, category: str | None = None
    ) -> list[SearchResult]:
        """Return the best documents, best first; ties by path."""
        if not 1 <= limit <= RESULTS_MAX:
            raise Incorrect(f"limit is {limit}; pass 1 to {RESULTS_MAX}")

        def find(open_file: _OpenFile) -> list[SearchResult]:
            vector = self._query_vector(query)
            with open_file.file.reading() as connection:
                return self._search(connection, query, vector, limit, category)

        return await self._run(find)

    async def embedded(self) -> None:
        """Wait until every document has its vector; raises what the embedder raised."""
        self._embed_later()
        if self._embedding is not None:
            await asyncio.shield(self._embedding)

    async def close(self) -> None:
        if self._embedding is not None:
            self._embedding.cancel()
            with suppress(asyncio.CancelledError, CtxmgrError):
                await self._embedding
        with self._lock:
            files = [*self._retired, *([self._open_file.file] if self._open_file else [])]
            self._open_file, self._retired = None, []
        for file in files:
            await asyncio.to_thread(file.close)

    # Searching

    def _search(
        self,
        connection: SqlConnection,
        query: str,
        vector: bytes | None,
        limit: int,
        category: str | None,
    ) -> list[SearchResult]:
        candidates = CANDIDATES_FACTOR * limit
        found: dict[str, SearchResult] = {}
        expression = match_expression(query)
        if expression:
            bindings = (expression, category, candidates, SNIPPET_TOKENS)
            for path, kind, score, snippet in connection.execute(_SQL["text_matches"], bindings):
                found[path] = SearchResult(
                    path=path, snippet=snippet.strip(), score=score, category=kind
                )
        bm25 = {path: result.score for path, result in found.items()}
        distances = self._nearest(connection, vector, candidates, category)
        results = []
        for path, score in merge_sides(bm25, distances, self._weights)[:limit]:
            if path in found:
                kind, snippet = found[path].category, found[path].snippet
            else:
                ((kind, text),) = rows_of(connection, _SQL["text"], (path,))
                snippet = beginning(text)
            results.append(SearchResult(path=path, snippet=snippet, score=score, category=kind))
        return results

    def _query_vector(self, query: str) -> bytes | None:
        if self._embedder is None:
            return None
        try:
            rows = self._embedder.embed([_storable(_embedded(query))]).rows
        except Unavailable as error:
            _log.warning("searched by words alone, since the embedder is unavailable: %s", error)
            return None
        # A query without a known word has no direction, and is near to nothing.
        return _stored_vector(rows[0]) if rows[0].any() else None

    def _nearest(
        self, connection: SqlConnection, vector: bytes | None, count: int, category: str | None
    ) -> dict[str, float] | None:
        state = _state(connection)
        if vector is None or state.form is None:
            return None
        self._require_own_vectors(state)
        if state.form == PLAIN:
            return _plain_nearest(connection, vector, count, category)
        if category is None:
            rows = connection.execute(_SQL["nearest"], (vector, count))
        else:
            rows = connection.execute(_SQL["nearest_in_category"], (vector, count, category))
        return {path: distance for path, distance in rows if distance is not None}

    def _require_own_vectors(self, state: _State) -> None:
        embedder = self._embedder
        assert embedder is not None
        if (state.embedder, state.dimension) != (embedder.name, embedder.dimension):
            raise Incorrect(
                f"{self.path} has vectors of {state.embedder} ({state.dimension} numbers), not of "
                f"{embedder.name} ({embedder.dimension}): rebuild the index"
            )

    # Indexing

    def _put(self, connection: SqlConnection, documents: Iterable[SearchDocument]) -> None:
        count = named_vocabulary(CL100K).count
        for document in documents:
            self._remove(connection, document.path)
            text, path = _storable(document.text), _storable(document.path)
            connection.execute(_SQL["add_text"], (path, text, document.category))
            row = connection.last_insert_rowid()
            category, modified, tags, content_hash = _description(document)
            values = (
                path,
                category,
                modified,
                count(text),
                len(text.splitlines()),
                tags,
                _now(),
                content_hash,
                row,
            )
            connection.execute(_SQL["add_document"], values)

    def _remove(self, connection: SqlConnection, path: str) -> bool:
        path = _storable(path)
        row = connection.execute(_SQL["document_row"], (path,)).get
        if row is None:
            return False
        connection.execute(_SQL["remove_text"], (row,))
        connection.execute(_SQL["remove_document"], (path,))
        if _state(connection).form is not None:
            connection.execute(_SQL["remove_vector"], (path,))
        return True

    def _rebuild(
        self, connection: SqlConnection, documents: Sequence[SearchDocument] | None
    ) -> int:
        # The files are read under the write lock: what changes later is indexed later.
        if documents is None:
            documents = list(_all_documents(self._required_source()))
        connection.execute(_SQL["remove_documents"])
        connection.execute(_SQL["drop_vectors"])
        connection.execute(_SQL["set_vectors"], (None, None, None))
        self._put(connection, documents)
        connection.execute(_SQL["set_built"])
        return len({document.path for document in documents})

    def _required_source(self) -> DocumentSource:
        if self._source is None:
            raise Incorrect(f"{self.path} was opened without a source; pass one to open")
        return self._source

    # Vectors

    def _embed_later(self) -> None:
        if self._embedder is None:
            return
        self._embed_again = True
        if self._embedding is None or self._embedding.done():
            self._embedding = asyncio.create_task(self._embed_all(self._embedder))
            self._embedding.add_done_callback(_log_failure)

    async def _embed_all(self, embedder: Embedder) -> None:
        while self._embed_again:
            self._embed_again = False
            while await self._run(lambda open_file: self._embed_some(open_file, embedder)):
                pass

    def _embed_some(self, open_file: _OpenFile, embedder: Embedder) -> bool:
        """Embed some documents outside of a transaction; return whether there were any."""
        with open_file.file.reading() as connection:
            bindings = (EMBEDDED_CHARS_MAX + 1, EMBEDDED_AT_ONCE)
            pending = rows_of(connection, _SQL["not_embedded"], bindings)
            state = _state(connection)
        if not pending:
            return False
        if state.form is not None:
            self._require_own_vectors(state)
        rows = embedder.embed([_embedded(text) for *_, text in pending]).rows
        with open_file.file.writing() as connection:
            if _state(connection).form is None:
                _create_vectors(connection, embedder, VEC0 if open_file.has_extension else PLAIN)
            self._require_own_vectors(_state(connection))
            for (path, category, content_hash, _), vector in zip(pending, rows, strict=True):
                unchanged = connection.execute(_SQL["embedded"], (path, content_hash)).fetchall()
                # A text without words has no direction. It is not near to anything.
                if unchanged and vector.any():
                    connection.execute(_SQL["remove_vector"], (path,))
                    values = (path, category, _stored_vector(vector))
                    connection.execute(_SQL["add_vector"], values)
        return True

    # The file

    async def _write(self, change: Callable[[SqlConnection], T]) -> T:
        def run(open_file: _OpenFile) -> T:
            with open_file.file.writing() as connection:
                return change(connection)

        result = await self._run(run)
        self._embed_later()
        return result

    async def _run(self, work: Callable[[_OpenFile], T]) -> T:
        """Run in a thread; a damaged file is replaced once and the work repeated."""

        def run() -> T:
            open_file = self._current()
            try:
                return work(open_file)
            except Corrupt as error:
                self._replace(open_file, error)
                return work(self._current())

        return await asyncio.to_thread(run)

    def _current(self) -> _OpenFile:
        """Return the file, which is opened again if it was deleted or replaced."""
        with self._lock:
            known = self._open_file
            if known is not None and known.identity == file_identity(self.path):
                return known
            if known is not None:
                self._retired.append(known.file)
            try:
                self._open_file = self._opened()
            except Corrupt as error:
                self._move_aside(error)
                self._open_file = self._opened()
            return self._open_file

    def _opened(self) -> _OpenFile:
        if not self.path.exists():
            _remove_logs(self.path)  # of a deleted file; they do not belong to a new one
        loaded: list[bool] = []
        file = LayerFile.open(
            self.path, _LAYOUT, prepare=lambda c: loaded.append(load_vector_extension(c))
        )
        try:
            with file.reading() as connection:
                state = _state(connection)
            _require_extension(state, is_loaded=all(loaded))
            if self._source is not None and not state.is_built:
                with file.writing() as connection:
                    if not _state(connection).is_built:  # else another process has filled it
                        self._rebuild(connection, None)
        except BaseException:
            file.close()
            raise
        identity = file_identity(self.path)
        assert identity is not None
        return _OpenFile(file, identity, all(loaded))

    def _replace(self, damaged: _OpenFile, error: Corrupt) -> None:
        with self._lock:
            if self._open_file is damaged and file_identity(self.path) == damaged.identity:
                self._retired.append(damaged.file)
                self._open_file = None
                self._move_aside(error)

    def _move_aside(self, error: Corrupt) -> None:
        if self._source is None:
            message = f"{self.path}: the index cannot be used ({error}); delete the file"
            raise Corrupt(message) from error
        aside = self.path.with_name(f"{self.path.name}.damaged")
        _log.warning("%s is rebuilt, and moved to %s: %s", self.path, aside.name, error)
        self.path.replace(aside)
        _remove_logs(self.path)


def match_expression(query: str) -> str:
    """Return an FTS5 expression that matches any word of the query; empty if there is none.

    Words are quoted, so that no query has a syntax. Stop words count only if there is nothing else.
    """
    asked = list(dict.fromkeys(words(_storable(query))))
    kept = [word for word in asked if word not in STOP_WORDS] or asked
    return " OR ".join(f'"{word}"' for word in kept[:QUERY_TERMS_MAX])


def beginning(text: str) -> str:
    """Return the first words of a text, for a document without a match to show."""
    found = text.split(maxsplit=SNIPPET_TOKENS)
    return " ".join(found[:SNIPPET_TOKENS]) + ("…" if len(found) > SNIPPET_TOKENS else "")


def _all_documents(source: DocumentSource) -> Iterable[SearchDocument]:
    for path in source.paths():
        document = source.read(path)
        if document is not None:  # else it was deleted meanwhile
            yield document


def _description(document: SearchDocument) -> tuple[str, int, str, str]:
    """Return what has to be indexed again when it changes."""
    content = sha256(_storable(document.text).encode()).hexdigest()
    tags = _storable(orjson.dumps([_storable(tag) for tag in document.tags]).decode())
    return _storable(document.category), document.modified, tags, content


def _embedded(text: str) -> str:
    """Return what is embedded: a provider gets it masked, which half a secret would not be."""
    return cut_at_word(text, chars_max=EMBEDDED_CHARS_MAX)


def _storable(text: str) -> str:
    """Replace lone surrogates, which SQLite cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _state(connection: SqlConnection) -> _State:
    row = connection.execute(_SQL["state"]).fetchone()
    if row is None:
        raise Corrupt("the knowledge index has lost its state")
    return _State(*row)


def _require_extension(state: _State, *, is_loaded: bool) -> None:
    if state.form == VEC0 and not is_loaded:
        raise Corrupt("its vectors need sqlite-vec, which is not installed")


def _create_vectors(connection: SqlConnection, embedder: Embedder, form: str) -> None:
    if form == VEC0:
        connection.execute(
            "CREATE VIRTUAL TABLE knowledge_vec USING vec0 (path TEXT PRIMARY KEY, category TEXT, "
            f"embedding FLOAT[{int(embedder.dimension)}] distance_metric=cosine)"
        )
    else:
        connection.execute(
            "CREATE TABLE knowledge_vec (path TEXT PRIMARY KEY, category TEXT NOT NULL, "
            "embedding BLOB NOT NULL) STRICT"
        )
    connection.execute(_SQL["set_vectors"], (embedder.name, embedder.dimension, form))


def _stored_vector(vector: Any) -> bytes:
    return bytes(vector.astype("<f4").tobytes())


def _plain_nearest(
    connection: SqlConnection, vector: bytes, count: int, category: str | None
) -> dict[str, float]:
    """Compare all vectors: what sqlite-vec does, without it."""
    import numpy as np  # noqa: PLC0415 -- an embedder has it installed

    rows = rows_of(connection, _SQL["vectors"], (category,))
    if not rows:
        return {}
    if any(len(stored) != len(vector) for _, stored in rows):
        raise Corrupt("the knowledge index has a vector of another length")
    stored = np.frombuffer(b"".join(body for _, body in rows), dtype="<f4")
    distances = 1 - stored.reshape(len(rows), -1) @ np.frombuffer(vector, dtype="<f4")
    order = np.argsort(distances, kind="stable")[:count]
    return {rows[place][0]: float(distances[place]) for place in order}


def _remove_logs(path: Path) -> None:
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _now() -> Instant:
    return time.time_ns() // 1_000_000


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("documents have no vectors yet: %s", error)
