"""Storing bodies so that a version costs what it changed. Touches the database.

For each object the JSON of every field and the cell it became are remembered. A field that is
unchanged keeps its cell; a list that was continued has only its new items stored; whatever else
is large is stored once, by its hash. What is remembered stays true whatever other processes do,
since nothing that is committed ever changes; only the end of a list may have been taken by someone
else, and is looked at before it is used.

JSON is compared, not objects: a caller may have changed a list or a turn in place.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ctxmgr.stores.sqlite_bodies import LINEAGE_MAX, LIST_BITS, Bodies, raw_fields
from ctxmgr.stores.sqlite_layout import (
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
    numbers_cell,
)
from ctxmgr.stores.sqlite_prepare import PIECE_MIN, Prepared, Raws
from ctxmgr.stores.sqlite_statements import statements

LIST_MIN: Final = 256
"""Bytes of JSON from which a list is worth taking apart."""

ITEM_MIN: Final = 128
"""Mean bytes of the items from which a list of other things than texts is taken apart."""

TEXT_MAX: Final = 128
"""Characters of a list's item that is kept as a name; ids are shorter."""

WINDOW_MAX: Final = 64
"""Texts of a list that is written whole when it was not just continued."""

REMEMBERED_BYTES: Final = 64 * 1024 * 1024
"""JSON remembered for comparing: some thirty chats of a thousand turns."""

DELTA_SHARE: Final = 0.75
"""A delta must be that much smaller than the whole, or a new base is written."""

_Known: TypeAlias = tuple[bytes, bytes]
"""A field's JSON and the cell it became."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    base: int | None
    base_cells: list[tuple[str, bytes]]
    fields: dict[str, _Known]
    size: int


_NOTHING: Final = _Remembered(None, [], {}, 0)


class Packer:
    """Makes bodies on the writer's connection."""

    def __init__(
        self, execute: Callable[..., Any], *, bodies: Bodies, name: Callable[[str], int]
    ) -> None:
        self._execute = execute
        self._sql = statements()
        self._bodies = bodies
        self._name = name
        self._remembered: OrderedDict[int, _Remembered] = OrderedDict()
        self._size = 0

    def forget(self) -> None:
        """Drop what may have been rolled back."""
        self._remembered.clear()
        self._size = 0

    def body(self, prepared: Prepared, *, nid: int, wid: int, before: int | None) -> bytes:
        """Store what is new of a document and return its body.

        ``before`` is the write whose document is likely to resemble it.
        """
        if prepared.json is not None and prepared.is_small:
            return prepared.json
        known = self._recall(nid, before)
        if prepared.json is not None and not known.fields:
            return prepared.json
        prepared = prepared.taken_apart()
        if not known.fields and not _has_parts(prepared.raws):
            # Not remembered: if there ever is a next version, this one is read back as quickly.
            return join_fields(prepared.raws, exact=prepared.exact)
        cells = [
            (name, self._cell(raw, known.fields.get(name), exact=prepared.exact))
            for name, raw in prepared.raws
        ]
        base, base_cells, body = self._encode(known, cells, prepared, wid)
        fields = {
            name: (raw, cell) for (name, raw), (_, cell) in zip(prepared.raws, cells, strict=True)
        }
        self._remember(nid, _Remembered(base, base_cells, fields, prepared.size))
        return body

    def _encode(
        self, known: _Remembered, cells: list[tuple[str, bytes]], prepared: Prepared, wid: int
    ) -> tuple[int | None, list[tuple[str, bytes]], bytes]:
        whole = encode_whole(cells, exact=prepared.exact)
        names = [name for name, _ in cells]
        if known.base is not None and names == [name for name, _ in known.base_cells]:
            pairs = zip(cells, known.base_cells, strict=True)
            changed = [(at, new[1]) for at, (new, old) in enumerate(pairs) if new != old]
            delta = encode_delta(known.base, changed, exact=prepared.exact)
            if len(delta) < DELTA_SHARE * len(whole):
                return known.base, known.base_cells, delta
        if not known.fields and all(cell[:1] in {b"J", b"H"} for _, cell in cells):
            return None, [], join_fields(prepared.raws, exact=prepared.exact)
        return wid, cells, whole

    def _cell(self, raw: bytes, known: _Known | None, *, exact: bool) -> bytes:
        if known is not None and known[0] == raw:
            return known[1]
        if len(raw) >= LIST_MIN and raw[:1] == b"[":
            return self._list_cell(raw, known, exact=exact) or self._value_cell(raw)
        return self._value_cell(raw)

    def _value_cell(self, raw: bytes) -> bytes:
        if len(raw) < PIECE_MIN:
            return inline_cell(raw)
        return numbers_cell(b"T", [self._piece(raw)])

    def _list_cell(self, raw: bytes, known: _Known | None, *, exact: bool) -> bytes | None:
        """A cell for a list, or None where it is not worth taking apart."""
        added = known and _continued(known[0], raw, exact=exact)
        if known and added and known[1][:1] == b"L":
            lid, length = cell_numbers(known[1])
            return self._append(lid, length, added)
        items = _parse(raw, exact=exact)
        if not added and _texts(items) and len(items) <= WINDOW_MAX:
            return numbers_cell(b"W", [len(items), *map(self._name, items)])
        if not _worth(items, len(raw)):
            return None
        if known and known[1][:1] == b"L":
            return self._fork(items, known)
        return self._append(self._new_list(None, 0), 0, items)

    def _fork(self, items: list[Any], known: _Known) -> bytes:
        """Share what the list has in common with the one before, from its beginning."""
        lid, _ = cell_numbers(known[1])
        shared = 0
        for new, old in zip(
            map(dumps, items), map(dumps, _parse(known[0], exact=True)), strict=False
        ):
            if new != old:
                break
            shared += 1
        if shared == len(items):
            return numbers_cell(b"L", [lid, shared])
        if shared * 2 < len(items):
            return self._append(self._new_list(None, 0), 0, items)
        return self._append(lid, shared, items[shared:])

    def _append(self, lid: int, length: int, items: list[Any]) -> bytes:
        """Continue the list there; where someone else has, in a list of its own.

        Only the list that owns the last of the kept items can be continued: the places before a
        list's own are read from its parent, so what is put into them is never seen.
        """
        segments = self._bodies.segments(lid, length)
        owner = segments[0][0] if segments else lid
        if self._execute(self._sql["has_item"], ((owner << LIST_BITS) + length,)).get:
            if len(segments) >= LINEAGE_MAX:
                kept = self._bodies.items(lid, length, "list")
                items = [loads(b" " + raw) for raw in kept] + items
                segments, length = [], 0
            owner = self._new_list(owner if segments else None, length)
        slot = (owner << LIST_BITS) + length
        insert = self._sql["insert_item"]
        for at, item in enumerate(items):
            self._execute(insert, (slot + at, self._item(item)))
        return numbers_cell(b"L", [owner, length + len(items)])

    def _item(self, item: object) -> int:
        if isinstance(item, str) and len(item) <= TEXT_MAX:
            return self._name(item) << 1
        return self._piece(dumps(item).removeprefix(b" ")) << 1 | 1

    def _new_list(self, parent: int | None, shared: int) -> int:
        lid: int = self._execute(self._sql["insert_list"], (parent, shared)).get
        return lid

    def _piece(self, raw: bytes) -> int:
        address = hashlib.sha256(raw).digest()
        shared = len(raw) >= PIECE_MIN
        pid: int | None = None
        if shared:
            pid = self._execute(self._sql["find_piece"], (address,)).get
        if pid is None:
            pid = self._execute(self._sql["insert_piece"], (address, shared, raw)).get
            assert pid is not None
        return pid

    def _recall(self, nid: int, before: int | None) -> _Remembered:
        known = self._remembered.get(nid)
        if known is not None:
            return known
        return _NOTHING if before is None else self._read_back(before)

    def _read_back(self, wid: int) -> _Remembered:
        where = f"write {wid}"
        form, body = self._bodies.stored(wid, where)
        if form == FORMAT and body[0] in {PLAIN, SPACE}:
            _, raws = raw_fields(self._bodies.document(form, body, where))
            fields = {name: (raw, inline_cell(raw)) for name, raw in raws if len(raw) < PIECE_MIN}
            return _Remembered(None, [], fields, len(body))
        base, base_cells = self._bodies.base(wid, body, where)
        _, cells = self._bodies.cells(form, body, where)
        raws = [(name, self._bodies.raw(cell, where)) for name, cell in cells]
        fields = {name: (raw, cell) for (name, raw), (_, cell) in zip(raws, cells, strict=True)}
        return _Remembered(base, base_cells, fields, sum(len(raw) for _, raw in raws))

    def _remember(self, nid: int, state: _Remembered) -> None:
        old = self._remembered.pop(nid, None)
        self._size += state.size - (old.size if old else 0)
        self._remembered[nid] = state
        while self._size > REMEMBERED_BYTES and self._remembered:
            _, dropped = self._remembered.popitem(last=False)
            self._size -= dropped.size


def _has_parts(raws: Raws) -> bool:
    """Tell whether some value may be kept outside of the body."""
    large = [raw for _, raw in raws if len(raw) >= LIST_MIN]
    return any(len(raw) >= PIECE_MIN or raw[:1] == b"[" for raw in large)


def _parse(raw: bytes, *, exact: bool) -> Any:
    return loads(b" " + raw if exact else raw)


def _continued(old: bytes, new: bytes, *, exact: bool) -> list[Any] | None:
    """The items that the new list has after all of the old one's; None: it does not continue it."""
    end = len(old) - 1
    if old == b"[]" or old[:1] != b"[" or len(new) <= len(old):
        return None
    if new[end : end + 1] != b"," or not new.startswith(old[:end]):
        return None
    added: list[Any] = _parse(b"[" + new[end + 1 :], exact=exact)
    return added


def _texts(items: list[Any]) -> bool:
    return all(isinstance(item, str) and len(item) <= TEXT_MAX for item in items)


def _worth(items: list[Any], size: int) -> bool:
    """Tell whether items of a list are better kept one by one."""
    return len(items) > 1 and (size >= ITEM_MIN * len(items) or _texts(items))
