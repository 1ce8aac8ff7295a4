"""What may be searched, and how values are ordered. Pure but for ``load`` and ``declare``.

    key of a value    null: no bytes · boolean, integer: itself · text: "t" and its UTF-16 order

SQLite orders integers before bytes, and bytes by value, so one column orders them all; null sorts
between integers and text, and no search for order or range ever meets it.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import apsw

from ctxmgr.core.documents import ID, KIND, Document
from ctxmgr.core.store import FieldType, Kind
from ctxmgr.core.transactions import fits
from ctxmgr.errors import Incorrect
from ctxmgr.stores.sqlite_statements import statements

Key: TypeAlias = int | bytes

NULL_KEY: Final = b""
TEXT_LOW: Final = b"t"
TEXT_HIGH: Final = b"u"
INTEGER_LOW: Final = -(2**63)
KIND_FIELD: Final = ""
"""The name under which a kind's documents are found without any field."""

_BMP_LAST: Final = "\uffff"


@dataclass(slots=True)
class Fields:
    """The searchable fields that the file declares."""

    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """fid by (kind, field name)."""
    declared: dict[str, dict[str, FieldType]] = field(default_factory=dict)

    searched: set[str] = field(default_factory=lambda: {ID, KIND})
    """The names of all fields that any kind is found by."""

    _of_kind: dict[str, list[tuple[int, str, FieldType]]] = field(default_factory=dict)

    def add(self, fid: int, kind: str, name: str, type_name: str) -> None:
        self.numbers[kind, name] = fid
        self.searched.add(name)
        of_kind = self._of_kind.setdefault(kind, [])
        if name != KIND_FIELD:
            declared = self.declared.setdefault(kind, {})[name] = FieldType(type_name)
            of_kind.append((fid, name, declared))

    def newest(self) -> int | None:
        """The last fid; tells whether there are more by now."""
        return max(self.numbers.values(), default=None)

    def kinds(self) -> dict[str, Kind]:
        """What callers are held to."""
        return {name: Kind(name, dict(types)) for name, types in self.declared.items()}

    def values(self, document: Document) -> list[tuple[int, Any]]:
        """What this document is found by: (fid, value) of its kind and each field it holds."""
        kind = document[KIND]
        found: list[tuple[int, Any]] = [(self.numbers[kind, KIND_FIELD], None)]
        for fid, name, declared in self._of_kind[kind]:
            if name in document:
                value = document[name]
                if value is not None and not fits(value, declared):
                    raise Incorrect(f"{document[ID]}: {kind} declares {name} as {declared}")
                found.append((fid, value))
        return found


def sort_key(value: str | int | None) -> Key:
    """What the value is ordered by."""
    if value is None:
        return NULL_KEY
    if isinstance(value, str):
        return TEXT_LOW + text_order(value)
    return int(value)


def text_order(text: str) -> bytes:
    """Bytes that order as the text's UTF-16 code units do."""
    if text.isascii() or max(text) <= _BMP_LAST:
        return text.encode()
    units = array("H", text.encode("utf-16-le"))
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass")


def load(connection: apsw.Connection) -> Fields:
    """Read what the file declares."""
    fields = Fields()
    for row in connection.execute(statements()["fields"]):
        fields.add(*row)
    return fields


def missing(fields: Fields, kinds: Iterable[Kind]) -> list[tuple[str, str, str]]:
    """The declarations that the file does not have yet, as (kind, field, type)."""
    asked: list[tuple[str, str, str]] = []
    for kind in kinds:
        known: Mapping[str, FieldType] = fields.declared.get(kind.name, {})
        if (kind.name, KIND_FIELD) not in fields.numbers:
            asked.append((kind.name, KIND_FIELD, KIND))
        for name, declared in kind.indexed.items():
            if name not in known:
                asked.append((kind.name, name, str(declared)))
            elif known[name] != declared:
                raise Incorrect(
                    f"{kind.name}.{name} is declared as {declared}, but this file has it as "
                    f"{known[name]}"
                )
    return asked
