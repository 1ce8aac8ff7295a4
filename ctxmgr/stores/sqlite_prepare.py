"""A document in bytes, as the writer takes it. Computes."""

from typing import Final, NamedTuple, TypeAlias

from ctxmgr.core.documents import ID, Document, check_size
from ctxmgr.stores.sqlite_bodies import raw_fields
from ctxmgr.stores.sqlite_layout import SPACE, dumps, join_fields, loads

PLAIN_MAX: Final = 1_024
"""Bytes of JSON up to which a document is stored as it is: taking it apart would save little."""

_SIZED: Final = (str, list, dict)

Raws: TypeAlias = list[tuple[str, bytes]]


class Prepared(NamedTuple):
    """A document in bytes, taken when the caller gave it."""

    document: Document
    """A copy of its top level, from which declared fields are taken."""
    plain: bytes | None
    raws: Raws
    """Each field's JSON, where it is not plain."""
    exact: bool
    size: int

    def back(self) -> Document:
        """The document as it was when the caller gave it."""
        plain = self.plain or join_fields(self.raws, exact=self.exact)
        document: Document = loads(plain)
        return document


def prepare(document: Document) -> Prepared:
    """Encode a document; ``Incorrect`` if it is larger than any may be."""
    if not _heavy(document):
        plain = dumps(document)
        if len(plain) <= PLAIN_MAX:
            return Prepared(document.copy(), plain, [], plain[0] == SPACE, len(plain))
    exact, raws = raw_fields(document)
    size = sum([len(raw) for _, raw in raws])
    check_size(document[ID], size)
    if size <= PLAIN_MAX:
        return Prepared(document.copy(), join_fields(raws, exact=exact), [], exact, size)
    return Prepared(document.copy(), None, raws, exact, size)


def _heavy(document: Document) -> bool:
    """Tell whether it is surely larger than what is stored as it is."""
    for value in document.values():
        if isinstance(value, _SIZED) and len(value) > PLAIN_MAX // 2:
            return True
    return False
