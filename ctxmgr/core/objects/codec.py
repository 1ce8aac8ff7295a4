"""Converts the five object types to stored documents and back. Pure.

    document   envelope   xt/id, type, source, identity_hash       the same in every version
               payload    content and the type's own fields        absent optional ones left out
               hashes     content_hash, metadata_hash, object_hash; file_hash on files only

Documents are verified when they are read: unknown types and fields, missing fields and wrong hashes
are ``Corrupt``.

Stores keep the format number of a document beside it, because a field in it would have to be left
out of ``metadata_hash``. The current format is 1; stores refuse newer ones.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ctxmgr.core.objects.chat import Chat, read_turns
from ctxmgr.core.objects.compaction import COMPACTION
from ctxmgr.core.objects.envelope import (
    CHAT,
    FILE,
    OBJECT_KINDS,
    POLICY,
    SESSION,
    SYSTEM_PROMPT,
    TOOLCALL,
    TURN,
    check_text,
    read_list,
    sourced_id,
)
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import (
    content_hash,
    identity_hash,
    metadata_hash,
    object_hash,
)
from ctxmgr.core.objects.purged import DELETION, PURGE, PURGED
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.sources import parse_source
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import FieldType, IdForm, Kind, Put
from ctxmgr.core.store.documents import ID, KIND, Document, check_object_id
from ctxmgr.core.store.transactions import check_id_form
from ctxmgr.errors import Corrupt, HashMismatch, Incorrect

StoredObject: TypeAlias = File | ToolCall | Chat | SystemPrompt | SessionRecord


def check_envelope(document: Document) -> None:
    """Raise ``Incorrect`` unless the envelope of an object is the one that its id determines.

    Since the id fixes type, source and identity_hash, they are the same in every version.
    """
    object_id, kind, source = document[ID], document[KIND], document.get("source")
    if kind == FILE:
        if not isinstance(source, dict):
            raise Incorrect(f"{object_id}: source must be a map, not {source!r:.80}")
        identity = _identity_of(source)
        if identity != object_id:
            raise Incorrect(
                f"{object_id}: the id of a {kind} is the hash of its type and source, here "
                f"{identity}; the source of an object cannot change"
            )
    else:
        if source is not None:
            raise Incorrect(f"{object_id}: a {kind} has no source, not {source!r:.80}")
        identity = identity_hash(kind, object_id=object_id)
    if document.get("identity_hash") != identity:
        raise Incorrect(
            f"{object_id}: identity_hash is {document.get('identity_hash')!r:.80}, but must be "
            f"{identity}, the hash of its type and {'source' if kind == FILE else 'id'}"
        )


def _identity_of(source: Document) -> str:
    """Return the identity_hash of a file; that of a source that was just read is known."""
    try:
        return sourced_id(FILE, parse_source(source))
    except Incorrect:
        return identity_hash(FILE, source=source)


_DECLARED: Final = (
    Kind(
        FILE,
        {"file_hash": FieldType.TEXT, "char_count": FieldType.INTEGER},
        ids=IdForm.HASHED,
        check=check_envelope,
    ),
    Kind(
        TOOLCALL,
        {"tool": FieldType.TEXT, "status": FieldType.TEXT, "chat_ref": FieldType.TEXT},
        check=check_envelope,
        single_version=True,
    ),
    Kind(
        CHAT,
        {"session_ref": FieldType.TEXT, "turn_count": FieldType.INTEGER},
        ids=IdForm.NAMED,
        check=check_envelope,
    ),
    Kind(SYSTEM_PROMPT, ids=IdForm.NAMED, check=check_envelope),
    Kind(SESSION, {"session_id": FieldType.TEXT}, ids=IdForm.NAMED, check=check_envelope),
    Kind(TURN, {"session": FieldType.TEXT, "n": FieldType.INTEGER}, ids=IdForm.NAMED),
    Kind("lifecycle", {"session": FieldType.TEXT, "state": FieldType.TEXT}, ids=IdForm.NAMED),
    Kind("fork", {"session": FieldType.TEXT, "parent": FieldType.TEXT}, ids=IdForm.NAMED),
    Kind(POLICY, ids=IdForm.NAMED),
    Kind(COMPACTION, {"session": FieldType.TEXT, "n": FieldType.INTEGER}, ids=IdForm.NAMED),
    Kind("run", ids=IdForm.NAMED),
    Kind("lease", ids=IdForm.NAMED),
    Kind("imported", {"session": FieldType.TEXT}, ids=IdForm.NAMED),
    Kind(
        "recorded",
        dict.fromkeys(("session", "parent", "digest"), FieldType.TEXT),
        ids=IdForm.NAMED,
    ),
    Kind("title", ids=IdForm.NAMED),
    Kind("comment", ids=IdForm.NAMED),
    Kind(DELETION, ids=IdForm.NAMED),
    Kind(PURGE, ids=IdForm.NAMED),
    Kind(PURGED, ids=IdForm.NAMED),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _DECLARED}
"""The kinds of the core and the fields that ``find`` can query. ``file_type`` is not among them,
because an extension can have any length."""


def check_toolcall_id(object_id: str) -> None:
    """Raise ``Incorrect`` if this id is malformed, or reserved for another type."""
    check_object_id(object_id)
    check_id_form(object_id, TOOLCALL, KINDS)


def to_document(version: StoredObject) -> Document:
    """Return a version as a document to store. It may share lists and dicts with the version."""
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


def put_of(version: StoredObject) -> Put:
    """Return the operation that stores a version, which was checked when it was made."""
    return Put(to_document(version), checked=True, grown=version.grown())


def from_document(document: Document) -> StoredObject:
    """Read a version from a document; ``Corrupt`` if it or one of its hashes is invalid.

    The version may keep lists and dicts of the document, which must not be changed.
    """
    object_id = f"{document.get(ID)!r:.80}"
    read = _READERS.get(str(document.get(KIND)))
    if read is None:
        raise Corrupt(f"{object_id}: unknown object type {document.get(KIND)!r:.80}")
    try:
        version = read(document)
    except KeyError as error:
        raise Corrupt(f"{object_id}: the field {error} is missing") from error
    except Incorrect as error:
        raise Corrupt(f"{object_id}: {error}") from error
    expected = to_document(version)
    if expected != document:
        verify_document(document)  # a wrong hash is the more specific error
        _raise_difference(document, expected)
    return version


def verify_document(document: Document, *, metadata: str | None = None) -> None:
    """Raise ``HashMismatch`` if a hash is wrong; documents of other kinds have none.

    ``metadata`` is its ``metadata_hash``, if the caller has computed that already.
    """
    if str(document.get(KIND)) not in OBJECT_KINDS:
        return
    try:
        computed = _computed_hashes(document, metadata or metadata_hash(document))
    except Incorrect as error:
        raise Corrupt(f"{document.get(ID)!r:.80}: {error}") from error
    for name, value in computed.items():
        if document.get(name) != value:
            raise HashMismatch(str(document.get(ID)), name, document.get(name), value)


def _computed_hashes(document: Document, metadata: str) -> Document:
    check_object_id(document.get(ID))
    source, kind, content = document.get("source"), document[KIND], document.get("content")
    if content is not None:
        check_text("content", content)
    if source is not None:
        identity = identity_hash(kind, source=parse_source(source).to_value())
    else:
        identity = identity_hash(kind, object_id=document.get(ID))
    hash_of_content = content_hash(content)
    return {
        ID: identity if source is not None else document[ID],
        "identity_hash": identity,
        "content_hash": hash_of_content,
        "metadata_hash": metadata,
        "object_hash": object_hash(
            file=document.get("file_hash"), content=hash_of_content, metadata=metadata
        ),
    }


def _raise_difference(document: Document, expected: Document) -> None:
    for name in document:
        if name not in expected:
            raise Corrupt(f"{document[ID]}: a {document[KIND]} has no field {name!r:.80}")
    for name, value in expected.items():
        if name not in document:
            raise Corrupt(f"{document[ID]}: the field {name!r} is missing")
        if document[name] != value:
            raise Corrupt(
                f"{document[ID]}: {name} is stored as {document[name]!r:.80}, "
                f"but must be {value!r:.80} according to the other fields"
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
        raise Incorrect(f"the id of a {document[KIND]} must start with {document[KIND]}:")
    return session_id


_READERS: Final[Mapping[str, Callable[[Document], StoredObject]]] = {
    FILE: _read_file,
    TOOLCALL: _read_toolcall,
    CHAT: _read_chat,
    SYSTEM_PROMPT: _read_system_prompt,
    SESSION: _read_session,
}
