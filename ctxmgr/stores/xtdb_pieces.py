"""Big values as immutable pieces that versions share. Pure.

    text      over 256 KiB    :ctxmgr/text.FIELD  [piece …]       the field itself is left out
    list      over 8 KiB      :ctxmgr/older.FIELD [piece …]       the field keeps the newest items

    piece     {:xt/id "ctxmgr/piece/SHA-256" :ctxmgr/items […]}     some items, in order
              {:xt/id "ctxmgr/piece/SHA-256" :ctxmgr/part "…"}      some of a text
              {:xt/id "ctxmgr/piece/SHA-256" :ctxmgr/parts [piece …]}   pieces, in order

A list is cut from its beginning, by its items alone, so one that only grows keeps its pieces and
sends each once. Sixteen pieces of a kind become one that names them, and so on: a list of 100,000
ids is named by some twenty pieces.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from ctxmgr.errors import Corrupt
from ctxmgr.stores.edn import dumps

TEXT_INLINE_BYTES_MAX: Final = 256 * 1024
"""UTF-8 bytes of a text that stays in its document: far more than the source files people write."""

TEXT_PART_CHARACTERS: Final = 256 * 1024
"""One part of a longer text: a change sends the parts after it again, not those before."""

LIST_INLINE_BYTES_MAX: Final = 8 * 1024
"""A list of 120 hashes stays in its document, where plain queries find it."""

NEWEST_ITEMS: Final = 16
NEWEST_BYTES: Final = 16 * 1024
"""Of a longer list the document keeps this many items or bytes, whichever is reached first: every
commit sends them again, and eight turns of 2 KB are what people look at."""

LEAF_ITEMS: Final = 32
LEAF_BYTES: Final = 8 * 1024
"""A piece ends with the item that reaches either: small, because up to one piece more than the
newest items waits in the document to become a piece, and is sent with every commit until then."""

FAN_OUT: Final = 16
"""Pieces that one piece names."""

PIECE_PREFIX: Final = "ctxmgr/piece/"
ITEMS: Final = "ctxmgr/items"
PART: Final = "ctxmgr/part"
PARTS: Final = "ctxmgr/parts"


@dataclass(slots=True)
class Cut:
    """A value taken apart: what stays in the document, and the pieces that hold the rest."""

    inline: str
    """EDN."""
    roots: list[str] = field(default_factory=list)
    pieces: dict[str, str] = field(default_factory=dict)
    """The EDN of every piece by its id, whether or not it is stored already."""
    spilled_bytes: int = 0
    """Of what is in pieces, however often one piece is named."""


def cut_text(text: str) -> Cut | None:
    """Take a long text apart; None: it is short enough."""
    if len(text) * 4 <= TEXT_INLINE_BYTES_MAX or len(text.encode()) <= TEXT_INLINE_BYTES_MAX:
        return None
    cut = Cut("nil")
    for start in range(0, len(text), TEXT_PART_CHARACTERS):
        part = dumps(text[start : start + TEXT_PART_CHARACTERS])
        cut.roots.append(_add(cut.pieces, PART, part))
        cut.spilled_bytes += size_of(part)
    cut.roots = _grouped(cut.roots, cut.pieces)
    return cut


def cut_list(items: Sequence[Any]) -> Cut:
    """Take a long list apart; a short one has no pieces."""
    texts = [dumps(each if type(each) is str else _ordered(each)) for each in items]
    sizes = [size_of(each) + 1 for each in texts]
    if sum(sizes) <= LIST_INLINE_BYTES_MAX:
        return Cut(f"[{' '.join(texts)}]")
    cut = Cut("")
    kept_from = len(texts) - _newest_count(sizes)
    start = 0
    for end in _leaf_ends(sizes):
        if end > kept_from:
            break
        cut.roots.append(_add(cut.pieces, ITEMS, f"[{' '.join(texts[start:end])}]"))
        start = end
    cut.inline = f"[{' '.join(texts[start:])}]"
    cut.spilled_bytes = sum(sizes[:start])
    cut.roots = _grouped(cut.roots, cut.pieces)
    return cut


def joined_items(roots: Sequence[Any], pieces: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return the items of the pieces in order. Raises ``Corrupt`` when one is missing."""
    return [item for leaf in _leaves(roots, pieces) for item in _held(leaf, ITEMS, list)]


def joined_text(roots: Sequence[Any], pieces: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of the pieces. Raises ``Corrupt`` when one is missing."""
    return "".join(_held(leaf, PART, str) for leaf in _leaves(roots, pieces))


def missing(roots: Iterable[Any], pieces: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
    """Name the pieces that are not there; what they would name is not known, then."""
    for root in roots:
        piece = pieces.get(root)
        if piece is None:
            yield root
        else:
            yield from missing(piece.get(PARTS, ()), pieces)


def reached(roots: Iterable[Any], pieces: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Name the pieces, and all inside them, that are there."""
    for root in roots:
        piece = pieces.get(root)
        if piece is not None:
            yield root
            yield from reached(piece.get(PARTS, ()), pieces)


def weight(
    roots: Iterable[Any], pieces: Mapping[str, Mapping[str, Any]], weights: dict[str, int]
) -> int:
    """Estimate the bytes of the pieces, and all inside them, that are there; each only once."""
    total = 0
    for root in roots:
        if root not in weights:
            piece = pieces.get(root, {})
            inside = piece.get(PARTS)
            weights[root] = len(repr(piece)) if inside is None else weight(inside, pieces, weights)
        total += weights[root]
    return total


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
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


def _held(leaf: Mapping[str, Any], name: str, kind: type) -> Any:
    held = leaf.get(name)
    if not isinstance(held, kind):
        raise Corrupt(f"a piece has no :{name}")
    return held


def _newest_count(sizes: list[int]) -> int:
    total = 0
    for count, size in enumerate(reversed(sizes), 1):
        total += size
        if count == NEWEST_ITEMS or total >= NEWEST_BYTES:
            return count
    return len(sizes)


def _leaf_ends(sizes: list[int]) -> Iterator[int]:
    """Where each piece ends, from the beginning of the list."""
    count = total = 0
    for end, size in enumerate(sizes, 1):
        count += 1
        total += size
        if count == LEAF_ITEMS or total >= LEAF_BYTES:
            yield end
            count = total = 0


def _grouped(ids: list[str], pieces: dict[str, str]) -> list[str]:
    """Let one piece name each full group, the oldest first, until no level has a full group."""
    if len(ids) < FAN_OUT:
        return ids
    whole = len(ids) - len(ids) % FAN_OUT
    rest = iter(ids[:whole])
    groups = [
        _add(pieces, PARTS, dumps(group)) for group in iter(lambda: list(islice(rest, FAN_OUT)), [])
    ]
    return [*_grouped(groups, pieces), *ids[whole:]]


def _add(pieces: dict[str, str], name: str, value: str) -> str:
    piece_id = PIECE_PREFIX + hashlib.sha256(f"{name} {value}".encode()).hexdigest()
    pieces[piece_id] = f'{{:xt/id "{piece_id}", :{name} {value}}}'
    return piece_id


def _ordered(value: Any) -> Any:
    """Sort the keys of maps, so that an item read back and put again is the same piece."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    return value
