r"""Canonical JSON: the single byte representation of a value, on which all hashes are based. Pure.

RFC 8785 with one extension (003-A15): an integer of any size is written in exact decimal digits.

    keys      sorted by UTF-16 code unit, at every level
    text      UTF-8; only ``"``, ``\`` and control characters are escaped
    floats    as ECMAScript prints them: 1.0 is ``1``, 1e21 is ``1e+21``, -0.0 is ``0``
    refused   NaN, infinities, lone surrogates, keys that are not strings, every other type

orjson is the fast path, used only where its output is provably the same: keys are ASCII, and floats
are non-integral and between 1e-4 and 1e15. Everything else is written, or refused, here.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import orjson

from ctxmgr.core.append_only import AppendOnly, Fold, merged_parts
from ctxmgr.core.store.documents import DEPTH_MAX, check_value
from ctxmgr.errors import Incorrect

_NESTING_MAX: Final = 2 * DEPTH_MAX
"""A document and what surrounds it, far below Python's recursion limit of 1,000."""

_NESTED: Final = frozenset({list, dict})
_SIMPLE: Final = frozenset({str, int, bool, type(None)})
"""Exactly these types and floats, because orjson has encodings for subclasses, dates and
dataclasses."""

_FEW: Final = 8
"""Items whose types are looked at one by one faster than all at once."""

_UNAMBIGUOUS_FLOATS: Final = (1e-4, 1e15)
"""Between these, every shortest-float algorithm writes digits with a point and no exponent."""

_INTEGER_FLOATS: Final = 2.0**53
"""Below this an integral float has the digits of the integer; above it ECMAScript rounds them."""

_POINT_MAX: Final = 21
_POINT_MIN: Final = -6
"""Beyond these, ECMAScript's Number::toString writes an exponent."""

_PRINTABLE_BITS: Final = 14_000
"""Python refuses to print integers of more than 4,300 digits, which is 14,284 bits."""


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a value; ``Incorrect`` if it has none."""
    if value is None or type(value) is str:
        return b"null" if value is None else _text(value)
    if _is_plain([value], _NESTING_MAX) and (written := _written_fast(value)) is not None:
        return written
    parts: list[bytes] = []
    _write(value, parts.append, 0)
    return b"".join(parts)


def checked_canonical(value: list[Any] | dict[str, Any], *, where: str, depth: int = 0) -> bytes:
    """Return the canonical bytes of a value; ``Incorrect`` if a document must not hold it.

    The same as ``check_value`` and ``canonical``, in one pass over what most values are.
    """
    plain = depth < DEPTH_MAX and _is_plain(value, DEPTH_MAX - depth - 1)
    if plain and (written := _written_fast(value)) is not None:
        return written
    check_value(value, where=where, depth=depth)
    return canonical(value)


def _written_fast(value: object) -> bytes | None:
    """Return the canonical bytes of a plain value; None if orjson cannot write it.

    That is a lone surrogate, an integer beyond 64 bits or a key of a subclass of str: ``_write``
    writes it, or says what is wrong with it.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return None


class CanonicalItems:
    """The canonical bytes of a list without its brackets, in a few parts."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: tuple[bytes, ...] = ()) -> None:
        self.parts = parts
        self._hash: hashlib._Hash | None = None

    def add(self, items: Sequence[Any]) -> "CanonicalItems":
        """Return the bytes of a list with more items."""
        piece = b",".join(map(canonical, items))
        if self.parts:
            piece = b"," + piece
        longer = CanonicalItems(merged_parts(self.parts, piece))
        if self._hash is not None:
            longer._hash = self._hash.copy()
            longer._hash.update(piece)
        return longer

    def digest(self) -> str:
        """Return their SHA-256, computed on demand and then continued by longer lists."""
        if self._hash is None:
            hashed = hashlib.sha256()
            for part in self.parts:
                hashed.update(part)
            self._hash = hashed
        return self._hash.hexdigest()


CANONICAL_ITEMS: Final[Fold[Any, CanonicalItems]] = Fold(CanonicalItems(), add=CanonicalItems.add)


def canonical_items(items: AppendOnly[Any]) -> CanonicalItems:
    """Return the canonical bytes of a list that grows; only new items are encoded."""
    return CANONICAL_ITEMS.of(items)


def _is_plain(nested: list[Any] | dict[str, Any], levels: int) -> bool:
    """Whether orjson writes it canonically, or refuses it; ``levels`` may be nested in it."""
    items: Collection[Any] = nested
    if type(nested) is dict:
        try:
            if not "".join(nested).isascii():
                return False
        except TypeError:  # a key that is not a string
            return False
        items = nested.values()
    if len(nested) > _FEW and set(map(type, items)) <= _SIMPLE:
        return True
    for item in items:
        kind = type(item)
        if kind in _SIMPLE:
            continue
        if kind is float:
            if not _is_unambiguous(item):
                return False
        elif kind not in _NESTED or not levels or (item and not _is_plain(item, levels - 1)):
            return False
    return True


def _is_unambiguous(number: float) -> bool:
    low, high = _UNAMBIGUOUS_FLOATS
    return low <= abs(number) < high and not number.is_integer()


def _write(value: object, emit: Callable[[bytes], None], depth: int) -> None:
    match value:
        case str():
            emit(_text(value))
        case list():
            _write_list(value, emit, depth + 1)
        case dict():
            _write_map(value, emit, depth + 1)
        case None:
            emit(b"null")
        case bool():
            emit(b"true" if value else b"false")
        case int():
            emit(_digits(int(value)).encode())
        case float():
            emit(_ecmascript(float(value)).encode())
        case _:
            raise Incorrect(f"a {type(value).__name__} has no canonical form: {value!r:.80}")


def _write_list(items: list[Any], emit: Callable[[bytes], None], depth: int) -> None:
    _check_depth(depth)
    separator = b"["
    for item in items:
        emit(separator)
        _write(item, emit, depth)
        separator = b","
    emit(b"]" if items else b"[]")


def _write_map(fields: dict[Any, Any], emit: Callable[[bytes], None], depth: int) -> None:
    _check_depth(depth)
    is_ascii = _all_keys(fields).isascii()
    separator = b"{"
    # RFC 8785 orders keys by UTF-16 code unit.
    order = None if is_ascii else lambda key: key.encode("utf-16-be", "surrogatepass")
    for key in sorted(fields, key=order):
        emit(separator + _text(key) + b":")
        _write(fields[key], emit, depth)
        separator = b","
    emit(b"}" if fields else b"{}")


def _check_depth(depth: int) -> None:
    if depth > _NESTING_MAX:
        raise Incorrect(f"nested more than {_NESTING_MAX} levels deep")


def _all_keys(fields: dict[Any, Any]) -> str:
    try:
        return "".join(fields)
    except TypeError:
        invalid = next(key for key in fields if not isinstance(key, str))
        raise Incorrect(f"the key {invalid!r:.80} is not a string") from None


def _text(text: str) -> bytes:
    try:
        return orjson.dumps(str(text))
    except orjson.JSONEncodeError:
        raise Incorrect(f"{text!r:.80} contains a lone surrogate") from None


def _digits(number: int) -> str:
    if number.bit_length() < _PRINTABLE_BITS:
        return str(number)
    # Too long to print at once: divided in the middle of its digits.
    if number < 0:
        return "-" + _digits(-number)
    low_digits = int(number.bit_length() * math.log10(2)) // 2
    high, low = divmod(number, 10**low_digits)
    return _digits(high) + _digits(low).zfill(low_digits)


def _ecmascript(number: float) -> str:
    if not math.isfinite(number):
        raise Incorrect(f"{number} has no canonical form")
    if number.is_integer() and abs(number) < _INTEGER_FLOATS:
        return str(int(number))
    digits, point = _shortest(abs(number))
    return ("-" if number < 0 else "") + _with_point(digits, point)


def _shortest(number: float) -> tuple[str, int]:
    """Return the digits and the position of the point: 0.digits x 10^point."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    return digits.rstrip("0"), len(whole) - leading_zeros + int(exponent or 0)


def _with_point(digits: str, point: int) -> str:
    if len(digits) <= point <= _POINT_MAX:
        return digits.ljust(point, "0")
    if 0 < point <= _POINT_MAX:
        return f"{digits[:point]}.{digits[point:]}"
    if _POINT_MIN < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
