"""The canonical bytes of an object's versions, one after the other. Pure.

    fields   what a version changed of the one before it, by name
             {"=": value}    set
             {"+": items}    a list that grew at its end
             None            gone

Each field's bytes are kept, and those of a list are continued: so a chat of a thousand versions is
written out once. Only the hash of a version is taken of all its bytes, as its definition asks.
"""

from collections.abc import Collection
from typing import Any, Final

import orjson

from ctxmgr.core.canonical import canonical
from ctxmgr.core.documents import Document
from ctxmgr.core.hashes import sha256

GROWN, SET = "+", "="

_KEPT: Final[frozenset[str]] = frozenset()


class VersionBytes:
    """The bytes of the newest version it was given. Field names are ASCII, as stores demand."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lists: dict[str, bytearray] = {}
        """From the opening bracket on, still open."""

    def change(self, fields: Document) -> None:
        """Go on to the next version."""
        for name, change in fields.items():
            if change is not None and GROWN in change:
                _continue(self._lists[name], change[GROWN])
                continue
            self._values.pop(name, None)
            self._lists.pop(name, None)
            if change is not None and isinstance(change[SET], list):
                self._lists[name] = bytearray(b"[")
                _continue(self._lists[name], change[SET])
            elif change is not None:
                self._values[name] = canonical(change[SET])

    def hash(self, *, without: Collection[str] = _KEPT) -> str:
        """Return the SHA-256 of the version in canonical JSON, but for some fields."""
        parts: list[bytes | bytearray] = []
        for name in sorted({*self._values, *self._lists}.difference(without)):
            parts += (b"," if parts else b"{", canonical(name), b":")
            value = self._values.get(name)
            parts += (self._lists[name], b"]") if value is None else (value,)
        return sha256(*parts, b"}") if parts else sha256(b"{}")


def difference(before: Document, document: Document) -> Document:
    """Return what a version changed of the one before it; ``{}`` before the first."""
    fields: Document = {}
    for name, value in document.items():
        old = before.get(name)
        if isinstance(value, list) and isinstance(old, list) and _is_start(old, value):
            if len(value) > len(old):
                fields[name] = {GROWN: value[len(old) :]}
        elif name not in before or not _is_same(old, value):
            fields[name] = {SET: value}
    gone = [name for name in before if name not in document]
    return fields | dict.fromkeys(gone)


def is_change(change: object) -> bool:
    """Tell whether this can be a field's change: what else there is would be read in two ways."""
    if change is None:
        return True
    if not isinstance(change, dict) or len(change) != 1:
        return False
    return SET in change or isinstance(change.get(GROWN), list)


def changed(before: Document, fields: Document) -> Document:
    """Return the version that differs so from the one before it."""
    document = dict(before)
    for name, change in fields.items():
        if change is None:
            document.pop(name, None)
        elif GROWN in change:
            document[name] = [*document[name], *change[GROWN]]
        else:
            document[name] = change[SET]
    return document


def _continue(written: bytearray, items: list[Any]) -> None:
    if items:
        written += b"," if len(written) > 1 else b""
        written += canonical(items)[1:-1]


def _is_start(old: list[Any], new: list[Any]) -> bool:
    if len(old) > len(new):
        return False
    # Versions that were read together mostly share their items.
    others = [pair for pair in zip(old, new, strict=False) if pair[0] is not pair[1]]
    return _is_same([pair[0] for pair in others], [pair[1] for pair in others])


def _is_same(old: Any, new: Any) -> bool:
    """Compare as they are stored: for Python, True and 1 are equal.

    Canonical JSON would take several times as long; where both are written alike they are equal.
    """
    try:
        return _compact(old) == _compact(new)
    except TypeError:  # an integer beyond 64 bits
        return canonical(old) == canonical(new)


def _compact(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
