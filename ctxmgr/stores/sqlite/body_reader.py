"""Reads stored bodies: cells become JSON, JSON becomes documents. Touches the database.

Pieces and lists never change once they are written, so no snapshot is needed. A reference that
leads nowhere is ``Corrupt``.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson

from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Corrupt, NewerFormat
from ctxmgr.stores.sqlite.body_format import (
    FORMAT,
    PLAIN,
    SPACE,
    Packed,
    cell_numbers,
    decode_packed,
    dumps,
    inline_json,
    join_fields,
    loads,
)
from ctxmgr.stores.sqlite.connection import statements

LIST_BITS: Final = 24
"""A slot's lower bits count the items of one list: 16 million, more than a document holds."""

REFERENCE_BYTES: Final = 8
"""Counted for an item that lists of the same page share in memory."""

LINEAGE_MAX: Final = 16
"""Lists in a chain of continued lists. A longer chain is copied into a new list, which bounds the
cost of reading."""


class BodyReader:
    """Reads bodies through one connection."""

    def __init__(self, execute: Callable[..., Any], *, url: str) -> None:
        self._execute = execute
        self._sql = statements()
        self._url = url
        self._shared: dict[int, list[Any]] | None = None
        """Decoded items of each list on the current page; None: no page is being read."""
        self.bytes_read = 0
        """Bytes of JSON decoded for the current page."""

    @contextmanager
    def page(self) -> Iterator[None]:
        """Let the documents of a page share the items of their lists.

        Versions of a long chat repeat the same turns: each turn is read and decoded once.
        """
        self._shared, self.bytes_read = {}, 0
        try:
            yield
        finally:
            self._shared = None

    def stored(self, wid: int, object_id: str) -> tuple[int, bytes]:
        """Return the format and the body of a put."""
        row = self._execute(self._sql["body"], (wid,)).get
        if row is None or row[1] is None:
            raise self._corrupt(object_id, f"write {wid} is missing")
        fmt, body = row
        return fmt, body

    def document(
        self, fmt: int, body: bytes, object_id: str, *, without: frozenset[str] = frozenset()
    ) -> Document:
        """Return the document, without some of its fields."""
        if fmt == FORMAT and body[0] == PLAIN:  # fast path for most documents
            self.bytes_read += len(body)
            try:
                plain: Document = orjson.loads(body)
            except ValueError as error:
                raise self._corrupt(object_id, error) from error
            return (
                {name: plain[name] for name in plain if name not in without} if without else plain
            )
        return self._joined_document(fmt, body, object_id, without)

    def values(self, fmt: int, body: bytes, object_id: str, names: Collection[str]) -> Document:
        """Return at least these fields of the document, reading no other separate parts."""
        if fmt == FORMAT and body[0] in {PLAIN, SPACE}:
            return self.document(fmt, body, object_id)
        exact, cells = self.cells(fmt, body, object_id)
        wanted = [(name, self.raw(cell, object_id)) for name, cell in cells if name in names]
        values: Document = loads(join_fields(wanted, exact=exact))
        return values

    def cells(self, fmt: int, body: bytes, object_id: str) -> tuple[bool, list[tuple[str, bytes]]]:
        """Return all fields of a packed body as (name, cell), including those of its base."""
        if fmt > FORMAT:
            raise NewerFormat(f"{self._url}: {object_id}", fmt, FORMAT)
        packed = self._unpack(body, object_id)
        if packed.base is None:
            return packed.exact, [(str(name), cell) for name, cell in packed.cells]
        whole = self._unpack(self.stored(packed.base, object_id)[1], object_id)
        if whole.base is not None:
            raise self._corrupt(object_id, f"its base, write {packed.base}, is a delta")
        cells = [(str(name), cell) for name, cell in whole.cells]
        for position, cell in packed.cells:
            cells[int(position)] = (cells[int(position)][0], cell)
        return packed.exact, cells

    def base(self, wid: int, body: bytes, object_id: str) -> tuple[int, list[tuple[str, bytes]]]:
        """Return the write that the delta of a next version can be based on, and its cells."""
        base = self._unpack(body, object_id).base
        if base is not None:
            wid, (_, body) = base, self.stored(base, object_id)
        return wid, self.cells(FORMAT, body, object_id)[1]

    def raw(self, cell: bytes, object_id: str) -> bytes:
        """Return the JSON of a cell."""
        match cell[:1]:
            case b"J":
                return inline_json(cell)
            case b"H":
                return b'"' + cell[1:].hex().encode() + b'"'
            case b"T":
                pid = cell_numbers(cell)[0]
                raw: bytes | None = self._execute(self._sql["piece"], (pid,)).get
                if raw is None:
                    raise self._corrupt(object_id, f"piece {pid} is missing")
                return raw
            case b"L":
                lid, length = cell_numbers(cell)
                rows = self._rows(lid, length, object_id)
                texts = [text.hex() if isinstance(text, bytes) else text for text, _ in rows]
                if None not in texts:  # ids and other short texts: one call instead of many
                    return orjson.dumps(texts)
                return b"[" + b",".join(map(_item_json, rows)) + b"]"
            case _:
                _, *names = cell_numbers(cell)
                return b"[" + b",".join(self._name_json(nid, object_id) for nid in names) + b"]"

    def items(self, lid: int, length: int, object_id: str, *, start: int = 0) -> list[bytes]:
        """Return the JSON of the items of a list, from ``start`` to ``length``."""
        return list(map(_item_json, self._rows(lid, length, object_id, start=start)))

    def _rows(
        self, lid: int, length: int, object_id: str, *, start: int = 0
    ) -> list[tuple[str | bytes | None, bytes | None]]:
        """Return the items of a list, each as a text or as the JSON of a piece."""
        rows: list[tuple[str | bytes | None, bytes | None]] = []
        for segment, begin, end in reversed(self.segments(lid, length)):
            first = segment << LIST_BITS
            slots = (first + max(begin, start), first + end)
            rows += self._execute(self._sql["items"], slots).fetchall()
        if len(rows) != length - start or (None, None) in rows:
            missing = f"list {lid} has {start + len(rows)} of {length} items"
            raise self._corrupt(object_id, missing)
        return rows

    def segments(self, lid: int, length: int) -> list[tuple[int, int, int]]:
        """Return which lists own the items, the last ones first: (list, from, to)."""
        segments: list[tuple[int, int, int]] = []
        end = length
        while end > 0 and len(segments) <= LINEAGE_MAX:
            parent, shared = self._execute(self._sql["list"], (lid,)).get or (None, 0)
            if shared < end:
                segments.append((lid, shared, end))
                end = shared
            if parent is None:
                break
            lid = parent
        return segments

    def _joined_document(
        self, fmt: int, body: bytes, object_id: str, without: frozenset[str]
    ) -> Document:
        try:
            if fmt == FORMAT and body[0] == SPACE:
                document: Document = loads(body)
                return {name: document[name] for name in document if name not in without}
            exact, all_cells = self.cells(fmt, body, object_id)
            cells = {name: cell for name, cell in all_cells if name not in without}
            lists = {} if exact else self._shared_lists(cells, object_id)
            raws = [  # a shared list has a 0 in its place, and is put in after decoding
                (name, b"0" if name in lists else self.raw(cell, object_id))
                for name, cell in cells.items()
            ]
            joined = join_fields(raws, exact=exact)
            self.bytes_read += len(joined)
            document = loads(joined)
        except (ValueError, IndexError) as error:
            raise self._corrupt(object_id, error) from error
        document.update(lists)
        return document

    def _shared_lists(self, cells: dict[str, bytes], object_id: str) -> dict[str, list[Any]]:
        """Return the lists of a document, sharing items with other documents of the page."""
        if self._shared is None:
            return {}
        lists = {}
        for name, cell in cells.items():
            if cell[:1] == b"L":
                lid, length = cell_numbers(cell)
                items = self._shared.setdefault(lid, [])
                if len(items) < length:
                    new = b",".join(self.items(lid, length, object_id, start=len(items)))
                    self.bytes_read += len(new)
                    items.extend(orjson.loads(b"[" + new + b"]"))
                lists[name] = items[:length]
                self.bytes_read += REFERENCE_BYTES * length
        return lists

    def _unpack(self, body: bytes, object_id: str) -> Packed:
        try:
            return decode_packed(body)
        except (ValueError, IndexError) as error:
            raise self._corrupt(object_id, error) from error

    def _name_json(self, nid: int, object_id: str) -> bytes:
        text = self._execute(self._sql["text_of"], (nid,)).get
        if text is None:
            raise self._corrupt(object_id, f"name {nid} is missing")
        return _text_json(text)

    def _corrupt(self, object_id: str, reason: object) -> Corrupt:
        return Corrupt(
            f"{self._url}: {object_id} is damaged ({reason}); restore a backup of the store"
        )


def raw_fields(document: Document) -> tuple[bool, list[tuple[str, bytes]]]:
    """Return whether a field holds an integer beyond 64 bits, and each field's JSON.

    The writer keeps the JSON, so it is copied: orjson's bytes may occupy a buffer of several KB.
    """
    try:
        return False, [(name, bytes(memoryview(orjson.dumps(document[name])))) for name in document]
    except TypeError:  # an integer beyond 64 bits, which orjson refuses
        raws = [(name, dumps(value)) for name, value in document.items()]
    exact = any(raw[0] == SPACE for _, raw in raws)
    return exact, [(name, raw.removeprefix(b" ")) for name, raw in raws]


def _item_json(row: tuple[str | bytes | None, bytes | None]) -> bytes:
    text, piece = row
    return _text_json(text) if piece is None else piece


def _text_json(text: str | bytes | None) -> bytes:
    if isinstance(text, bytes):
        return b'"' + text.hex().encode() + b'"'
    return orjson.dumps(text)
