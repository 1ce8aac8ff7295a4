"""Source bindings: where an object that lives outside the store lives. Pure.

A binding is a tagged union: its ``type`` decides which fields it has, exactly those, all of them
non-empty text. Two objects with equal bindings are one object.

    filesystem   filesystemId   the namespace that the path is in; clients declare it
                 path           canonical and absolute; of a bind-mounted file, the host's

A source type, once here, never changes: bindings are hashed into ids. A new one is a new entry in
``SOURCE_TYPES`` and touches no stored document.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

from ctxmgr.core.documents import KIND, check_value
from ctxmgr.errors import Incorrect


class HashOrigin(StrEnum):
    """What a source type's ``file_hash`` is made of."""

    BYTES = "bytes"
    """SHA-256 of the raw bytes."""
    ETAG = "etag"
    """SHA-256 of what the object store says of the bytes."""
    BLOB = "blob"
    """SHA-256 of the blob's own hash."""


class Source(Hashable, Protocol):
    """A binding: a frozen value that knows its stored form."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The last part of where it is, from which ``file_type`` is derived."""
        ...

    def to_value(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceType:
    """What has to be said of a kind of source before objects can be bound to it."""

    kind: str
    fields: tuple[str, ...]
    """Besides ``type``; all are required."""
    build: Callable[[Mapping[str, str]], Source]
    hash_origin: HashOrigin
    tracker: str
    """Which tracker follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSource:
    """A file in a filesystem that some client declares."""

    kind: ClassVar[str] = "filesystem"

    filesystem_id: str
    path: str

    def __post_init__(self) -> None:
        _check_text("filesystemId", self.filesystem_id)
        _check_text("path", self.path)
        _check_canonical(self.path)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def to_value(self) -> dict[str, str]:
        return {KIND: self.kind, "filesystemId": self.filesystem_id, "path": self.path}


FILESYSTEM: Final = SourceType(
    kind=FilesystemSource.kind,
    fields=("filesystemId", "path"),
    build=lambda value: FilesystemSource(filesystem_id=value["filesystemId"], path=value["path"]),
    hash_origin=HashOrigin.BYTES,
    tracker="filesystem",
)

_NOT_CANONICAL: Final = frozenset({"", ".", ".."})

SOURCE_TYPES: Final[Mapping[str, SourceType]] = {FILESYSTEM.kind: FILESYSTEM}


def parse_source(value: object, *, types: Mapping[str, SourceType] = SOURCE_TYPES) -> Source:
    """Read a binding from its stored form; ``Incorrect`` unless it has just its type's fields."""
    if not isinstance(value, dict):
        raise Incorrect(f"a source is a map, not {value!r:.80}")
    source_type = types.get(str(value.get(KIND)))
    if source_type is None:
        known = ", ".join(sorted(types))
        raise Incorrect(f"{value.get(KIND)!r:.80} is no source type; known: {known}")
    _check_fields(value, source_type)
    return source_type.build(value)


def file_type(source: Source) -> str:
    """Return the text after the last dot of the name, case kept; empty if none or it leads."""
    name = source.name
    dot = name.rfind(".")
    return name[dot + 1 :] if dot > 0 else ""


def _check_fields(value: dict[str, Any], source_type: SourceType) -> None:
    for name in source_type.fields:
        if name not in value:
            raise Incorrect(f"a {source_type.kind} source needs {name}")
        _check_text(name, value[name])
    for name in value:
        if name != KIND and name not in source_type.fields:
            raise Incorrect(f"a {source_type.kind} source has no field {name!r:.80}")


def _check_text(name: str, value: object) -> None:
    if type(value) is str and value and value.isascii():
        return
    if not isinstance(value, str) or not value:
        raise Incorrect(f"source {name} is a non-empty text, not {value!r:.80}")
    check_value(value, where=f"source {name}")


def _check_canonical(path: str) -> None:
    if path[0] == "/" != path[-1] and not ("//" in path or "/." in path or "\0" in path):
        return
    root, *parts = path.split("/")
    if root or not parts:
        raise Incorrect(f"source path {path!r:.200} is not absolute")
    if "\0" in path or not _NOT_CANONICAL.isdisjoint(parts):
        raise Incorrect(
            f"source path {path!r:.200} is not canonical: an empty, . or .. part, or NUL"
        )
