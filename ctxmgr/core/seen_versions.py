"""What a prompt needs of the versions it showed, read from their documents. Pure.

The hashes of a version are not computed again: a prompt made of these is proven by its own hash,
which covers every byte that was shown of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from ctxmgr.core.contents import FileState
from ctxmgr.core.documents import ID, KIND, Document
from ctxmgr.core.envelopes import FILE, SYSTEM_PROMPT, TOOLCALL
from ctxmgr.core.parts import CallRef
from ctxmgr.core.turns import ShownVersion
from ctxmgr.errors import Corrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVersion:
    """A version of a file, a tool call or a system prompt."""

    object_id: str
    object_hash: str
    kind: str
    content: str | None = field(repr=False)
    """None also where it was not asked for."""
    call: CallRef | None = None
    """Tool calls only."""
    file_type: str = ""
    char_count: int = 0
    """Files only, as is what follows."""
    is_stub: bool = False

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Read a stored version, with or without its content."""
        try:
            version = cls(
                object_id=document[ID],
                object_hash=document["object_hash"],
                kind=document[KIND],
                content=document.get("content"),
                **_own_fields(document),
            )
        except KeyError as error:
            raise Corrupt(f"{document.get(ID)!r:.80}: the field {error} is missing") from error
        return version

    def state(self, shown: ShownVersion) -> FileState:
        """Tell what was shown of a file: what its version alone does not tell is recorded."""
        return shown.state or (FileState.STUB if self.is_stub else FileState.LIVE)


Versions: TypeAlias = Mapping[tuple[str, str], SeenVersion]
"""By object_id and object_hash."""


def seen(versions: Versions, shown: ShownVersion) -> SeenVersion:
    """Return the version that was shown."""
    found = versions.get((shown.object_id, shown.object_hash))
    if found is None:
        raise Corrupt(f"{shown.object_id}: the version that was shown is missing")
    return found


def _own_fields(document: Document) -> Document:
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
            raise Corrupt(f"{document[ID]} is a {kind!r:.80} where a {expected} was shown")
