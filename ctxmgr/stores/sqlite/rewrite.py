"""Replace stored documents for good, and remove every byte that only they used. Touches the file.

    1  the journal leaves write-ahead mode, which SQLite does only for the sole connection
    2  in one transaction: bodies are replaced; deltas that were based on them become whole bodies;
       the indexes get the new values
    3  pieces, lists, items and names that nothing refers to any more are deleted
    4  VACUUM writes the file anew, without the freed pages

Nothing that is committed ever changes, and open stores rely on that: they remember pieces, lists
and bases of deltas. So a store is rewritten only while nobody else has it open.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import apsw
import orjson

from ctxmgr.core.store.contract import Rewritten
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import NotFound, Unavailable
from ctxmgr.stores.sqlite.body_format import (
    DELTA,
    FORMAT,
    PLAIN,
    SPACE,
    cell_numbers,
    decode_packed,
    dumps,
    encode_whole,
)
from ctxmgr.stores.sqlite.body_reader import LIST_BITS, BodyReader
from ctxmgr.stores.sqlite.connection import SqliteAddress, connect, statements
from ctxmgr.stores.sqlite.fields import Fields, load, sort_key, text_order
from ctxmgr.stores.sqlite.reader import text_key
from ctxmgr.stores.sqlite.timeline import wid_of

DELETE_ROWS: Final = 500
"""Rows of one DELETE; SQLite binds at most 32,766 values."""


def rewrite(address: SqliteAddress, documents: Mapping[tuple[str, int], Document]) -> Rewritten:
    """Replace the documents of versions, by object and sequence, in a file that nobody has open."""
    connection = connect(address, durability="full", writes=True)
    try:
        before = _file_bytes(connection)
        _leave_wal(connection, address)
        try:
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            connection.execute("BEGIN EXCLUSIVE")
            with connection:  # a savepoint: an error undoes everything
                _Rewriter(connection, address.url).run(documents)
            connection.execute("COMMIT")
            connection.execute("VACUUM")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        return Rewritten(
            versions=len(documents), bytes_before=before, bytes_after=_file_bytes(connection)
        )
    finally:
        connection.close()


def _leave_wal(connection: apsw.Connection, address: SqliteAddress) -> None:
    """Empty the write-ahead log into the file and remove it; fails if others have the file open."""
    try:
        mode = connection.execute("PRAGMA journal_mode = DELETE").get
    except apsw.BusyError as error:
        raise _open_elsewhere(address) from error
    if mode != "delete":
        raise _open_elsewhere(address)


def _open_elsewhere(address: SqliteAddress) -> Unavailable:
    return Unavailable(f"{address.url} is open elsewhere, and nothing was removed: close it there")


def _file_bytes(connection: apsw.Connection) -> int:
    pages: int = connection.execute("PRAGMA page_count").get
    size: int = connection.execute("PRAGMA page_size").get
    return pages * size


class _Rewriter:
    def __init__(self, connection: apsw.Connection, url: str) -> None:
        self._execute = connection.execute
        self._sql = statements()
        self._reader = BodyReader(connection.execute, url=url)
        self._fields: Fields = load(connection)

    def run(self, documents: Mapping[tuple[str, int], Document]) -> None:
        replaced: dict[int, tuple[int, str, Document]] = {}
        for (object_id, sequence), document in documents.items():
            nid, wid = self._write_of(object_id, sequence)
            replaced[wid] = (nid, object_id, document)
        for nid in {nid for nid, _, _ in replaced.values()}:
            self._make_whole(nid, frozenset(replaced))
        for wid, (nid, object_id, document) in replaced.items():
            self._execute(self._sql["replace_body"], (FORMAT, dumps(document), wid))
            self._index(nid, wid, object_id, document)
        _Sweep(self._execute, self._reader).run()

    def _write_of(self, object_id: str, sequence: int) -> tuple[int, int]:
        nid: int | None = self._execute(self._sql["find_name"], (text_key(object_id),)).get
        bounds = (nid, wid_of(sequence), wid_of(sequence + 1))
        wid: int | None = None if nid is None else self._execute(self._sql["put_in"], bounds).get
        if nid is None or wid is None:
            raise NotFound(f"{object_id} has no version of transaction {sequence}")
        return nid, wid

    def _make_whole(self, nid: int, replaced: frozenset[int]) -> None:
        """Write the deltas of an object that are based on a replaced body as whole bodies."""
        puts: list[Any] = self._execute(self._sql["puts_of"], (nid,)).fetchall()
        for wid, fmt, body in puts:
            if body[0] == DELTA and wid not in replaced and decode_packed(body).base in replaced:
                exact, cells = self._reader.cells(fmt, body, f"write {wid}")
                whole = encode_whole(cells, exact=exact)
                self._execute(self._sql["replace_body"], (FORMAT, whole, wid))

    def _index(self, nid: int, wid: int, object_id: str, document: Document) -> None:
        """Add the new values to the indexes; values that only the old version had stay in ``ever``,
        which may have too many.
        """
        place, values = text_order(object_id), self._fields.values(document)
        for fid, value in values:
            self._execute(self._sql["insert_ever"], (fid, sort_key(value), place, nid))
        head: Any = self._execute(self._sql["head"], (nid,)).get
        if head is None or head[2] != wid:
            return
        for fid, value in orjson.loads(head[3]):
            self._execute(self._sql["delete_present"], (fid, sort_key(value), place))
        for fid, value in values:
            self._execute(self._sql["insert_present"], (fid, sort_key(value), place, nid))
        self._execute(self._sql["save_fields"], (orjson.dumps(values).decode(), nid))


@dataclass(slots=True)
class _Sweep:
    """Finds what bodies refer to, and deletes everything else."""

    execute: Callable[..., Any]
    reader: BodyReader
    pieces: set[int] = field(default_factory=set)
    names: set[int] = field(default_factory=set)
    lists: dict[int, int] = field(default_factory=dict)
    """List → how many of its slots, from the first, are in use."""
    used_lists: set[int] = field(default_factory=set)
    """Also those whose items all belong to a parent."""

    def run(self) -> None:
        sql = statements()
        for _, fmt, body in self.execute(sql["all_bodies"]):
            if fmt == FORMAT and body[0] not in {PLAIN, SPACE}:
                for _, cell in decode_packed(body).cells:
                    self._mark(cell)
        self._delete("item", "slot", self._unused_items())
        self._delete("list", "lid", self._rows("all_lists", self.used_lists))
        self._delete("piece", "pid", self._rows("piece_ids", self.pieces))
        for row in self.execute(sql["used_names"]):
            self.names.add(row[0])
        self._delete("name", "nid", self._rows("name_ids", self.names))

    def _mark(self, cell: bytes) -> None:
        match cell[:1]:
            case b"T":
                self.pieces.add(cell_numbers(cell)[0])
            case b"W":
                self.names.update(cell_numbers(cell)[1:])
            case b"L":
                lid, length = cell_numbers(cell)
                if self.lists.get(lid, 0) < length or lid not in self.used_lists:
                    self._mark_list(lid, length)

    def _mark_list(self, lid: int, length: int) -> None:
        self.used_lists.add(lid)
        for owner, _, end in self.reader.segments(lid, length):
            self.used_lists.add(owner)
            self.lists[owner] = max(end, self.lists.get(owner, 0))
        parent = self.execute(statements()["list"], (lid,)).get
        while parent and parent[0] is not None:  # a list is found through all that it continues
            self.used_lists.add(parent[0])
            parent = self.execute(statements()["list"], (parent[0],)).get

    def _unused_items(self) -> Iterator[int]:
        for slot, number in self.execute(statements()["all_items"]).fetchall():
            lid, position = slot >> LIST_BITS, slot & ((1 << LIST_BITS) - 1)
            if position >= self.lists.get(lid, 0):
                yield slot
            elif number & 1:
                self.pieces.add(number >> 1)
            else:
                self.names.add(number >> 1)

    def _rows(self, statement: str, used: set[int]) -> Iterator[int]:
        for (number,) in self.execute(statements()[statement]).fetchall():
            if number not in used:
                yield number

    def _delete(self, table: str, column: str, numbers: Iterator[int]) -> None:
        rows = list(numbers)
        for start in range(0, len(rows), DELETE_ROWS):
            batch = rows[start : start + DELETE_ROWS]
            places = ", ".join("?" * len(batch))
            text = statements()["delete_rows"].format(table=table, column=column, places=places)
            self.execute(text, batch)
