"""Content objects: files and tool calls, which a session shows in full, in short or not. Pure.

    File       what a source said when it was last read, or that it was only seen
    ToolCall   what one tool call was asked and what it gave; never has a second version

Values are frozen and sealed: a change is a new value, and its hashes come with it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, Self

from ctxmgr.core.documents import Document, check_value
from ctxmgr.core.envelopes import (
    FILE,
    TOOLCALL,
    Sealed,
    check_ids,
    check_short_text,
    check_text,
    copied,
    seal_sourced,
    seal_unsourced,
)
from ctxmgr.core.hashes import content_hash, file_hash, file_metadata_hash, is_hash
from ctxmgr.core.sources import Source, file_type
from ctxmgr.errors import Incorrect

STATUSES: Final = ("ok", "fail")


class FileState(StrEnum):
    """What can be shown of a file. Derived, never stored."""

    STUB = "stub"
    """Seen in some output, never read."""
    LIVE = "live"
    DELETED = "deleted"
    NONTEXT = "nontext"
    """Read, and no UTF-8 text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Sealed):
    """One version of a file."""

    kind: ClassVar[str] = FILE

    source: Source
    content: str | None = field(repr=False)
    file_hash: str | None
    """None: never read. A deletion keeps the last one."""

    def __post_init__(self) -> None:
        if self.content is not None:
            check_text("content", self.content)
        if self.file_hash is not None and not is_hash(self.file_hash):
            raise Incorrect(f"file_hash is a SHA-256 in hex, not {self.file_hash!r:.80}")
        if self.file_hash is None and self.content is not None:
            raise Incorrect("a file with content has been read, so it has a file_hash")
        self._seal(content_hash(self.content))

    @classmethod
    def stub(cls, source: Source) -> Self:
        """A file that was seen and not read."""
        return cls(source=source, content=None, file_hash=None)

    @classmethod
    def read(cls, source: Source, *, data: bytes, kept: Callable[[str], str] | None = None) -> Self:
        """A file with these bytes. What is no strict UTF-8 has no content.

        ``kept`` says what is stored of its text, if not all; ``file_hash`` is that of the bytes.
        """
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
        """A file whose bytes are this text: one hash is both, and nothing is left to be checked."""
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
        """Return the version that says its source is gone."""
        return replace(self, content=None)

    @property
    def is_stub(self) -> bool:
        return self.file_hash is None

    @property
    def file_type(self) -> str:
        return file_type(self.source)

    @property
    def char_count(self) -> int:
        """Code points."""
        return len(self.content or "")

    def state(self, *, earlier: Iterable["File"] = ()) -> FileState:
        """Tell what can be shown, given the versions before this one, newest first.

        A deletion looks like a file that is no text; only a text with the same ``file_hash``
        before it tells them apart. So a deleted file that never was text stays ``nontext``.
        """
        if self.is_stub:
            return FileState.STUB
        if self.content is not None:
            return FileState.LIVE
        for before in earlier:
            if before.file_hash != self.file_hash:
                break
            if before.content is not None:
                return FileState.DELETED
        return FileState.NONTEXT

    def metadata(self) -> Document:
        return {"file_type": self.file_type, "char_count": self.char_count}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Sealed):
    """One tool call with its output."""

    kind: ClassVar[str] = TOOLCALL
    source: ClassVar[None] = None

    toolcall_id: str
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    status: Literal["ok", "fail"]
    chat_ref: str
    content: str | None = field(repr=False)
    """The tool's output."""
    args_display: str | None = None
    file_refs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_short_text("tool", self.tool)
        check_short_text("chat_ref", self.chat_ref)
        if not isinstance(self.args, dict):
            raise Incorrect(f"args is a map, not {self.args!r:.80}")
        check_value(self.args, where="args")
        if self.status not in STATUSES:
            raise Incorrect(f"status is {' or '.join(STATUSES)}, not {self.status!r:.80}")
        for name in ("content", "args_display"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))
        if self.file_refs is not None:
            check_ids("file_refs", self.file_refs)
        object.__setattr__(self, "args", copied(self.args))
        seal_unsourced(self, self.toolcall_id, content=self.content)

    def metadata(self) -> Document:
        known: Document = {
            "tool": self.tool,
            "args": self.args,
            "status": self.status,
            "chat_ref": self.chat_ref,
        }
        if self.args_display is not None:
            known["args_display"] = self.args_display
        if self.file_refs is not None:
            known["file_refs"] = list(self.file_refs)
        return known
