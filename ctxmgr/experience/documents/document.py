"""Reference documents: instructions, tool documentation, policies, specifications. Pure.

A document is identified by its path. Its stored form is checked when it is read; content that does
not have the stored hash is ``HashMismatch``.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from ctxmgr.errors import Corrupt, HashMismatch, Incorrect

KIND: Final = "experience_document"
"""The ``type`` of stored documents."""

PATH_CHARS_MAX: Final = 400
NAME_CHARS_MAX: Final = 200
TAGS_MAX: Final = 100
CONTENT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Half of what a store takes as one document."""

_PREFIX: Final = f"{KIND}:"


class DocumentType(StrEnum):
    """What a document is for."""

    SYSTEM_INSTRUCTION = "system_instruction"
    TOOL_DOCUMENTATION = "tool_documentation"
    TRIBAL_POLICY = "tribal_policy"
    SPECIFICATION = "specification"
    REFERENCE = "reference"


FOLDERS: Final[Mapping[DocumentType, str]] = MappingProxyType(
    {
        DocumentType.SYSTEM_INSTRUCTION: "system_instructions",
        DocumentType.TOOL_DOCUMENTATION: "tool_docs",
        DocumentType.TRIBAL_POLICY: "policies",
        DocumentType.SPECIFICATION: "specs",
        DocumentType.REFERENCE: "references",
    }
)
"""The folder of each type, in paths and on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One version of a document."""

    id: str
    doc_type: DocumentType
    name: str
    path: str
    """Where it is in the repository, such as ``policies/privacy.md``."""
    version: str | None
    """A label; the store keeps all versions."""
    content: str
    content_hash: str
    """SHA-256 of the content in UTF-8."""
    created_at: int
    """UTC milliseconds, as is ``updated_at``."""
    updated_at: int
    source: str
    summary: str | None
    tags: tuple[str, ...]

    def stored(self) -> dict[str, Any]:
        """Return the form that the core store keeps."""
        return {
            "xt/id": self.id,
            "type": KIND,
            "doc_type": str(self.doc_type),
            "name": self.name,
            "path": self.path,
            "version": self.version,
            "content": self.content,
            "content_hash": self.content_hash,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "source": self.source,
            "summary": self.summary,
            "tags": list(self.tags),
        }


def content_hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def document_id(path: str) -> str:
    """Return the id of the document at a path; ``Incorrect`` if it cannot be a path."""
    odd_parts = {"", ".", ".."}.intersection(path.split("/"))
    if odd_parts or not path.isprintable() or len(path) > PATH_CHARS_MAX:
        raise Incorrect(
            f"{path!r:.80} is not the path of a document; write it as policies/privacy.md"
        )
    return _PREFIX + path


def check_document_fields(*, name: str, content: str, tags: tuple[str, ...]) -> None:
    """Raise ``Incorrect`` if a document cannot be stored with these."""
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise Incorrect(f"{name!r:.80} is not a name: 1 to {NAME_CHARS_MAX} printable characters")
    if len(content.encode(errors="replace")) > CONTENT_BYTES_MAX:
        raise Incorrect(f"{name}: the content exceeds {CONTENT_BYTES_MAX} bytes")
    if len(tags) > TAGS_MAX or not all(tag and len(tag) <= NAME_CHARS_MAX for tag in tags):
        raise Incorrect(f"{name}: at most {TAGS_MAX} tags of 1 to {NAME_CHARS_MAX} characters")


def read_document(stored: Mapping[str, Any]) -> Document:
    """Read a stored document; ``Corrupt`` if a field is missing or has another type."""
    where = stored.get("xt/id")
    try:
        document = Document(
            id=_text(stored["xt/id"]),
            doc_type=DocumentType(stored["doc_type"]),
            name=_text(stored["name"]),
            path=_text(stored["path"]),
            version=None if stored["version"] is None else _text(stored["version"]),
            content=_text(stored["content"]),
            content_hash=_text(stored["content_hash"]),
            created_at=int(stored["created_at"]),
            updated_at=int(stored["updated_at"]),
            source=_text(stored["source"]),
            summary=None if stored["summary"] is None else _text(stored["summary"]),
            tags=tuple(_text(tag) for tag in stored["tags"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"the stored document {where!r:.80} is not readable: {error}") from error
    computed = content_hash(document.content)
    if computed != document.content_hash:
        raise HashMismatch(document.id, "content_hash", document.content_hash, computed)
    return document


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {value!r:.80}")
    return value
