r"""EDN values and how they are encoded. Pure.

    Python                    EDN
    None, bool                nil, true, false
    int, float                12, 12345678901234567890N, 0.5
    str                       "text"
    list, tuple               [vector], (list)
    dict, frozenset           {map}, #{set}
    Keyword, Symbol           :xt/id, ?e
    Inst(ms)                  #inst "2026-11-16T00:07:55.188-00:00"
    Tagged(tag, value)        #tag value
    Decimal, Fraction, Char   1.5M, 1/2, \a

A document has keywords for its field names and strings for all nested keys. A value of another
program that a document cannot hold (a keyword, an instant, a ratio …) becomes its EDN text.

Instants use the proleptic Gregorian calendar. The server's is Julian before 1582-10-15: its dates
read back equal, although their milliseconds differ.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Self, TypeAlias
from weakref import WeakValueDictionary

import orjson

from ctxmgr.core.store.documents import DEPTH_MAX, Document
from ctxmgr.errors import Incorrect

NESTING_MAX: Final = 2 * DEPTH_MAX
"""Nested brackets: those of the deepest document, and room for the transaction around it."""

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class EdnError(Exception):
    """The text is not EDN."""


class EdnTruncated(EdnError):  # noqa: N818 -- it says what happened
    """The text ended inside a form, or before one began."""


class Keyword:
    """``Keyword("xt/id")`` is ``:xt/id``. Equal names are the same object."""

    __slots__ = ("__weakref__", "name")
    name: str
    _interned: Final[WeakValueDictionary[str, "Keyword"]] = WeakValueDictionary()

    def __new__(cls, name: str) -> Self:
        """Return the interned keyword of this name, given without its colon."""
        keyword = cls._interned.get(name)
        if keyword is None:
            keyword = super().__new__(cls)
            object.__setattr__(keyword, "name", name)
            keyword = cls._interned.setdefault(name, keyword)
        return keyword  # type: ignore[return-value]  # the class is final in effect

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a keyword is immutable: {name} cannot be set")

    def __str__(self) -> str:
        return f":{self.name}"

    def __repr__(self) -> str:
        return f"Keyword({self.name!r})"

    def __reduce__(self) -> tuple[type["Keyword"], tuple[str]]:
        return Keyword, (self.name,)

    def __lt__(self, other: "Keyword") -> bool:
        return self.name < other.name


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A name in a query: ``?e``, ``pull``, ``...``."""

    name: str


@dataclass(frozen=True, slots=True, order=True)
class Char:
    """A single character, which EDN distinguishes from a string of length one."""

    text: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value with a tag that this codec does not interpret: ``#xtdb/id "…"``, ``#uuid "…"``."""

    tag: str
    value: Any


@dataclass(frozen=True, slots=True)
class Raw:
    """EDN text that is written unchanged; the caller guarantees that it is valid."""

    text: str


@dataclass(frozen=True, slots=True, order=True)
class Inst:
    """An instant: milliseconds since 1970 in UTC, years 0001 to 9999."""

    ms: int

    @classmethod
    def from_iso(cls, text: str) -> Self:
        """Parse RFC 3339, truncating to milliseconds."""
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return cls((moment - _EPOCH) // _MILLISECOND)

    def to_iso(self) -> str:
        """Format it as the server does, with three digits and ``-00:00``."""
        try:
            moment = _EPOCH + self.ms * _MILLISECOND
        except OverflowError as error:
            raise Incorrect(f"instant {self.ms} ms is outside the years 0001 to 9999") from error
        return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "-00:00"


def dumps(value: object) -> str:
    """Encode a value. Raises ``Incorrect`` if it has no EDN form."""
    parts: list[str] = []
    _write(value, parts.append, 0)
    return "".join(parts)


def edn_to_document(value: dict[Any, Any]) -> Document:
    """Convert a decoded map to a document; values of other types become their EDN text."""
    plain = _PLAIN
    document = {
        key.name if type(key) is Keyword else _key(key): item
        if type(item) in plain
        else _document_value(item)
        for key, item in value.items()
    }
    if len(document) != len(value):
        raise EdnError("two keys of a map have the same text")
    return document


_Write: TypeAlias = Callable[[str], object]
_Writer: TypeAlias = Callable[[Any, _Write, int], object]


def _write(value: object, write: _Write, depth: int) -> None:
    writer = _WRITERS.get(type(value))
    if writer is None:
        writer = _inherited_writer(value)
    writer(value, write, depth)


def _inherited_writer(value: object) -> _Writer:
    """Find the writer of a subclass: enums of text, named tuples, other mappings."""
    for kind in (str, int, float, tuple, list, frozenset, set, Mapping):
        if isinstance(value, kind):
            return _WRITERS[dict if kind is Mapping else kind]
    raise Incorrect(f"a {type(value).__name__} has no EDN form")


def _write_text(value: str, write: _Write, _depth: int) -> None:
    """Write a string as JSON: all escapes that orjson writes are valid in EDN."""
    try:
        write(orjson.dumps(value).decode())
    except orjson.JSONEncodeError as error:
        raise Incorrect("the text contains a lone surrogate") from error


def _write_int(value: int, write: _Write, _depth: int) -> None:
    if _LONG_MIN <= value <= _LONG_MAX:
        write(int.__repr__(value))
        return
    try:
        write(f"{int.__repr__(value)}N")
    except ValueError as error:
        raise Incorrect("the integer has too many digits to be written") from error


def _write_float(value: float, write: _Write, _depth: int) -> None:
    if not math.isfinite(value):
        raise Incorrect(f"{value} is not a finite number")
    write(float.__repr__(value))


def _write_decimal(value: Decimal, write: _Write, _depth: int) -> None:
    if not value.is_finite():
        raise Incorrect(f"{value} is not a finite number")
    write(f"{value}M")


def _write_ratio(value: Fraction, write: _Write, _depth: int) -> None:
    write(str(value.numerator) if value.denominator == 1 else str(value))


def _write_char(value: Char, write: _Write, _depth: int) -> None:
    code = ord(value.text)
    write(f"\\{value.text}" if 0x20 < code < 0x7F else f"\\u{code:04x}")  # noqa: PLR2004 -- ASCII


def _write_tagged(value: Tagged, write: _Write, depth: int) -> None:
    _check_depth(depth)
    write(f"#{value.tag} ")
    _write(value.value, write, depth + 1)


def _write_map(value: Mapping[Any, Any], write: _Write, depth: int) -> None:
    _check_depth(depth)
    separator = "{"
    for key, item in value.items():
        write(separator)
        _write(key, write, depth + 1)
        write(" ")
        _write(item, write, depth + 1)
        separator = ", "
    write("}" if value else "{}")


def _sequence_writer(opening: str, closing: str) -> _Writer:
    def write_sequence(value: Any, write: _Write, depth: int) -> None:
        _check_depth(depth)
        write(opening)
        for item in value:
            _write(item, write, depth + 1)
            write(" ")
        write(closing)

    return write_sequence


def _check_depth(depth: int) -> None:
    if depth >= NESTING_MAX:
        raise Incorrect(f"nested more than {NESTING_MAX} levels deep")


_WRITERS: Final[dict[type, _Writer]] = {
    str: _write_text,
    bool: lambda value, write, _depth: write("true" if value else "false"),
    type(None): lambda _value, write, _depth: write("nil"),
    int: _write_int,
    float: _write_float,
    dict: _write_map,
    list: _sequence_writer("[", "]"),
    tuple: _sequence_writer("(", ")"),
    frozenset: _sequence_writer("#{", "}"),
    set: _sequence_writer("#{", "}"),
    Keyword: lambda value, write, _depth: write(f":{value.name}"),
    Symbol: lambda value, write, _depth: write(value.name),
    Raw: lambda value, write, _depth: write(value.text),
    Inst: lambda value, write, _depth: write(f'#inst "{value.to_iso()}"'),
    Tagged: _write_tagged,
    Decimal: _write_decimal,
    Fraction: _write_ratio,
    Char: _write_char,
}

_PLAIN: Final = frozenset({str, int, bool, type(None)})


def _document_value(value: object) -> Any:
    if isinstance(value, list | tuple):
        return [item if type(item) in _PLAIN else _document_value(item) for item in value]
    if isinstance(value, Mapping):
        return _nested_map(value)
    if isinstance(value, frozenset):
        return [_document_value(item) for item in sorted(value, key=_text)]
    if isinstance(value, float):
        return value if math.isfinite(value) else _text(value)
    return value if type(value) in _PLAIN else _text(value)


def _nested_map(value: Mapping[Any, Any]) -> Document:
    nested = {
        _key(key): item if type(item) in _PLAIN else _document_value(item)
        for key, item in value.items()
    }
    if len(nested) != len(value):
        raise EdnError("two keys of a map have the same text")
    return nested


def _key(key: object) -> str:
    return key if type(key) is str else _text(key)


def _text(value: object) -> str:
    """Return the EDN text of a value, including the symbolic numbers that ``dumps`` refuses."""
    if isinstance(value, float) and not math.isfinite(value):
        return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
    try:
        return dumps(value)
    except Incorrect as error:
        raise EdnError(f"a stored {type(value).__name__} has no EDN text: {error}") from error
