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

PIECE_MIN: Final = 4_096
"""Bytes of JSON from which a value is stored once, found by its hash; that takes some 80 bytes."""

_ITEMS_MAX: Final = 32
"""Items of a list from which the document is not even tried whole: most are larger than that."""

_ESCAPED_MAX: Final = 6
"""Bytes of JSON that a character becomes at most."""

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
        return Prepared(document.copy(), whole, (), False, len(whole))
    exact, raws = raw_fields(document)
    size = sum([len(raw) for _, raw in raws])
    check_size(document[ID], size)
    if size <= PLAIN_MAX:
        return Prepared(document.copy(), join_fields(raws, exact=exact), (), exact, size)
    return Prepared(document.copy(), None, raws, exact, size)


def _whole(document: Document) -> bytes | None:
    """Its JSON, if nothing in it may be kept elsewhere."""
    for value in document.values():
        if isinstance(value, str):
            if len(value) >= PIECE_MIN:
                return None
        elif isinstance(value, list) and len(value) > _ITEMS_MAX:
            return None
    try:
        whole = orjson.dumps(document)
    except TypeError:  # an integer beyond 64 bits
        return None
    return None if len(whole) > PLAIN_MAX and _has_parts(document, len(whole)) else whole


def _has_parts(document: Document, size: int) -> bool:
    for value in document.values():
        if isinstance(value, list) and value:
            return True
        if size >= PIECE_MIN and _may_be_large(value) and len(orjson.dumps(value)) >= PIECE_MIN:
            return True
    return False


def _may_be_large(value: object) -> bool:
    if isinstance(value, str):
        return len(value) * _ESCAPED_MAX >= PIECE_MIN
    return isinstance(value, dict)
