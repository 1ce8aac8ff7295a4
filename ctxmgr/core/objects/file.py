"""Files: the content of a source when it was last read, or that it exists. Pure.

Values are frozen and sealed: a change is a new value with its own hashes.

    state     content   file_hash
    stub      null      null
    live      text      of the bytes
    nontext   null      of the bytes
    deleted   null      of the last bytes, if they were text; otherwise of no bytes

The deletion of a text keeps its last ``file_hash``. If a file that has no text did the same, its
deletion would equal the version before it, and no version could say that it was deleted. Its
``file_hash`` is therefore that of no bytes, which no other version without content has: an empty
file is an empty text.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, Protocol, Self

from ctxmgr.core.objects.envelope import FILE, Sealed, check_text, seal_sourced
from ctxmgr.core.objects.hashes import content_hash, file_hash, file_metadata_hash, is_hash
from ctxmgr.core.objects.sources import HashOrigin, Source, file_type, source_type
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect

NO_BYTES_HASH: Final = file_hash(b"")
"""The ``file_hash`` of a deleted file that had no text."""


_CLEAR_HASHES: Final = frozenset({None, NO_BYTES_HASH})


class FileState(StrEnum):
    """What can be shown of a file. Derived, never stored."""

    STUB = "stub"
    """Known to exist, and not read: only mentioned in some output, or too large."""
    LIVE = "live"
    DELETED = "deleted"
    NONTEXT = "nontext"
    """Read, and not UTF-8 text."""


class HashedVersion(Protocol):
    """The hashes of a file's version that its later states follow from."""

    @property
    def file_hash(self) -> str | None: ...
    @property
    def content_hash(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Sealed):
    """One version of a file."""

    kind: ClassVar[str] = FILE

    source: Source
    content: str | None = field(repr=False)
    file_hash: str | None
    """The hash of the bytes; None if the file was not read. A deletion keeps that of a text."""

    def __post_init__(self) -> None:
        if self.content is not None:
            check_text("content", self.content)
        if self.file_hash is not None and not is_hash(self.file_hash):
            raise Incorrect(f"file_hash must be a SHA-256 in hex, not {self.file_hash!r:.80}")
        if self.file_hash is None and self.content is not None:
            raise Incorrect("a file with content must have a file_hash")
        self._seal(content_hash(self.content))

    @classmethod
    def stub(cls, source: Source) -> Self:
        """Return the version of a file that was discovered and not read."""
        return cls(source=source, content=None, file_hash=None)

    @classmethod
    def read(cls, source: Source, *, data: bytes, kept: Callable[[str], str] | None = None) -> Self:
        """Return the version of a file with these bytes; content that is not UTF-8 is not kept.

        ``kept`` returns what is stored of the text; ``file_hash`` is that of the bytes.
        """
        if source_type(source).hash_origin is not HashOrigin.BYTES:
            raise Incorrect(f"the file_hash of a {source.kind} source is not that of its bytes")
        hashed = file_hash(data)
        try:
            content = data.decode()
        except UnicodeDecodeError:
            return cls(source=source, content=None, file_hash=hashed)
        text = content if kept is None else kept(content)
        if text is not content:
            return cls(source=source, content=text, file_hash=hashed)
        return cls._of_text(source, content, hashed)

    @classmethod
    def _of_text(cls, source: Source, content: str, hashed: str) -> Self:
        """Return a file whose bytes are this text: one hash serves for both, and it is valid."""
        file = object.__new__(cls)
        object.__setattr__(file, "source", source)
        object.__setattr__(file, "content", content)
        object.__setattr__(file, "file_hash", hashed)
        file._seal(hashed)
        return file

    def _seal(self, content: str | None) -> None:
        metadata = file_metadata_hash(file_type=self.file_type, char_count=self.char_count)
        seal_sourced(
            self,
            source=self.source,
            file_hash=self.file_hash,
            content=content,
            metadata=metadata,
        )

    def deleted(self) -> Self:
        """Return the version that says that the file was deleted."""
        if self.content is None:
            return replace(self, file_hash=NO_BYTES_HASH)
        return replace(self, content=None)

    @property
    def is_stub(self) -> bool:
        """Whether the file is known to exist, and its content is not."""
        return self.file_hash is None

    @property
    def file_type(self) -> str:
        """The extension of its name, without the dot; empty if there is none."""
        return file_type(self.source)

    @property
    def char_count(self) -> int:
        """The length of the text in Unicode code points."""
        return len(self.content or "")

    @property
    def needs_history(self) -> bool:
        """Whether only an earlier version shows if the file was deleted or is not text."""
        return self.content is None and self.file_hash not in _CLEAR_HASHES

    def state(self, *, earlier: Iterable[HashedVersion] = ()) -> FileState:
        """Return what can be shown, given the versions before this one, newest first.

        They matter only if ``needs_history``: a text that was deleted and a file that is not text
        both have no content, and an earlier version with text and the same ``file_hash``
        distinguishes them.
        """
        if self.is_stub:
            return FileState.STUB
        if self.content is not None:
            return FileState.LIVE
        if self.file_hash == NO_BYTES_HASH:
            return FileState.DELETED
        for before in earlier:
            if before.file_hash != self.file_hash:
                break
            if before.content_hash is not None:
                return FileState.DELETED
        return FileState.NONTEXT

    def metadata(self) -> Document:
        return {"file_type": self.file_type, "char_count": self.char_count}


def needs_history(document: Document) -> bool:
    """Return the same as ``File.needs_history``, for a document that was not verified yet."""
    return document.get("content") is None and document.get("file_hash") not in _CLEAR_HASHES
