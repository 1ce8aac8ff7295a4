"""Reading stored bodies: cells back to JSON, JSON back to documents. Touches the database.

Pieces and lists are never changed once they are written, so no snapshot is needed. What cannot be
followed to its end is ``Corrupt``.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson

from ctxmgr.core.documents import Document
from ctxmgr.errors import Corrupt, NewerFormat
from ctxmgr.stores.sqlite_layout import (
    FORMAT,
    PLAIN,
    SPACE,
    Packed,
    cell_numbers,
    decode_packed,
    dumps,
    join_fields,
    loads,
    read_number,
)
from ctxmgr.stores.sqlite_statements import statements

LIST_BITS: Final = 24
"""A slot's lower bits count the items of one list: 16 million, more than a document holds."""

REFERENCE_BYTES: Final = 8
"""Of an item that a list shares with others in memory."""

LINEAGE_MAX: Final = 16
"""Lists that a list continues; a longer line is written anew, so that reading stays quick."""


class Bodies:
    """Reads bodies through one connection."""

    def __init__(self, execute: Callable[..., Any], *, url: str) -> None:
        self._execute = execute
        self._sql = statements()
        self._url = url
        self._shared: dict[int, list[Any]] | None = None
        """Items of each list that a page has met, decoded; None: nobody fills a page."""
        self.bytes_read = 0
        """JSON decoded for the page that is filled."""

    @contextmanager
    def page(self) -> Iterator[None]:
        """Let the documents of a page share the items of their lists.

        Versions of a long chat are the same turns over and over: each is read and decoded once, so
        that a page costs what is in it.
        """
        self._shared, self.bytes_read = {}, 0
        try:
            yield
        finally:
            self._shared = None

    def stored(self, wid: int, object_id: str) -> tuple[int, bytes]:
        """Format and body of what that write put."""
        row = self._execute(self._sql["body"], (wid,)).get
        if row is None or row[1] is None:
            raise self._corrupt(object_id, f"write {wid} is missing")
        form, body = row
        return form, body

    def document(
        self, form: int, body: bytes, object_id: str, *, without: frozenset[str] = frozenset()
    ) -> Document:
        """The document as it was put, but for some fields."""
        if form == FORMAT and body[0] == PLAIN:
            self.bytes_read += len(body)
            try:
                plain: Document = orjson.loads(body)
            except ValueError as error:
                raise self._corrupt(object_id, error) from error
            return (
                {name: plain[name] for name in plain if name not in without} if without else plain
            )
        return self._document(form, body, object_id, without)

    def values(self, form: int, body: bytes, object_id: str, names: Collection[str]) -> Document:
        """Only those fields of the document, without following the others."""
        if form == FORMAT and body[0] in {PLAIN, SPACE}:
            return self.document(form, body, object_id)
        exact, cells = self.cells(form, body, object_id)
        wanted = [(name, self.raw(cell, object_id)) for name, cell in cells if name in names]
        found: Document = loads(join_fields(wanted, exact=exact))
        return found

    def cells(self, form: int, body: bytes, object_id: str) -> tuple[bool, list[tuple[str, bytes]]]:
        """All fields of a packed body as (name, cell), with those of its base."""
        if form > FORMAT:
            raise NewerFormat(f"{self._url}: {object_id}", form, FORMAT)
        packed = self._unpack(body, object_id)
        if packed.base is None:
            return packed.exact, [(str(name), cell) for name, cell in packed.cells]
        whole = self._unpack(self.stored(packed.base, object_id)[1], object_id)
        if whole.base is not None:
            raise self._corrupt(object_id, f"write {packed.base} is no base")
        cells = [(str(name), cell) for name, cell in whole.cells]
        for place, cell in packed.cells:
            cells[int(place)] = (cells[int(place)][0], cell)
        return packed.exact, cells

    def base(self, wid: int, body: bytes, object_id: str) -> tuple[int, list[tuple[str, bytes]]]:
        """The write that a delta after this packed one can be based on, and its cells."""
        base = self._unpack(body, object_id).base
        if base is not None:
            wid, (_, body) = base, self.stored(base, object_id)
        return wid, self.cells(FORMAT, body, object_id)[1]

    def raw(self, cell: bytes, object_id: str) -> bytes:
        """The JSON that a cell stands for."""
        match cell[:1]:
            case b"J":
                return cell[read_number(cell, 1)[1] :]
            case b"H":
                return b'"' + cell[1:].hex().encode() + b'"'
            case b"T":
                return self._piece(cell_numbers(cell)[0], object_id)
            case b"L":
                lid, length = cell_numbers(cell)
                return b"[" + b",".join(self.items(lid, length, object_id)) + b"]"
            case _:
                _, *names = cell_numbers(cell)
                return b"[" + b",".join(self._text(nid, object_id) for nid in names) + b"]"

    def items(self, lid: int, length: int, object_id: str, *, start: int = 0) -> list[bytes]:
        """The JSON of the items of a list, from ``start`` to ``length``."""
        found: list[bytes] = []
        for segment, begin, end in reversed(self.segments(lid, length)):
            first = segment << LIST_BITS
            places = (first + max(begin, start), first + end)
            for text, piece in self._execute(self._sql["items"], places).fetchall():
                found.append(_text_json(text) if piece is None else piece)
        if len(found) != length - start or None in found:
            missing = f"list {lid} has {start + len(found)} of {length} items"
            raise self._corrupt(object_id, missing)
        return found

    def segments(self, lid: int, length: int) -> list[tuple[int, int, int]]:
        """Where the items lie, last part first: (list, from, to)."""
        parts: list[tuple[int, int, int]] = []
        end = length
        while end > 0 and len(parts) <= LINEAGE_MAX:
            parent, shared = self._execute(self._sql["list"], (lid,)).get or (None, 0)
            if shared < end:
                parts.append((lid, shared, end))
                end = shared
            if parent is None:
                break
            lid = parent
        return parts

    def _document(
        self, form: int, body: bytes, object_id: str, without: frozenset[str]
    ) -> Document:
        try:
            if form == FORMAT and body[0] == SPACE:
                found: Document = loads(body)
                return {name: found[name] for name in found if name not in without}
            exact, all_cells = self.cells(form, body, object_id)
            cells = {name: cell for name, cell in all_cells if name not in without}
            lists = {} if exact else self._shared_lists(cells, object_id)
            raws = [
                (name, b"0" if name in lists else self.raw(cell, object_id))
                for name, cell in cells.items()
            ]
            joined = join_fields(raws, exact=exact)
            self.bytes_read += len(joined)
            found = loads(joined)
        except (ValueError, IndexError) as error:
            raise self._corrupt(object_id, error) from error
        found.update(lists)
        return found

    def _shared_lists(self, cells: dict[str, bytes], object_id: str) -> dict[str, list[Any]]:
        """The lists of a document that others of its page may hold too."""
        if self._shared is None:
            return {}
        lists = {}
        for name, cell in cells.items():
            if cell[:1] == b"L":
                lid, length = cell_numbers(cell)
                known = self._shared.setdefault(lid, [])
                if len(known) < length:
                    new = b",".join(self.items(lid, length, object_id, start=len(known)))
                    self.bytes_read += len(new)
                    known.extend(orjson.loads(b"[" + new + b"]"))
                lists[name] = known[:length]
                self.bytes_read += REFERENCE_BYTES * length
        return lists

    def _unpack(self, body: bytes, object_id: str) -> Packed:
        try:
            return decode_packed(body)
        except (ValueError, IndexError) as error:
            raise self._corrupt(object_id, error) from error

    def _piece(self, pid: int, object_id: str) -> bytes:
        raw: bytes | None = self._execute(self._sql["piece"], (pid,)).get
        if raw is None:
            raise self._corrupt(object_id, f"piece {pid} is missing")
        return raw

    def _text(self, nid: int, object_id: str) -> bytes:
        text = self._execute(self._sql["text_of"], (nid,)).get
        if text is None:
            raise self._corrupt(object_id, f"name {nid} is missing")
        return _text_json(text)

    def _corrupt(self, object_id: str, reason: object) -> Corrupt:
        return Corrupt(
            f"{self._url}: {object_id}: cannot be read back ({reason}); restore a backup, "
            "or see with verify what is left"
        )


def raw_fields(document: Document) -> tuple[bool, list[tuple[str, bytes]]]:
    """Each field's JSON, and whether one holds an integer beyond 64 bits.

    The writer remembers it, so it is copied: what orjson gives lies in a buffer of several KB.
    """
    try:
        return False, [(name, bytes(memoryview(orjson.dumps(document[name])))) for name in document]
    except TypeError:  # an integer beyond 64 bits, which only the slower way writes
        raws = [(name, dumps(value)) for name, value in document.items()]
    exact = any(raw[0] == SPACE for _, raw in raws)
    return exact, [(name, raw.removeprefix(b" ")) for name, raw in raws]


def _text_json(text: str | bytes | None) -> bytes:
    if isinstance(text, bytes):
        return b'"' + text.hex().encode() + b'"'
    return orjson.dumps(text)
