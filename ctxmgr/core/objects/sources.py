"""Source bindings: where the original of an object is, outside the store. Pure.

A binding is a tagged union: its ``type`` determines its fields, which are all required and all
non-empty strings. Two objects with equal bindings are the same object.

    filesystem   filesystemId   the namespace of the path, declared by the client
                 path           canonical and absolute; of a bind-mounted file, the host's path

A source type never changes, because bindings are hashed into ids. A new one is a new entry in
``SOURCE_TYPES`` and affects no stored document.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Protocol

from ctxmgr.core.store.documents import KIND, check_value
from ctxmgr.errors import Incorrect


class HashOrigin(StrEnum):
    """What the ``file_hash`` of a source type is computed from."""

    BYTES = "bytes"
    """The raw bytes."""
    ETAG = "etag"
    """The ETag that an object store reports."""
    BLOB = "blob"
    """The hash of a Git blob."""


class Source(Hashable, Protocol):
    """A binding: a frozen value with a stored form."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The last component of the path, from which ``file_type`` is derived."""
        ...

    def to_value(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceType:
    """The definition of a kind of source."""

    kind: str
    fields: tuple[str, ...]
    """The fields besides ``type``; all are required."""
    build: Callable[[Mapping[str, str]], Source]
    hash_origin: HashOrigin
    """Only a type with ``BYTES`` is hashed by ``File.read``."""
    tracker: str
    """The kind of the trackers that follow it; of other sources they follow none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSource:
    """The identity of a file: its filesystem and its path in it."""

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


FILESYSTEM_TRACKER: Final = "filesystem"
"""The kind of the trackers that watch files of this machine."""

FILESYSTEM: Final = SourceType(
    kind=FilesystemSource.kind,
    fields=("filesystemId", "path"),
    build=lambda value: FilesystemSource(filesystem_id=value["filesystemId"], path=value["path"]),
    hash_origin=HashOrigin.BYTES,
    tracker=FILESYSTEM_TRACKER,
)

_NOT_CANONICAL: Final = frozenset({"", ".", ".."})

SOURCE_TYPES: Final[Mapping[str, SourceType]] = {FILESYSTEM.kind: FILESYSTEM}


def source_type(source: Source, *, types: Mapping[str, SourceType] = SOURCE_TYPES) -> SourceType:
    """Return the definition of a binding's type."""
    return types[source.kind]


def parse_source(value: object, *, types: Mapping[str, SourceType] = SOURCE_TYPES) -> Source:
    """Read a binding from its stored form; ``Incorrect`` unless it has the fields of its type."""
    if not isinstance(value, dict):
        raise Incorrect(f"a source must be a map, not {value!r:.80}")
    declared = types.get(str(value.get(KIND)))
    if declared is None:
        names = ", ".join(sorted(types))
        raise Incorrect(f"unknown source type {value.get(KIND)!r:.80} (one of: {names})")
    for name in declared.fields:
        if name not in value:
            raise Incorrect(f"a {declared.kind} source needs {name}")
        _check_text(name, value[name])
    for name in value:
        if name != KIND and name not in declared.fields:
            raise Incorrect(f"a {declared.kind} source has no field {name!r:.80}")
    return declared.build(value)


def file_type(source: Source) -> str:
    """Return the extension of the name without its dot; empty if the only dot comes first."""
    name = source.name
    dot = name.rfind(".")
    return name[dot + 1 :] if dot > 0 else ""


def _check_text(name: str, value: object) -> None:
    if type(value) is str and value and value.isascii():
        return
    if not isinstance(value, str) or not value:
        raise Incorrect(f"source {name} must be a non-empty string, not {value!r:.80}")
    check_value(value, where=f"source {name}")


def _check_canonical(path: str) -> None:
    # Fast path: a name may start with a dot, so "/." is decided below.
    if path[0] == "/" != path[-1] and not ("//" in path or "/." in path or "\0" in path):
        return
    root, *parts = path.split("/")
    if root or not parts:
        raise Incorrect(f"source path {path!r:.200} is not absolute")
    if "\0" in path or not _NOT_CANONICAL.isdisjoint(parts):
        raise Incorrect(
            f"source path {path!r:.200} is not canonical: it has an empty, . or .. part, or NUL"
        )
