"""The five object types as they are stored and read back. Pure.

    document   envelope   xt/id, type, source, identity_hash       the same in every version
               payload    content and the type's own fields        absent optional ones left out
               hashes     content_hash, metadata_hash, object_hash; file_hash on files only

What is read back is not believed: unknown types and fields, missing fields, and hashes that are
not those of the fields they stand for are ``Corrupt``.

The format number of documents is kept by the stores, beside a document and not in it: a field here
would be one more that ``metadata_hash`` has to leave out. Format 1 is the first; the stores refuse
newer ones.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ctxmgr.core.contents import File, ToolCall
from ctxmgr.core.documents import ID, KIND, Document, check_object_id
from ctxmgr.core.envelopes import (
    CHAT,
    FILE,
    OBJECT_KINDS,
    SESSION,
    SYSTEM_PROMPT,
    TOOLCALL,
    TURN,
    check_text,
    read_list,
)
from ctxmgr.core.hashes import ENVELOPE, content_hash, identity_hash, metadata_hash, object_hash
from ctxmgr.core.infrastructure import Chat, SessionRecord, SystemPrompt, read_turns
from ctxmgr.core.sources import parse_source
from ctxmgr.core.store import FieldType, Kind
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect

StoredObject: TypeAlias = File | ToolCall | Chat | SystemPrompt | SessionRecord

_DECLARED: Final = (
    Kind(FILE, {"file_hash": FieldType.TEXT, "char_count": FieldType.INTEGER}),
    Kind(TOOLCALL, {"tool": FieldType.TEXT, "status": FieldType.TEXT, "chat_ref": FieldType.TEXT}),
    Kind(CHAT, {"session_ref": FieldType.TEXT, "turn_count": FieldType.INTEGER}),
    Kind(SYSTEM_PROMPT),
    Kind(SESSION, {"session_id": FieldType.TEXT}),
    Kind(TURN, {"session": FieldType.TEXT, "n": FieldType.INTEGER}),
    Kind("lifecycle", {"session": FieldType.TEXT, "state": FieldType.TEXT}),
    Kind("fork", {"session": FieldType.TEXT, "parent": FieldType.TEXT}),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _DECLARED}
"""What can be found by. Not ``file_type``: a name may have an extension beyond any bound."""


def to_document(version: StoredObject) -> Document:
    """Return the version as it is stored. Lists and maps inside may be the version's own."""
    document = {
        ID: version.object_id,
        KIND: version.kind,
        "source": version.source and version.source.to_value(),
        "identity_hash": version.identity_hash,
        "content": version.content,
        **version.metadata(),
        "content_hash": version.content_hash,
        "metadata_hash": version.metadata_hash,
        "object_hash": version.object_hash,
    }
    if isinstance(version, File):
        document["file_hash"] = version.file_hash
    return document


def from_document(document: Document) -> StoredObject:
    """Read a version back; ``Corrupt`` unless it is exactly what ``to_document`` gave."""
    named = f"{document.get(ID)!r:.80}"
    read = _READERS.get(str(document.get(KIND)))
    if read is None:
        raise Corrupt(f"{named}: {document.get(KIND)!r:.80} is none of the object types")
    try:
        version = read(document)
    except KeyError as error:
        raise Corrupt(f"{named}: the field {error} is missing") from error
    except Incorrect as error:
        raise Corrupt(f"{named}: {error}") from error
    expected = to_document(version)
    if expected != document:
        verify_document(document)
        _refuse_difference(document, expected)
    return version


def verify_document(document: Document, *, metadata: str | None = None) -> None:
    """Raise ``HashMismatch`` unless the five hashes are right; other kinds have none to check.

    ``metadata`` is the hash of its metadata, where the caller has computed that already.
    """
    if str(document.get(KIND)) not in OBJECT_KINDS:
        return
    try:
        computed = _computed_hashes(document, metadata or metadata_hash(document))
    except Incorrect as error:
        raise Corrupt(f"{document.get(ID)!r:.80}: {error}") from error
    for name, right in computed.items():
        if document.get(name) != right:
            raise HashMismatch(str(document.get(ID)), name, document.get(name), right)


def check_same_envelope(old: Document, new: Document) -> None:
    """Raise ``Incorrect`` if a write would change what is fixed for the object's life."""
    for name in ENVELOPE:
        if old.get(name) != new.get(name):
            raise Incorrect(
                f"{old.get(ID)}: {name} is {old.get(name)!r:.200} in every version, "
                f"not {new.get(name)!r:.200}"
            )


def is_new_version(old: Document | None, new: Document) -> bool:
    """Tell whether there is something to write; ``Incorrect`` for what may not follow."""
    if old is None:
        return True
    check_same_envelope(old, new)
    if old["object_hash"] == new["object_hash"]:
        return False
    if new[KIND] == TOOLCALL:
        raise Incorrect(
            f"{new[ID]}: this tool call is stored already, with other content; ids must be unique"
        )
    return True


def _computed_hashes(document: Document, metadata: str) -> Document:
    check_object_id(document.get(ID))
    source, kind, content = document.get("source"), document[KIND], document.get("content")
    if content is not None:
        check_text("content", content)
    if source is not None:
        identity = identity_hash(kind, source=parse_source(source).to_value())
    else:
        identity = identity_hash(kind, object_id=document.get(ID))
    hashed = content_hash(content)
    return {
        ID: identity if source is not None else document[ID],
        "identity_hash": identity,
        "content_hash": hashed,
        "metadata_hash": metadata,
        "object_hash": object_hash(
            file=document.get("file_hash"), content=hashed, metadata=metadata
        ),
    }


def _refuse_difference(document: Document, expected: Document) -> None:
    for name in document:
        if name not in expected:
            raise Corrupt(f"{document[ID]}: a {document[KIND]} has no field {name!r:.80}")
    for name, value in expected.items():
        if name not in document:
            raise Corrupt(f"{document[ID]}: the field {name!r} is missing")
        if document[name] != value:
            raise Corrupt(
                f"{document[ID]}: {name} is stored as {document[name]!r:.80}, "
                f"but the other fields give {value!r:.80}"
            )


def _read_file(document: Document) -> File:
    return File(
        source=parse_source(document["source"]),
        content=document["content"],
        file_hash=document["file_hash"],
    )


def _read_toolcall(document: Document) -> ToolCall:
    refs = document.get("file_refs")
    return ToolCall(
        toolcall_id=document[ID],
        tool=document["tool"],
        args=document["args"],
        status=document["status"],
        chat_ref=document["chat_ref"],
        content=document["content"],
        args_display=document.get("args_display"),
        file_refs=None if refs is None else read_list("file_refs", refs),
    )


def _read_chat(document: Document) -> Chat:
    return Chat(session_id=_session_id(document), turns=read_turns(document["turns"]))


def _read_system_prompt(document: Document) -> SystemPrompt:
    return SystemPrompt(session_id=_session_id(document), content=document["content"])


def _read_session(document: Document) -> SessionRecord:
    return SessionRecord(
        session_id=document["session_id"],
        session_index=read_list("session_index", document["session_index"]),
        metadata_pool=read_list("metadata_pool", document["metadata_pool"]),
        active_set=read_list("active_set", document["active_set"]),
        pinned_set=read_list("pinned_set", document["pinned_set"]),
    )


def _session_id(document: Document) -> str:
    kind, _, session_id = str(document[ID]).partition(":")
    if kind != document[KIND]:
        raise Incorrect(f"the id of a {document[KIND]} begins with {document[KIND]}:")
    return session_id


_READERS: Final[Mapping[str, Callable[[Document], StoredObject]]] = {
    FILE: _read_file,
    TOOLCALL: _read_toolcall,
    CHAT: _read_chat,
    SYSTEM_PROMPT: _read_system_prompt,
    SESSION: _read_session,
}
