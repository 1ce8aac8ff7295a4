"""What all objects have in common: kinds, ids, and the hashes that seal a version. Pure.

    content          file                           sourced: the id is the identity_hash
                     toolcall                       unsourced: the harness gives the id
    infrastructure   chat, system_prompt, session   unsourced: the id is kind:sessionId

A version is sealed when it is built: its hashes are computed once and are part of the value.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final

from ctxmgr.core.documents import Document, check_object_id, check_value
from ctxmgr.core.hashes import content_hash, identity_hash, metadata_hash, object_hash
from ctxmgr.core.sources import Source
from ctxmgr.core.transactions import INDEXED_TEXT_BYTES_MAX
from ctxmgr.errors import Incorrect

FILE: Final = "file"
TOOLCALL: Final = "toolcall"
CHAT: Final = "chat"
SYSTEM_PROMPT: Final = "system_prompt"
SESSION: Final = "session"
TURN: Final = "turn"
"""A turn record: a plain document, none of the five object types."""

CONTENT_KINDS: Final = frozenset({FILE, TOOLCALL})
INFRASTRUCTURE_KINDS: Final = frozenset({CHAT, SYSTEM_PROMPT, SESSION})
OBJECT_KINDS: Final = CONTENT_KINDS | INFRASTRUCTURE_KINDS

SESSION_ID_BYTES_MAX: Final = INDEXED_TEXT_BYTES_MAX - len("system_prompt:")
"""UTF-8 bytes, so that every reference made of it can be found by."""

IDENTITIES_MAX: Final = 16_384
"""Identities remembered: a file is looked at, read, and soon read back, each time by its source."""


def chat_id(session_id: str) -> str:
    return f"{CHAT}:{session_id}"


def system_prompt_id(session_id: str) -> str:
    return f"{SYSTEM_PROMPT}:{session_id}"


def session_object_id(session_id: str) -> str:
    return f"{SESSION}:{session_id}"


def turn_id(session_id: str, *, number: int) -> str:
    return f"{TURN}:{session_id}:{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The part of a version that is derived from the rest of it."""

    kind: ClassVar[str]

    object_id: str = field(init=False)
    identity_hash: str = field(init=False, repr=False)
    content_hash: str | None = field(init=False, repr=False)
    metadata_hash: str = field(init=False, repr=False)
    object_hash: str = field(init=False)

    def metadata(self) -> Document:
        """Return the type-specific fields as they are stored, absent ones left out."""
        raise NotImplementedError


def seal_sourced(
    version: Sealed, *, source: Source, file_hash: str | None, content: str | None, metadata: str
) -> None:
    """Seal a version whose id follows from its source, with the hashes of its parts."""
    identity = sourced_id(version.kind, source)
    object.__setattr__(version, "object_id", identity)
    object.__setattr__(version, "identity_hash", identity)
    _seal_hashes(version, file=file_hash, content=content, metadata=metadata)


@lru_cache(IDENTITIES_MAX)
def sourced_id(kind: str, source: Source) -> str:
    """Return the id of the object of a source, which is its identity_hash."""
    return identity_hash(kind, source=source.to_value())


def seal_unsourced(
    version: Sealed, object_id: str, *, content: str | None, metadata: str | None = None
) -> None:
    """Seal a version with the id it was given. Only ``__post_init__`` calls this."""
    check_object_id(object_id)
    object.__setattr__(version, "object_id", object_id)
    object.__setattr__(version, "identity_hash", identity_hash(version.kind, object_id=object_id))
    hashed = metadata or metadata_hash(version.metadata())
    _seal_hashes(version, file=None, content=content_hash(content), metadata=hashed)


def check_session_id(session_id: object) -> None:
    """Raise ``Incorrect`` unless references can be made of it."""
    check_short_text("session_id", session_id, bytes_max=SESSION_ID_BYTES_MAX)


def check_short_text(name: str, value: object, *, bytes_max: int = INDEXED_TEXT_BYTES_MAX) -> None:
    """Raise ``Incorrect`` unless this is a non-empty text that a store can find by."""
    check_text(name, value)
    if not value or len(str(value).encode()) > bytes_max:
        raise Incorrect(f"{name} is a text of 1 to {bytes_max} bytes, not {value!r:.80}")


def check_text(name: str, value: object) -> None:
    """Raise ``Incorrect`` unless this is a text of characters."""
    if not isinstance(value, str):
        raise Incorrect(f"{name} is a text, not {value!r:.80}")
    check_value(value, where=name)


def check_ids(name: str, ids: object) -> None:
    """Raise ``Incorrect`` unless these are object ids, each once."""
    if not isinstance(ids, tuple):
        raise Incorrect(f"{name} is a tuple of ids, not {ids!r:.80}")
    for object_id in ids:
        check_object_id(object_id)
    if len(set(ids)) < len(ids):
        raise Incorrect(f"{name} holds an id twice")


def read_list(name: str, value: object) -> tuple[Any, ...]:
    """Read a stored list; ``Incorrect`` if it is something else."""
    if not isinstance(value, list):
        raise Incorrect(f"{name} is a list, not {value!r:.80}")
    return tuple(value)


def copied(value: Any) -> Any:
    """Copy lists and maps, so that whoever gave them may change theirs."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value


def _seal_hashes(version: Sealed, *, file: str | None, content: str | None, metadata: str) -> None:
    object.__setattr__(version, "content_hash", content)
    object.__setattr__(version, "metadata_hash", metadata)
    sealed = object_hash(file=file, content=content, metadata=metadata)
    object.__setattr__(version, "object_hash", sealed)
