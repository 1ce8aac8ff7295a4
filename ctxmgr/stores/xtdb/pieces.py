"""Split large values into immutable pieces that versions share. Pure.

    text      over 256 KiB    :ctxmgr/text.FIELD  [piece …]       the field itself is omitted
    list      over 4 KiB      :ctxmgr/older.FIELD [piece …]       the field keeps the newest items

    piece     {:xt/id "ctxmgr/piece/SHA-256" :ctxmgr/items […]}     items, in order
              {:xt/id "ctxmgr/piece/SHA-256" :ctxmgr/part "…"}      part of a text
              {:xt/id "ctxmgr/piece/SHA-256" :ctxmgr/parts [piece …]}   pieces, in order

A list is cut from its beginning, and the cuts depend only on its items, so a list that only grows
keeps its pieces and sends each once. Sixteen pieces are referenced by one, and so on recursively: a
list of 100,000 ids has about twenty root pieces. ``ListCut`` continues from where it was when the
list was shorter.

``KnownPieces`` keeps which pieces are already stored. The database at an address can be replaced
while a store is open: an in-memory node restarts, or an older copy is restored. Every known piece
therefore has an anchor: the record of a transaction that the piece was stored with, whose id is
random. A transaction that omits pieces matches their anchors. Logs only grow, so a database with
that record has everything put before it; in any other database the match fails, and nothing is
written.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Self

from ctxmgr.core.append_only import AppendOnly, Fold
from ctxmgr.errors import Corrupt
from ctxmgr.stores.edn.values import dumps

KNOWN_PIECES_MAX: Final = 65_536
"""Ids of stored pieces that are remembered and not sent again: 8 MB of memory."""

ANCHORS_MAX: Final = 8
"""Anchors in one transaction. A session and a chat saved together share one."""

ANCHOR_BYTES_MAX: Final = 1_024
"""Bytes of a record used as an anchor; one with many deletions is too long to send again."""


class KnownPieces:
    """Ids of stored pieces, each with its anchor; the least recently used are dropped."""

    def __init__(self) -> None:
        self._anchors: OrderedDict[str, str] = OrderedDict()

    def learn(self, piece_ids: Iterable[str], *, anchor: str) -> None:
        """Note that a database with this anchor has these pieces."""
        if len(anchor.encode()) > ANCHOR_BYTES_MAX:
            return
        for piece_id in piece_ids:
            self._anchors[piece_id] = anchor
            self._anchors.move_to_end(piece_id)
        while len(self._anchors) > KNOWN_PIECES_MAX:
            self._anchors.popitem(last=False)

    def anchored(self, piece_ids: Collection[str]) -> dict[str, str]:
        """Return the pieces that can be omitted, with their anchors."""
        anchors = {name: self._anchors[name] for name in piece_ids if name in self._anchors}
        for piece_id in anchors:
            self._anchors.move_to_end(piece_id)
        chosen = {anchor for anchor, _ in Counter(anchors.values()).most_common(ANCHORS_MAX)}
        return {name: anchor for name, anchor in anchors.items() if anchor in chosen}

    def forget(self) -> None:
        """Drop all pieces."""
        self._anchors.clear()


TEXT_INLINE_BYTES_MAX: Final = 256 * 1024
"""UTF-8 bytes of a text that is kept in its document: far more than most source files have."""

TEXT_PART_CHARACTERS: Final = 256 * 1024
"""Characters in one part of a longer text; a change sends only the parts from there on again."""

LIST_INLINE_BYTES_MAX: Final = 4 * 1024
"""A list of 60 hashes is kept in its document, where plain queries find it.

XTDB stores every version in full. Measured with turns of 2 KB, a commit of chat and session has
17 KB with 1 KiB, 18 KB with 4 KiB, 32 KB with 8 KiB and 16 KiB of the newest items, 96 KB with
64 KiB, and grows without an end if lists are never cut."""

NEWEST_ITEMS: Final = 8
NEWEST_BYTES: Final = 8 * 1024
"""The newest items of a longer list that its document keeps, whichever limit is reached first:
every commit sends them again."""

LEAF_ITEMS: Final = 32
LEAF_BYTES: Final = 8 * 1024
"""A piece ends with the item that reaches either limit. Small, because the items of an incomplete
piece remain in the document and are sent with every commit."""

FAN_OUT: Final = 16
"""Pieces that one piece refers to."""

PIECE_PREFIX: Final = "ctxmgr/piece/"
ITEMS: Final = "ctxmgr/items"
PART: Final = "ctxmgr/part"
PARTS: Final = "ctxmgr/parts"


@dataclass(slots=True)
class Cut:
    """A split value: what remains in the document, and the pieces with the rest."""

    inline: str
    """EDN."""
    roots: Sequence[str] = ()
    pieces: Mapping[str, str] = field(default_factory=dict)
    """EDN of every piece by its id, including pieces that are already stored."""
    spilled_bytes: int = 0
    """Bytes of the values in pieces; a piece that occurs twice counts twice."""


def cut_text(text: str) -> Cut | None:
    """Split a long text; None if it is short enough."""
    if len(text) * 4 <= TEXT_INLINE_BYTES_MAX or len(text.encode()) <= TEXT_INLINE_BYTES_MAX:
        return None
    pieces: dict[str, str] = {}
    roots, size = _Roots(), 0
    for start in range(0, len(text), TEXT_PART_CHARACTERS):
        part = dumps(text[start : start + TEXT_PART_CHARACTERS])
        roots = roots.add(_add(pieces, PART, part), pieces)
        size += size_of(part)
    return Cut("nil", roots.ids(), pieces, size)


def cut_list(items: Sequence[Any]) -> Cut:
    """Split a long list; a short one has no pieces."""
    return cut_grown(AppendOnly(items))


def cut_grown(items: AppendOnly[Any]) -> Cut:
    """Split a list that may have grown since it was split before: only its new items are read."""
    return LIST_CUT.of(items).cut(items)


@dataclass(frozen=True, slots=True)
class _Roots:
    """Pieces in order. Each full group is replaced by a piece that refers to it, on every level."""

    levels: tuple[tuple[str, ...], ...] = ()
    """Ids that are in no group yet; those on level n + 1 are older than those on level n."""

    def add(self, piece_id: str, pieces: dict[str, str], *, level: int = 0) -> Self:
        """Append a piece; ``pieces`` receives the groups that it completes."""
        levels = self.levels if level < len(self.levels) else (*self.levels, ())
        group = (*levels[level], piece_id)
        if len(group) < FAN_OUT:
            return type(self)((*levels[:level], group, *levels[level + 1 :]))
        emptied = type(self)((*levels[:level], (), *levels[level + 1 :]))
        parent = _add(pieces, PARTS, dumps(list(group)))
        return emptied.add(parent, pieces, level=level + 1)

    def ids(self) -> list[str]:
        """Return the pieces that no other refers to, oldest first."""
        return list(chain.from_iterable(reversed(self.levels)))


@dataclass(frozen=True, slots=True)
class ListCut:
    """How far a list is cut. What is cut stays cut when the list grows."""

    size: int = 0
    """Bytes of all items."""
    spilled_bytes: int = 0
    roots: _Roots = _Roots()
    piece_ids: AppendOnly[str] = field(default_factory=AppendOnly)
    """Every piece, those that others refer to included."""
    new_pieces: Mapping[str, str] = field(default_factory=dict)
    """EDN of the pieces that were cut last."""
    texts: tuple[str, ...] = ()
    """EDN of the items that are in no piece."""

    def add(self, items: Sequence[Any]) -> "ListCut":
        """Continue with the next items."""
        texts = list(self.texts)
        texts += [dumps(item if type(item) is str else _ordered(item)) for item in items]
        sizes = [size_of(text) + 1 for text in texts]
        size = self.size + sum(sizes[len(self.texts) :])
        pieces: dict[str, str] = {}
        roots, start = self.roots, 0
        if size > LIST_INLINE_BYTES_MAX:
            # The newest items begin behind what was cut before: they only move towards the end.
            kept_from = len(texts) - _newest_count(sizes)
            for end in _leaf_ends(sizes):
                if end > kept_from:
                    break
                leaf = _add(pieces, ITEMS, f"[{' '.join(texts[start:end])}]")
                roots, start = roots.add(leaf, pieces), end
        return ListCut(
            size=size,
            spilled_bytes=self.spilled_bytes + sum(sizes[:start]),
            roots=roots,
            piece_ids=self.piece_ids.add(pieces) if pieces else self.piece_ids,
            new_pieces=pieces or self.new_pieces,
            texts=tuple(texts[start:]),
        )

    def cut(self, items: AppendOnly[Any]) -> Cut:
        """Return the list in its parts; ``items`` are all of its items."""
        return Cut(
            inline=f"[{' '.join(self.texts)}]",
            roots=self.roots.ids(),
            pieces=GrownPieces(self.piece_ids, new=self.new_pieces, items=items),
            spilled_bytes=self.spilled_bytes,
        )


LIST_CUT: Final[Fold[Any, ListCut]] = Fold(ListCut(), add=ListCut.add)


class GrownPieces(Mapping[str, str]):
    """The pieces of a list. Those that were cut earlier are written again only if asked for."""

    def __init__(
        self, ids: AppendOnly[str], *, new: Mapping[str, str], items: AppendOnly[Any]
    ) -> None:
        self._ids = ids
        self._texts = new
        self._items = items

    def __getitem__(self, piece_id: str) -> str:
        if piece_id not in self._texts:
            self._texts = ListCut().add(self._items[:]).new_pieces
        return self._texts[piece_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def joined_items(roots: Sequence[Any], pieces: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return the items of the pieces in order. Raises ``Corrupt`` if a piece is missing."""
    return [item for leaf in _leaves(roots, pieces) for item in _value(leaf, ITEMS, list)]


def joined_text(roots: Sequence[Any], pieces: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of the pieces. Raises ``Corrupt`` if a piece is missing."""
    return "".join(_value(leaf, PART, str) for leaf in _leaves(roots, pieces))


def missing(roots: Iterable[Any], pieces: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the ids of missing pieces; pieces inside those are unknown."""
    for root in roots:
        piece = pieces.get(root)
        if piece is None:
            yield root
        else:
            yield from missing(piece.get(PARTS, ()), pieces)


def reached(roots: Iterable[Any], pieces: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the ids of the available pieces, including nested ones."""
    for root in roots:
        piece = pieces.get(root)
        if piece is not None:
            yield root
            yield from reached(piece.get(PARTS, ()), pieces)


def weight(
    roots: Iterable[Any], pieces: Mapping[str, Mapping[str, Any]], weights: dict[str, int]
) -> int:
    """Estimate the bytes of the available pieces, nested ones too; ``weights`` caches them."""
    total = 0
    for root in roots:
        if root not in weights:
            piece = pieces.get(root, {})
            inside = piece.get(PARTS)
            weights[root] = len(repr(piece)) if inside is None else weight(inside, pieces, weights)
        total += weights[root]
    return total


def size_of(text: str) -> int:
    """Return the UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode())


def _leaves(
    roots: Sequence[Any], pieces: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    for root in roots:
        piece = pieces.get(root)
        if piece is None:
            raise Corrupt(f"the piece {root!r:.100} is not stored")
        if PARTS in piece:
            yield from _leaves(piece[PARTS], pieces)
        else:
            yield piece


def _value(leaf: Mapping[str, Any], name: str, kind: type) -> Any:
    value = leaf.get(name)
    if not isinstance(value, kind):
        raise Corrupt(f"a piece has no :{name}")
    return value


def _newest_count(sizes: list[int]) -> int:
    total = 0
    for count, size in enumerate(reversed(sizes), 1):
        total += size
        if count == NEWEST_ITEMS or total >= NEWEST_BYTES:
            return count
    return len(sizes)


def _leaf_ends(sizes: list[int]) -> Iterator[int]:
    """Yield the index at which each piece ends."""
    count = total = 0
    for end, size in enumerate(sizes, 1):
        count += 1
        total += size
        if count == LEAF_ITEMS or total >= LEAF_BYTES:
            yield end
            count = total = 0


def _add(pieces: dict[str, str], name: str, value: str) -> str:
    piece_id = PIECE_PREFIX + hashlib.sha256(f"{name} {value}".encode()).hexdigest()
    pieces[piece_id] = f'{{:xt/id "{piece_id}", :{name} {value}}}'
    return piece_id


def _ordered(value: Any) -> Any:
    """Sort the keys of maps, so that an item read and put again becomes the same piece."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value
