"""What a stored document may hold. Pure.

    document   {"xt/id": text, "type": text, field: value, …}     flat: one level of fields
    field      a name made of letters, digits, _ and -            no namespace: those are reserved
    value      null, boolean, integer, float, text, list, or map with text keys

Integers may exceed 64 bits. NaN, infinities and lone surrogates have no canonical form and are
refused, as is everything that a JSON reader in another language could not read. Negative zero may
be read back as zero, which is equal and has the same canonical form.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ctxmgr.core.append_only import AppendOnly, Fold
from ctxmgr.errors import Incorrect

Document: TypeAlias = dict[str, Any]

ID: Final = "xt/id"
KIND: Final = "type"

OBJECT_ID_BYTES_MAX: Final = 1_024
"""UTF-8 bytes of an object id. Servers accept URLs of 8 KiB, in which a byte may take six."""

DEPTH_MAX: Final = 128
"""Nesting of lists and maps; every reader and writer on the way recurses."""

INTEGER_BITS_MAX: Final = 14_000
"""Python parses integers of up to 4,300 digits, which is 14,284 bits."""

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one encoded document. Real content is far smaller: this bounds memory."""

TRANSACTION_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of all documents of a transaction. With ids and metadata a request is at most twice as
large, and the server accepts 64 MiB."""

RESERVED_PREFIX: Final = "ctxmgr/"
"""The prefix of ids that stores use internally."""

_RESERVED: Final = f"ids that start with {RESERVED_PREFIX!r} are reserved"

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_SURROGATE = re.compile("[\ud800-\udfff]")

_DEPTH_CUT: Final = DEPTH_MAX + 16

_NAMES_MAX: Final = 1_024
"""Valid sets of field names that are cached; documents repeat a few dozen."""

_PLAIN_INTEGER_MAX: Final = 2**63
"""Integers beyond this are checked by their number of bits."""


def check_document(
    document: Document, *, grown: Mapping[str, AppendOnly[Any]] | None = None
) -> None:
    """Raise ``Incorrect`` with the invalid field, if there is one.

    Of the fields in ``grown``, only items that have not been checked before are read.
    """
    if not isinstance(document, dict):
        raise Incorrect(f"a document must be a dict, not {document!r:.80}")
    check_object_id(document.get(ID))
    kind = document.get(KIND)
    if not isinstance(kind, str) or not kind:
        raise Incorrect(f"{document[ID]}: {KIND!r} must be a non-empty string, not {kind!r}")
    if not _are_field_names(tuple(document)):
        invalid = next(name for name in document if name != ID and not _is_field_name(name))
        raise Incorrect(
            f"{document[ID]}: invalid field name {invalid!r} (use letters, digits, _ and -)"
        )
    for name, items in (grown or {}).items():
        value = document.get(name)
        if not isinstance(value, list) or len(value) != len(items):
            raise Incorrect(f"{document[ID]}: {name} differs from the list that it grew to")
        _CHECKED_ITEMS.of(items)
    fields = document
    if grown:
        fields = {name: value for name, value in document.items() if name not in grown}
    if _are_plain(fields.values(), 0):
        return
    for name, value in fields.items():
        check_value(value, where=f"{document[ID]}: {name}")


def check_size(object_id: str, encoded_bytes: int) -> None:
    """Raise ``Incorrect`` if a document, as a store encodes it, is too large."""
    if encoded_bytes > DOCUMENT_BYTES_MAX:
        raise Incorrect(
            f"{object_id}: the document has {encoded_bytes} bytes, at most {DOCUMENT_BYTES_MAX} "
            "are allowed"
        )


def check_transaction_size(encoded_bytes: int) -> None:
    """Raise ``Incorrect`` if the documents of a transaction together are too large."""
    if encoded_bytes > TRANSACTION_BYTES_MAX:
        raise Incorrect(
            f"the documents of this transaction have {encoded_bytes} bytes, at most "
            f"{TRANSACTION_BYTES_MAX} are allowed; write them in several transactions"
        )


def check_object_id(object_id: object) -> None:
    """Raise ``Incorrect`` unless this is a valid object id."""
    if type(object_id) is str and object_id.isascii() and 0 < len(object_id) <= OBJECT_ID_BYTES_MAX:
        if object_id.startswith(RESERVED_PREFIX):
            raise Incorrect(f"{object_id}: {_RESERVED}")
        return
    if not isinstance(object_id, str) or not object_id:
        raise Incorrect(f"an object id ({ID!r}) must be a non-empty string, not {object_id!r}")
    if object_id.startswith(RESERVED_PREFIX):
        raise Incorrect(f"{object_id}: {_RESERVED}")
    if not object_id.isascii():
        check_value(object_id, where="object id")
    if len(object_id) * 4 > OBJECT_ID_BYTES_MAX < len(object_id.encode()):
        raise Incorrect(
            f"{object_id:.40}…: an object id has at most {OBJECT_ID_BYTES_MAX} bytes in UTF-8"
        )


def check_value(value: object, *, where: str, depth: int = 0) -> None:
    """Raise ``Incorrect`` unless the value has a canonical form."""
    match value:
        case str():
            if not value.isascii() and _has_surrogate(value):
                raise Incorrect(f"{where}: the text contains a lone surrogate")
        case int():
            if value.bit_length() > INTEGER_BITS_MAX:
                raise Incorrect(f"{where}: an integer has at most {INTEGER_BITS_MAX:,} bits")
        case float():
            if not math.isfinite(value):
                raise Incorrect(f"{where}: {value} cannot be represented in JSON")
        case list() | dict():
            if not _are_plain((value,), depth):
                _check_nested(value, where=where, depth=depth + 1)
        case None:
            return
        case _:
            raise Incorrect(f"{where}: a {type(value).__name__} cannot be stored")


def storable(value: Any, *, depth: int = 0) -> Any:
    """Return a value as a document can hold it, as far as that changes nothing that matters.

    A tuple becomes a list, a path its text, and a float that is not finite becomes null. A lone
    surrogate becomes U+FFFD. Values nested beyond any document's depth are cut off there; what
    remains is still too deep, and is rejected or kept as text by the check that follows.
    """
    match value:
        case str():
            return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
        case float() if not math.isfinite(value):
            return None
        case list() | tuple() | dict() if depth > _DEPTH_CUT:
            return None
        case list() | tuple():
            return [storable(item, depth=depth + 1) for item in value]
        case dict():
            return {storable(key): storable(item, depth=depth + 1) for key, item in value.items()}
        case _ if hasattr(value, "__fspath__"):
            return storable(value.__fspath__())
        case _:
            return value


def _has_surrogate(text: str) -> bool:
    """Whether a text has no UTF-8 form; encoding it is ten times as fast as a search."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


@lru_cache(_NAMES_MAX)
def _are_field_names(names: tuple[object, ...]) -> bool:
    return all(name == ID or _is_field_name(name) for name in names)


def _is_field_name(name: object) -> bool:
    return isinstance(name, str) and _FIELD.fullmatch(name) is not None


def _are_plain(values: Iterable[Any], depth: int) -> bool:
    """Fast path for plain JSON types and ASCII keys; for other values ``check_value`` decides."""
    for value in values:
        kind = type(value)
        if kind is str:
            plain = value.isascii() or not _has_surrogate(value)
        elif kind is dict:
            plain = (
                depth < DEPTH_MAX and _are_ascii(value) and _are_plain(value.values(), depth + 1)
            )
        elif kind is list:
            plain = depth < DEPTH_MAX and _are_plain(value, depth + 1)
        elif kind is int:
            plain = -_PLAIN_INTEGER_MAX < value < _PLAIN_INTEGER_MAX
        elif kind is float:
            plain = math.isfinite(value)
        else:
            plain = value is None or kind is bool
        if not plain:
            return False
    return True


def _check_items(_: None, items: Sequence[Any]) -> None:
    if not _are_plain(items, 1):
        for item in items:
            check_value(item, where="an item of a list", depth=1)


_CHECKED_ITEMS: Final[Fold[Any, None]] = Fold(None, add=_check_items)


def _are_ascii(keys: Iterable[Any]) -> bool:
    try:
        return "".join(keys).isascii()
    except TypeError:
        return False


def _check_nested(value: list[Any] | dict[str, Any], *, where: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Incorrect(f"{where}: nested more than {DEPTH_MAX} levels deep")
    if isinstance(value, list):
        for item in value:
            check_value(item, where=where, depth=depth)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise Incorrect(f"{where}: the key {key!r} is not a string")
        check_value(key, where=where, depth=depth)
        check_value(item, where=where, depth=depth)
