"""Searchable fields, and the sort keys of their values. ``load`` reads the database.

    sort key    null: no bytes · boolean, integer: itself · text: "t" and its UTF-16 order

SQLite orders integers before bytes, and bytes by value, so one column orders all types. Null sorts
between integers and text; queries with an order or a range exclude it.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import apsw
import orjson

from ctxmgr.core.store.contract import FieldType, Kind
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.core.store.transactions import fits
from ctxmgr.errors import Incorrect
from ctxmgr.stores.sqlite.connection import statements

Key: TypeAlias = int | bytes

NULL_KEY: Final = b""
TEXT_LOW: Final = b"t"
TEXT_HIGH: Final = b"u"
INTEGER_LOW: Final = -(2**63)
KIND_FIELD: Final = ""
"""The pseudo-field under which all documents of a kind are indexed."""

_BMP_LAST: Final = "\uffff"


@dataclass(slots=True)
class Fields:
    """The searchable fields that the file declares."""

    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """fid by (kind, field name)."""
    declared: dict[str, dict[str, FieldType]] = field(default_factory=dict)

    searched: set[str] = field(default_factory=lambda: {ID, KIND})
    """The names of the declared fields of all kinds, and those that every search needs."""

    _of_kind: dict[str, list[tuple[int, str, FieldType]]] = field(default_factory=dict)
    _kind_names: dict[int, str] = field(default_factory=dict)

    def add(self, fid: int, kind: str, name: str, type_name: str) -> None:
        self.numbers[kind, name] = fid
        self.searched.add(name)
        self._kind_names[fid] = kind
        of_kind = self._of_kind.setdefault(kind, [])
        if name != KIND_FIELD:
            declared = self.declared.setdefault(kind, {})[name] = FieldType(type_name)
            of_kind.append((fid, name, declared))

    def newest(self) -> int | None:
        """Return the highest fid; a higher one in the file means that fields were added."""
        return max(self.numbers.values(), default=None)

    def kinds(self, given: Mapping[str, Kind]) -> dict[str, Kind]:
        """Return the kinds against which documents and queries are checked.

        The file knows the fields of every kind it was ever opened with; the rules for writing are
        those of the kinds given now.
        """
        stored = {name: Kind(name, dict(types)) for name, types in self.declared.items()}
        for name, kind in given.items():
            stored[name] = replace(kind, indexed=self.declared.get(name, {}))
        return stored

    def kind_of(self, head_fields: str) -> str:
        """Return the kind of a visible version, given the searchable values of its head."""
        fid, _ = orjson.loads(head_fields)[0]
        return self._kind_names[fid]

    def values(self, document: Document) -> list[tuple[int, Any]]:
        """Return the searchable values of a document: (fid, value) of its kind and its fields."""
        kind = document[KIND]
        values: list[tuple[int, Any]] = [(self.numbers[kind, KIND_FIELD], None)]
        for fid, name, declared in self._of_kind[kind]:
            if name in document:
                value = document[name]
                if value is not None and not fits(value, declared):
                    raise Incorrect(
                        f"{document[ID]}: {kind} declares {name} as {declared}, not {value!r:.80}"
                    )
                values.append((fid, value))
        return values


def sort_key(value: str | int | None) -> Key:
    """Return the key that the value is ordered by."""
    if value is None:
        return NULL_KEY
    if isinstance(value, str):
        return TEXT_LOW + text_order(value)
    return int(value)


def text_order(text: str) -> bytes:
    """Return bytes that order as the text's UTF-16 code units do."""
    if text.isascii() or max(text) <= _BMP_LAST:  # there UTF-8 has the same order
        return text.encode()
    units = array("H", text.encode("utf-16-le"))
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass")


def load(connection: apsw.Connection) -> Fields:
    """Read the fields that the file declares."""
    fields = Fields()
    for row in connection.execute(statements()["fields"]):
        fields.add(*row)
    return fields


def missing(fields: Fields, kinds: Iterable[Kind]) -> list[tuple[str, str, str]]:
    """Return the declarations that the file does not have yet, as (kind, field, type)."""
    new: list[tuple[str, str, str]] = []
    for kind in kinds:
        stored: Mapping[str, FieldType] = fields.declared.get(kind.name, {})
        if (kind.name, KIND_FIELD) not in fields.numbers:
            new.append((kind.name, KIND_FIELD, KIND))
        for name, declared in kind.indexed.items():
            if name not in stored:
                new.append((kind.name, name, str(declared)))
            elif stored[name] != declared:
                raise Incorrect(
                    f"{kind.name}.{name} is declared as {declared}, but this file has it as "
                    f"{stored[name]}"
                )
    return new
