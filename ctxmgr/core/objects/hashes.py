"""The five hashes. Pure.

    identity_hash         same object?            fixed for life
    object_hash           anything changed?       every version
    ├── file_hash         source bytes changed?   None: unsourced, or never read
    ├── content_hash      stored text changed?    None: no text
    └── metadata_hash     other fields changed?

All are SHA-256 in lower-case hex: of the bytes (file), of UTF-8 text (content), and otherwise of
canonical JSON, so that equal values have equal hashes whatever their key order, and a client in any
language can recompute them.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from ctxmgr.core.append_only import AppendOnly
from ctxmgr.core.store.canonical import canonical, canonical_items
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.errors import Incorrect

ENVELOPE: Final = (ID, KIND, "source", "identity_hash")
"""The fields that are the same in every version of an object."""

VERSION_HASHES: Final = ("file_hash", "content_hash", "metadata_hash", "object_hash")

NOT_METADATA: Final = frozenset({*ENVELOPE, "content", *VERSION_HASHES})
"""The nine fields that ``metadata_hash`` leaves out. A tenth would change every hash."""

_HEX = re.compile("[0-9a-f]{64}")


def identity_hash(
    kind: str, *, source: Mapping[str, Any] | None = None, object_id: str | None = None
) -> str:
    """Hash what identifies an object: its source if it has one, otherwise its id."""
    assert (source is None) != (object_id is None)
    # Canonical JSON written by hand, keys sorted: every object is hashed here.
    if source is not None:
        parts = (b'{"source":', canonical(dict(source)), b',"type":', canonical(kind), b"}")
    else:
        parts = (b'{"type":', canonical(kind), b',"xt/id":', canonical(object_id), b"}")
    return sha256(b"".join(parts))


def file_hash(data: bytes) -> str:
    """Hash the bytes of a source."""
    return sha256(data)


def content_hash(content: str | None) -> str | None:
    """Hash the stored text. An empty text has a hash; None has none."""
    if content is None:
        return None
    try:
        return sha256(content.encode())
    except UnicodeEncodeError:
        raise Incorrect("content: the text contains a lone surrogate") from None


def metadata_hash(fields: Mapping[str, Any]) -> str:
    """Hash the type-specific fields. A whole document has the same hash as these fields alone."""
    return sha256(canonical({name: fields[name] for name in fields if name not in NOT_METADATA}))


def grown_metadata_hash(fields: Mapping[str, Any], *, grown: Mapping[str, AppendOnly[Any]]) -> str:
    """Return the ``metadata_hash`` of ``fields`` and ``grown``, encoding only new items of these.

    The bytes are hashed anew each time: a key that sorts before the list may have changed.
    """
    assert all(map(str.isascii, (*fields, *grown))), "sorted by code point is canonical"
    parts: list[bytes] = []
    begun = b"{"
    for name in sorted((*fields, *grown)):
        begun += canonical(name) + b":"
        if name in grown:
            parts += (begun + b"[", *canonical_items(grown[name]).parts)
            begun = b"],"
        else:
            begun += canonical(fields[name]) + b","
    return sha256(*parts, begun.removesuffix(b",") + b"}")


def file_metadata_hash(*, file_type: str, char_count: int) -> str:
    """Return the ``metadata_hash`` of a file, which has only these two fields."""
    prefix = b'{"char_count":%d,"file_type":' % char_count
    return sha256(prefix + canonical(file_type) + b"}")


def object_hash(*, file: str | None, content: str | None, metadata: str) -> str:
    """Hash the three hashes of a version into one."""
    # Text is put together faster than bytes, and every object is hashed here.
    return sha256(
        f'{{"content_hash":{_hash_json(content)},"file_hash":{_hash_json(file)},'
        f'"metadata_hash":{_hash_json(metadata)}}}'.encode()
    )


def sha256(*parts: bytes | bytearray) -> str:
    """Hash bytes in one or more parts, without joining them."""
    if len(parts) == 1:
        return hashlib.sha256(parts[0]).hexdigest()
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return state.hexdigest()


def is_hash(value: object) -> bool:
    """Whether this has the form of a hash."""
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _hash_json(value: str | None) -> str:
    if value is None:
        return "null"
    if type(value) is str and value.isalnum():  # nothing to escape
        return f'"{value}"'
    return canonical(value).decode()
