"""The fields of a version that a prompt shows, read from its document. Pure.

The hashes of a version are not computed again: a prompt built from these is proven by its own hash,
which covers every byte that was shown of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from ctxmgr.core.history.turn_records import ShownVersion
from ctxmgr.core.objects.answers import CallRef
from ctxmgr.core.objects.envelope import FILE, SYSTEM_PROMPT, TOOLCALL
from ctxmgr.core.objects.file import FileState
from ctxmgr.core.store.documents import ID, KIND, Document
from ctxmgr.errors import Corrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptVersion:
    """A version of a file, a tool call or a system prompt."""

    object_id: str
    object_hash: str
    kind: str
    content: str | None = field(repr=False)
    """None also if it was not read."""
    call: CallRef | None = None
    """Tool calls only."""
    file_type: str = ""
    """Files only, like the two fields below."""
    char_count: int = 0
    is_stub: bool = False
    purge: int | None = None
    """The purge that removed what was shown of it; the content is not the one that was shown."""

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Read a stored version, with or without its content."""
        try:
            return cls(
                object_id=document[ID],
                object_hash=document["object_hash"],
                kind=document[KIND],
                content=document.get("content"),
                **_kind_fields(document),
            )
        except KeyError as error:
            raise Corrupt(f"{document.get(ID)!r:.80}: the field {error} is missing") from error

    def state(self, shown: ShownVersion) -> FileState:
        """Return the state in which a file was shown; recorded unless its version implies it."""
        return shown.state or (FileState.STUB if self.is_stub else FileState.LIVE)


Versions: TypeAlias = Mapping[tuple[str, str], PromptVersion]
"""By object_id and object_hash."""


def require_version(versions: Versions, shown: ShownVersion) -> PromptVersion:
    """Return the version that was shown."""
    version = versions.get((shown.object_id, shown.object_hash))
    if version is None:
        raise Corrupt(f"{shown.object_id}: the version that was shown is missing")
    return version


def _kind_fields(document: Document) -> Document:
    match document[KIND]:
        case "toolcall":
            tool, status = document["tool"], document["status"]
            return {"call": CallRef(object_id=document[ID], tool=tool, status=status)}
        case "file":
            return {
                "file_type": document["file_type"],
                "char_count": document["char_count"],
                "is_stub": document["file_hash"] is None,
            }
        case "system_prompt":
            return {}
        case kind:
            expected = f"{FILE}, {TOOLCALL} or {SYSTEM_PROMPT}"
            raise Corrupt(f"{document[ID]} is a {kind!r:.80}, not a {expected}")
