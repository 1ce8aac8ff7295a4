"""What a stored document may hold. Pure.

    document   {"xt/id": text, "type": text, field: value, …}     flat: one level of fields
    field      a name made of letters, digits, _ and -            no namespace: those are reserved
    value      null, boolean, integer, float, text, list, or map with text keys

Integers may be larger than 64 bits. NaN, infinities and lone surrogates have no canonical form, so
they are refused; so is whatever a JSON reader in another language could not give back. Negative
zero may come back as zero, which it equals and which has the same canonical form.
"""

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ctxmgr.errors import Incorrect

Document: TypeAlias = dict[str, Any]

ID: Final = "xt/id"
KIND: Final = "type"

OBJECT_ID_BYTES_MAX: Final = 1_024
"""UTF-8 bytes of an object id. Servers take URLs of 8 KiB, in which each may become six."""

DEPTH_MAX: Final = 128
"""Lists and maps inside each other; every reader and writer on the way recurses."""

INTEGER_BITS_MAX: Final = 14_000
"""Python reads back integers of 4,300 digits; that is 14,284 bits."""

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one encoded document. Content is far smaller: this bounds memory, not use."""

TRANSACTION_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of all documents of a transaction. With ids and bookkeeping that is at most twice as much
on its way to a server, which takes 64 MiB at once."""

RESERVED_PREFIX: Final = "ctxmgr/"
"""Ids that begin so are a store's own bookkeeping."""

_RESERVED: Final = f"ids that begin with {RESERVED_PREFIX!r} are the store's own"

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_SURROGATE = re.compile("[\ud800-\udfff]")

_NAMES_MAX: Final = 1_024
"""Sets of field names remembered as lawful; documents repeat a few dozen."""

_PLAIN_INTEGER_MAX: Final = 2**63
"""Beyond it the bits are counted."""


def check_document(document: Document) -> None:
    """Raise ``Incorrect`` naming the field that breaks the law."""
    if not isinstance(document, dict):
        raise Incorrect(f"a document is a dict, not {document!r:.80}")
    check_object_id(document.get(ID))
    kind = document.get(KIND)
    if not isinstance(kind, str) or not kind:
        raise Incorrect(f"{document[ID]}: a document needs a non-empty {KIND!r}, not {kind!r}")
    if not _are_fields(tuple(document)):
        name = next(each for each in document if each != ID and not _is_field(each))
        raise Incorrect(f"{document[ID]}: {name!r} is no field name: letters, digits, _ and -")
    if _are_plain(document.values(), 0):
        return
    for name, value in document.items():
        check_value(value, where=f"{document[ID]}: {name}")


def check_size(object_id: str, encoded_bytes: int) -> None:
    """Raise ``Incorrect`` if the document, as a store encodes it, is beyond the bound."""
    if encoded_bytes > DOCUMENT_BYTES_MAX:
        raise Incorrect(f"{object_id}: {encoded_bytes} bytes; {DOCUMENT_BYTES_MAX} bytes at most")


def check_sizes(encoded_bytes: int) -> None:
    """Raise ``Incorrect`` if all documents of a transaction together are beyond the bound."""
    if encoded_bytes > TRANSACTION_BYTES_MAX:
        raise Incorrect(
            f"the documents of this transaction have {encoded_bytes} bytes; "
            f"{TRANSACTION_BYTES_MAX} bytes at most: write them in several transactions"
        )


def check_object_id(object_id: object) -> None:
    """Raise ``Incorrect`` unless this can name an object."""
    if type(object_id) is str and object_id.isascii() and 0 < len(object_id) <= OBJECT_ID_BYTES_MAX:
        if object_id.startswith(RESERVED_PREFIX):
            raise Incorrect(f"{object_id}: {_RESERVED}")
        return
    if not isinstance(object_id, str) or not object_id:
        raise Incorrect(f"an object id is a non-empty text ({ID!r}), not {object_id!r}")
    if object_id.startswith(RESERVED_PREFIX):
        raise Incorrect(f"{object_id}: {_RESERVED}")
    if not object_id.isascii():
        check_value(object_id, where="object id")
    if len(object_id) * 4 > OBJECT_ID_BYTES_MAX < len(object_id.encode()):
        raise Incorrect(f"an object id has {OBJECT_ID_BYTES_MAX} bytes at most, in UTF-8")


def check_value(value: object, *, where: str, depth: int = 0) -> None:
    """Raise ``Incorrect`` unless the value has a canonical form."""
    match value:
        case str():
            if not value.isascii() and _SURROGATE.search(value):
                raise Incorrect(f"{where}: the text holds a lone surrogate, which is no character")
        case int():
            if value.bit_length() > INTEGER_BITS_MAX:
                raise Incorrect(f"{where}: an integer has {INTEGER_BITS_MAX:,} bits at most")
        case float():
            if not math.isfinite(value):
                raise Incorrect(f"{where}: {value} has no JSON form")
        case list() | dict():
            _check_nested(value, where=where, depth=depth + 1)
        case None:
            return
        case _:
            raise Incorrect(f"{where}: a {type(value).__name__} cannot be stored")


@lru_cache(_NAMES_MAX)
def _are_fields(names: tuple[object, ...]) -> bool:
    return all(name == ID or _is_field(name) for name in names)


def _is_field(name: object) -> bool:
    return isinstance(name, str) and _FIELD.fullmatch(name) is not None


def _are_plain(values: Iterable[Any], depth: int) -> bool:
    """Tell whether all values are lawful at first sight; where not, ``check_value`` decides.

    It knows JSON's own types and keys in ASCII. A chat is checked whole at every turn, and this
    takes a third of the time.
    """
    for value in values:
        kind = type(value)
        if kind is str:
            plain = value.isascii() or not _SURROGATE.search(value)
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


def _are_ascii(keys: Iterable[Any]) -> bool:
    try:
        return "".join(keys).isascii()
    except TypeError:
        return False


def _check_nested(value: list[Any] | dict[str, Any], *, where: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Incorrect(f"{where}: nested deeper than {DEPTH_MAX}")
    if isinstance(value, list):
        for item in value:
            check_value(item, where=where, depth=depth)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise Incorrect(f"{where}: the key {key!r} is no text")
        check_value(key, where=where, depth=depth)
        check_value(item, where=where, depth=depth)
