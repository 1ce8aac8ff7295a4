"""Writes bodies so that a version costs what it changed, and numbers texts. Touches the database.

For each object, the JSON of every field and the cell it was stored as are remembered. An unchanged
field reuses its cell; of a list that has grown only the new items are stored; other large values
are stored once, under their hash. JSON is compared rather than objects, because a caller may have
changed a list or a turn in place; only of a ``GrownField``, which cannot change, the items are.

What is remembered stays valid whatever other processes write, since nothing that is committed ever
changes. The exceptions are the end of a list, which another process may have extended, and the next
free name number: both are looked up before use.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from ctxmgr.stores.sqlite.body_format import (
    FORMAT,
    PLAIN,
    SPACE,
    cell_numbers,
    dumps,
    encode_delta,
    encode_whole,
    inline_cell,
    join_fields,
    loads,
    reference_cell,
)
from ctxmgr.stores.sqlite.body_reader import LINEAGE_MAX, LIST_BITS, BodyReader, raw_fields
from ctxmgr.stores.sqlite.connection import statements
from ctxmgr.stores.sqlite.reader import LOOKUP_MAX, text_key
from ctxmgr.stores.sqlite.submission import (
    PIECE_MIN,
    EncodedDocument,
    GrownField,
    RawField,
    RawFields,
    json_of,
)

LIST_MIN: Final = 256
"""Bytes of JSON from which a list may be stored item by item."""

ITEM_MIN: Final = 128
"""Mean bytes per item from which a list of other items than short texts is stored item by item."""

TEXT_MAX: Final = 128
"""Characters up to which a list item is stored as a name; ids are shorter."""

WINDOW_MAX: Final = 64
"""Items up to which a list of short texts that was not appended to is written in full."""

REMEMBERED_BYTES: Final = 64 * 1024 * 1024
"""JSON remembered for comparison: some thirty chats of a thousand turns."""

DELTA_SHARE: Final = 0.75
"""A delta larger than this share of the whole body is not used, and a new base is written."""

NAMES_MAX: Final = 50_000
"""Cached numbers of texts, some 10 MB; the cache is emptied when it is full."""

_FieldCell: TypeAlias = tuple[RawField, bytes]
"""The JSON of a field, and the cell it was stored as."""


@dataclass(frozen=True, slots=True)
class _PreviousVersion:
    base: int | None
    """The write that a delta can be based on; None: there is none."""
    base_cells: list[tuple[str, bytes]]
    fields: Mapping[str, _FieldCell]
    size: int


_NO_VERSION: Final = _PreviousVersion(None, [], {}, 0)


class BodyWriter:
    """Writes bodies on the writer's connection."""

    def __init__(
        self, execute: Callable[..., Any], *, reader: BodyReader, number_of: Callable[[str], int]
    ) -> None:
        self._execute = execute
        self._sql = statements()
        self._reader = reader
        self._number_of = number_of
        self._remembered: OrderedDict[int, _PreviousVersion] = OrderedDict()
        self._size = 0

    def forget(self) -> None:
        """Drop what may have been rolled back."""
        self._remembered.clear()
        self._size = 0

    def body(self, encoded: EncodedDocument, *, nid: int, wid: int, previous: int | None) -> bytes:
        """Store the new parts of a document and return its body.

        ``previous`` is the write whose document it is likely to share fields with.
        """
        if encoded.json is not None and encoded.is_small:
            return encoded.json
        before = self._remembered.get(nid)
        if before is None:
            before = _NO_VERSION if previous is None else self._read_back(previous)
        if encoded.json is not None and not before.fields:
            return encoded.json
        encoded = encoded.split()
        if not before.fields and not _has_separate_parts(encoded.fields):
            # Not remembered: if there is ever a next version, reading this one back is as fast.
            return _joined(encoded)
        cells = [
            (name, self._cell(raw, before.fields.get(name), exact=encoded.exact))
            for name, raw in encoded.fields
        ]
        base, base_cells, body = self._encode(before, cells, encoded, wid)
        if previous is None:
            return body  # most objects have one version; of one with more, it is read back once
        fields = {
            name: (raw, cell) for (name, raw), (_, cell) in zip(encoded.fields, cells, strict=True)
        }
        self._remember(nid, _PreviousVersion(base, base_cells, fields, encoded.size))
        return body

    def _encode(
        self,
        before: _PreviousVersion,
        cells: list[tuple[str, bytes]],
        encoded: EncodedDocument,
        wid: int,
    ) -> tuple[int | None, list[tuple[str, bytes]], bytes]:
        """Return the base for the next version, its cells, and the body."""
        whole = encode_whole(cells, exact=encoded.exact)
        names = [name for name, _ in cells]
        if before.base is not None and names == [name for name, _ in before.base_cells]:
            pairs = zip(cells, before.base_cells, strict=True)
            changed = [(at, new[1]) for at, (new, old) in enumerate(pairs) if new != old]
            delta = encode_delta(before.base, changed, exact=encoded.exact)
            if len(delta) < DELTA_SHARE * len(whole):
                return before.base, before.base_cells, delta
        if not before.fields and all(cell[:1] in {b"J", b"H"} for _, cell in cells):
            return None, [], _joined(encoded)
        return wid, cells, whole

    def _cell(self, field: RawField, before: _FieldCell | None, *, exact: bool) -> bytes:
        if isinstance(field, GrownField) and before is not None:
            old, stored_as = before
            if isinstance(old, GrownField) and field.items.continues(old.items):
                added = field.items[len(old.items) :]
                if not added:
                    return stored_as
                if stored_as[:1] == b"L":
                    lid, length = cell_numbers(stored_as)
                    return self._append(lid, length, list(added))
        raw = json_of(field)
        if before is not None and before[0] == raw:
            return before[1]
        if len(raw) >= LIST_MIN and raw[:1] == b"[":
            cell = self._list_cell(raw, before, exact=exact)
            if cell is not None:
                return cell
        if len(raw) < PIECE_MIN:
            return inline_cell(raw)
        return reference_cell(b"T", [self._piece(raw)])

    def _list_cell(self, raw: bytes, before: _FieldCell | None, *, exact: bool) -> bytes | None:
        """Store a list item by item and return its cell; None: that is not worth it."""
        appended = before and _appended_items(json_of(before[0]), raw, exact=exact)
        if before and appended and before[1][:1] == b"L":
            lid, length = cell_numbers(before[1])
            return self._append(lid, length, appended)
        items = _parse(raw, exact=exact)
        if not appended and _are_short_texts(items) and len(items) <= WINDOW_MAX:
            return reference_cell(b"W", [len(items), *map(self._number_of, items)])
        if len(items) <= 1 or (len(raw) < ITEM_MIN * len(items) and not _are_short_texts(items)):
            return None
        if before and before[1][:1] == b"L":
            return self._fork(items, before)
        return self._append(self._new_list(None, 0), 0, items)

    def _fork(self, items: list[Any], before: _FieldCell) -> bytes:
        """Share the leading items that the list has in common with the previous one."""
        lid, _ = cell_numbers(before[1])
        shared = 0
        for new, old in zip(
            map(dumps, items), map(dumps, _parse(json_of(before[0]), exact=True)), strict=False
        ):
            if new != old:
                break
            shared += 1
        if shared == len(items):
            return reference_cell(b"L", [lid, shared])
        if shared * 2 < len(items):
            return self._append(self._new_list(None, 0), 0, items)
        return self._append(lid, shared, items[shared:])

    def _append(self, lid: int, length: int, items: list[Any]) -> bytes:
        """Append to a list of that length; if that slot is taken, in a new list that continues it.

        Only the list that owns the last kept item can be appended to. Slots below a list's own
        items are read from its parent, so items stored there would never be read.
        """
        segments = self._reader.segments(lid, length)
        owner = segments[0][0] if segments else lid
        if self._execute(self._sql["has_item"], ((owner << LIST_BITS) + length,)).get:
            if len(segments) >= LINEAGE_MAX:
                kept = self._reader.items(lid, length, "list")
                items = [loads(b" " + raw) for raw in kept] + items
                segments, length = [], 0
            owner = self._new_list(owner if segments else None, length)
        slot = (owner << LIST_BITS) + length
        insert = self._sql["insert_item"]
        for at, item in enumerate(items):
            # The lowest bit says which table the number belongs to: 0 name, 1 piece.
            if isinstance(item, str) and len(item) <= TEXT_MAX:
                number = self._number_of(item) << 1
            else:
                number = self._piece(dumps(item).removeprefix(b" ")) << 1 | 1
            self._execute(insert, (slot + at, number))
        return reference_cell(b"L", [owner, length + len(items)])

    def _new_list(self, parent: int | None, shared: int) -> int:
        lid: int = self._execute(self._sql["insert_list"], (parent, shared)).get
        return lid

    def _piece(self, raw: bytes) -> int:
        """Store a value under its hash, or find it, and return its number."""
        address = hashlib.sha256(raw).digest()
        shared = len(raw) >= PIECE_MIN  # smaller ones, items of lists, are not looked up
        pid: int | None = None
        if shared:
            pid = self._execute(self._sql["find_piece"], (address,)).get
        if pid is None:
            pid = self._execute(self._sql["insert_piece"], (address, shared, raw)).get
            assert pid is not None
        return pid

    def _read_back(self, wid: int) -> _PreviousVersion:
        where = f"write {wid}"
        fmt, body = self._reader.stored(wid, where)
        if fmt == FORMAT and body[0] in {PLAIN, SPACE}:
            _, raws = raw_fields(self._reader.document(fmt, body, where))
            fields = {name: (raw, inline_cell(raw)) for name, raw in raws if len(raw) < PIECE_MIN}
            return _PreviousVersion(None, [], fields, len(body))
        base, base_cells = self._reader.base(wid, body, where)
        _, cells = self._reader.cells(fmt, body, where)
        raws = [(name, self._reader.raw(cell, where)) for name, cell in cells]
        fields = {name: (raw, cell) for (name, raw), (_, cell) in zip(raws, cells, strict=True)}
        return _PreviousVersion(base, base_cells, fields, sum(len(raw) for _, raw in raws))

    def _remember(self, nid: int, version: _PreviousVersion) -> None:
        old = self._remembered.pop(nid, None)
        self._size += version.size - (old.size if old else 0)
        self._remembered[nid] = version
        while self._size > REMEMBERED_BYTES and self._remembered:
            _, dropped = self._remembered.popitem(last=False)
            self._size -= dropped.size


class Names:
    """Finds and assigns the numbers of texts, on the writer's connection."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self._sql = statements()
        self._insert = self._sql["insert_name"]
        self._numbers: dict[str, int] = {}
        self._absent: dict[str, str | bytes] = {}
        """Preloaded texts that have no number, each with its key in the table."""
        self._next = 1

    def begin(self) -> None:
        """Look up the next free number; the write lock is held."""
        self._absent.clear()
        self._next = (self._execute(self._sql["last_name"]).get or 0) + 1

    def forget(self) -> None:
        """Drop what may have been rolled back."""
        self._numbers.clear()
        self._absent.clear()

    def trim(self) -> None:
        """Bound the cache. Only between transactions: some numbers may not be written yet."""
        if len(self._numbers) > NAMES_MAX:
            self._numbers.clear()
        if len(self._absent) > NAMES_MAX:
            self._absent.clear()

    def preload(self, texts: Collection[str]) -> None:
        """Look up many texts at once, so that ``find`` needs no query for them."""
        texts_by_key = {text_key(text): text for text in texts if text not in self._numbers}
        self._absent = {text: key for key, text in texts_by_key.items()}
        left = iter(texts_by_key)
        while keys := tuple(islice(left, LOOKUP_MAX)):
            query = self._sql["find_names"].format(places=", ".join("?" * len(keys)))
            for key, nid in self._execute(query, keys):
                self._numbers[texts_by_key[key]] = nid
                del self._absent[texts_by_key[key]]

    def find(self, text: str) -> int | None:
        """Return the number of a text, if it has one."""
        nid = self._numbers.get(text)
        if nid is None and text not in self._absent:
            key = text_key(text)
            nid = self._execute(self._sql["find_name"], (key,)).get
            if nid is not None:
                self._numbers[text] = nid
            else:
                self._absent[text] = key
        return nid

    def number(self, text: str) -> int:
        """Return the number of a text, assigning one if it has none."""
        return self.find(text) or self.add(text, self._execute)

    def add(self, text: str, write: Callable[[str, tuple[Any, ...]], object]) -> int:
        """Assign a number to a text that has none; ``write`` stores it now or later."""
        nid = self._numbers[text] = self._next
        self._next += 1
        write(self._insert, (nid, self._absent.pop(text, None) or text_key(text)))
        return nid


def _has_separate_parts(fields: RawFields) -> bool:
    """Whether some value may be stored outside of the body."""
    large = [raw for _, raw in fields if len(raw) >= LIST_MIN]
    return any(
        len(raw) >= PIECE_MIN or isinstance(raw, GrownField) or raw[:1] == b"[" for raw in large
    )


def _joined(encoded: EncodedDocument) -> bytes:
    """Return a plain body."""
    fields = ((name, json_of(raw)) for name, raw in encoded.fields)
    return join_fields(fields, exact=encoded.exact)


def _parse(raw: bytes, *, exact: bool) -> Any:
    return loads(b" " + raw if exact else raw)


def _appended_items(old: bytes, new: bytes, *, exact: bool) -> list[Any] | None:
    """Return the items that follow the old list's in the new one; None: it does not continue it."""
    end = len(old) - 1
    if old == b"[]" or old[:1] != b"[" or len(new) <= len(old):
        return None
    if new[end : end + 1] != b"," or not new.startswith(old[:end]):
        return None
    appended: list[Any] = _parse(b"[" + new[end + 1 :], exact=exact)
    return appended


def _are_short_texts(items: list[Any]) -> bool:
    return all(isinstance(item, str) and len(item) <= TEXT_MAX for item in items)
