"""A document in bytes, as the writer takes it. Computes.

    small, or nothing in it is worth keeping elsewhere   its JSON, which is its body
    the others                                           the JSON of every field

A file of some KB is of the first sort: its JSON is written once, whole. Only where there is a
version before it, with which it may share fields, is it taken apart.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self, TypeAlias

import orjson

from ctxmgr.core.documents import ID, Document, check_size
from ctxmgr.stores.sqlite_bodies import raw_fields
from ctxmgr.stores.sqlite_layout import join_fields, loads

PLAIN_MAX: Final = 1_024
"""Bytes of JSON up to which a document is stored as it is: taking it apart would save little."""

PIECE_MIN: Final = 8_192
"""Bytes of JSON from which a value is stored once, found by its hash. That is half a page: looking
for a smaller one takes as long as writing it several times."""

_ITEMS_MAX: Final = 32
"""Items of lists above which the document is not even tried whole: hardly one is small."""

_LARGE_MIN: Final = PIECE_MIN // 6
"""Characters from which a text may be large: each becomes six bytes of JSON at most."""

_NESTING: Final = (dict, list)

Raws: TypeAlias = Sequence[tuple[str, bytes]]


class Prepared(NamedTuple):
    """A document in bytes, taken when the caller gave it."""

    document: Document
    """A copy of its top level, from which declared fields are taken."""
    json: bytes | None
    """All of it; None: parts of it may be kept elsewhere."""
    raws: Raws
    """Each field's JSON, where it is not whole."""
    exact: bool
    size: int

    @property
    def is_small(self) -> bool:
        """Tell whether it is stored as it is, whatever came before."""
        return self.json is not None and self.size <= PLAIN_MAX

    def taken_apart(self) -> Self:
        """The same, with each field's JSON."""
        if self.json is None:
            return self
        return self._replace(json=None, raws=raw_fields(loads(self.json))[1])

    def back(self) -> Document:
        """The document as it was when the caller gave it."""
        document: Document = loads(self.json or join_fields(self.raws, exact=self.exact))
        return document


def prepare(document: Document) -> Prepared:
    """Encode a document; ``Incorrect`` if it is larger than any may be."""
    whole = _whole(document)
    if whole is not None:
        check_size(document[ID], len(whole))
        return Prepared(document.copy(), whole, (), False, len(whole))
    exact, raws = raw_fields(document)
    size = sum([len(raw) for _, raw in raws])
    check_size(document[ID], size)
    if size <= PLAIN_MAX:
        return Prepared(document.copy(), join_fields(raws, exact=exact), (), exact, size)
    return Prepared(document.copy(), None, raws, exact, size)


def _whole(document: Document) -> bytes | None:
    """Its JSON, if nothing in it may be kept elsewhere."""
    items = 0
    for value in document.values():
        if isinstance(value, list):
            items += len(value)
        elif isinstance(value, str) and len(value) >= PIECE_MIN:
            return None
    if items > _ITEMS_MAX:
        return None
    try:
        whole = orjson.dumps(document)
    except TypeError:  # an integer beyond 64 bits
        return None
    size = len(whole)
    if size > PLAIN_MAX and (items or (size >= PIECE_MIN and _has_large(document))):
        return None
    # A copy: what orjson gives lies in a buffer of up to twice its size, and hundreds are kept.
    return bytes(memoryview(whole))


def _has_large(document: Document) -> bool:
    return any(
        len(orjson.dumps(value)) >= PIECE_MIN
        for value in document.values()
        if isinstance(value, _NESTING) or (isinstance(value, str) and len(value) >= _LARGE_MIN)
    )
