"""The bytes of LangGraph's serializer as fields of a document. Pure.

    value      "latin-1 msgpack 70123 …"    encoding, the serializer's name for its form (quoted as
    value_1    "…"                          in a URL), number of bytes, and the first characters;
    value_2    "…"                          further fields continue them

    latin-1    one character per byte: values are mostly texts, and Base64 takes a hundred times as
               long to decode
    base64     of other bytes JSON would escape or double too many
    a list     form and Base64 in one field, as the first version stored every value

A long value is divided because stores keep equal texts once: a checkpoint holds a whole
conversation, and most of it was in the checkpoint before.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from itertools import count, takewhile
from typing import Any, Final
from urllib.parse import quote, unquote

from ctxmgr.errors import Corrupt

CHUNK: Final = 32_768
"""Characters in one field: of a conversation that has grown, at most the first and the last two
are stored anew."""

OTHER_BYTES_MAX: Final = 0.15
"""Share of bytes other than printable ASCII up to which one character per byte is used. For such a
character JSON takes two to six bytes, so a larger share makes it longer than Base64."""

_LATIN_1: Final = "latin-1"
_BASE64: Final = "base64"
_PRINTABLE: Final = bytes(range(0x20, 0x7F))


def to_fields(name: str, kind: str, data: bytes) -> dict[str, str]:
    """Return the fields for what the serializer returned; their names begin with ``name``."""
    is_text = len(data.translate(None, _PRINTABLE)) <= OTHER_BYTES_MAX * len(data)
    encoding = _LATIN_1 if is_text else _BASE64
    text = (data if is_text else b64encode(data)).decode(_LATIN_1)
    header = f"{encoding} {quote(kind, safe='')} {len(data)} "
    fields = {name: header + text[:CHUNK]}
    for number, start in enumerate(range(CHUNK, len(text), CHUNK), start=1):
        fields[f"{name}_{number}"] = text[start : start + CHUNK]
    return fields


def from_fields(name: str, document: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return what the serializer returned; ``Corrupt`` if the fields do not hold it."""
    first = document.get(name)
    try:
        if isinstance(first, list):
            kind, text = first
            return str(kind), b64decode(text)
        encoding, kind, size, start = str(first).split(" ", 3)
        names = takewhile(document.__contains__, (f"{name}_{n}" for n in count(1)))
        text = "".join([start, *(document[each] for each in names)])
        data = b64decode(text) if encoding == _BASE64 else text.encode(_LATIN_1)
    except (TypeError, ValueError) as error:
        raise Corrupt(f"{first!r:.80} is not a serialized value of LangGraph") from error
    if encoding not in {_LATIN_1, _BASE64} or str(len(data)) != size:
        raise Corrupt(f"{first!r:.80}: a serialized value of LangGraph is incomplete or unknown")
    return unquote(kind), data
