"""What all objects have in common: kinds, ids and hashes. Pure.

    content          file                           sourced: the id is the identity_hash
                     toolcall                       unsourced: the harness chooses the id
    infrastructure   chat, system_prompt, session   unsourced: the id is kind:sessionId

A version is sealed when it is built: its hashes are computed once and are part of the value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final

from ctxmgr.core.append_only import AppendOnly, Fold
from ctxmgr.core.objects.hashes import content_hash, identity_hash, metadata_hash, object_hash
from ctxmgr.core.objects.sources import Source
from ctxmgr.core.store.documents import Document, check_object_id, check_value
from ctxmgr.core.store.transactions import INDEXED_TEXT_BYTES_MAX
from ctxmgr.errors import Incorrect

FILE: Final = "file"
TOOLCALL: Final = "toolcall"
CHAT: Final = "chat"
SYSTEM_PROMPT: Final = "system_prompt"
SESSION: Final = "session"
TURN: Final = "turn"
"""A turn record: a plain document, not one of the five object types."""
POLICY: Final = "policy"
"""How a session's prompts are rendered: a plain document."""
EXCHANGE: Final = "proxy_exchange"
"""A request that passed through the proxy, and its answer: a plain document."""

CONTENT_KINDS: Final = frozenset({FILE, TOOLCALL})
INFRASTRUCTURE_KINDS: Final = frozenset({CHAT, SYSTEM_PROMPT, SESSION})
OBJECT_KINDS: Final = CONTENT_KINDS | INFRASTRUCTURE_KINDS

SESSION_ID_BYTES_MAX: Final = INDEXED_TEXT_BYTES_MAX - len("system_prompt:")
"""UTF-8 bytes, so that every reference derived from it can be an indexed field."""

_NESTED: Final = (list, dict)

IDENTITIES_MAX: Final = 16_384
"""Cached identities: a file is checked, read, and soon read back, each time by its source."""


def chat_id(session_id: str) -> str:
    return f"{CHAT}:{session_id}"


def system_prompt_id(session_id: str) -> str:
    return f"{SYSTEM_PROMPT}:{session_id}"


def session_object_id(session_id: str) -> str:
    return f"{SESSION}:{session_id}"


def turn_id(session_id: str, *, number: int) -> str:
    return f"{TURN}:{session_id}:{number}"


def exchange_id(session_id: str, *, number: int) -> str:
    return f"{EXCHANGE}:{session_id}:{number}"


def policy_id(session_id: str) -> str:
    return f"{POLICY}:{session_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The part of a version that is derived from the rest of it."""

    kind: ClassVar[str]

    object_id: str = field(init=False)
    """The id of the object, the same for all its versions."""
    identity_hash: str = field(init=False, repr=False)
    """The hash of what identifies the object."""
    content_hash: str | None = field(init=False, repr=False)
    """The hash of the text; None if there is none."""
    metadata_hash: str = field(init=False, repr=False)
    """The hash of all other fields."""
    object_hash: str = field(init=False)
    """The hash of this version."""

    def metadata(self) -> Document:
        """Return the type-specific fields as they are stored, absent ones left out."""
        raise NotImplementedError

    def grown(self) -> Mapping[str, AppendOnly[Any]]:
        """Return those of these fields that are lists which grow from version to version."""
        return {}


def seal_sourced(
    version: Sealed, *, source: Source, file_hash: str | None, content: str | None, metadata: str
) -> None:
    """Set the id and the hashes of a version that has a source."""
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
    """Set the id and the hashes of a version without a source, from ``__post_init__``."""
    check_object_id(object_id)
    object.__setattr__(version, "object_id", object_id)
    object.__setattr__(version, "identity_hash", identity_hash(version.kind, object_id=object_id))
    metadata = metadata or metadata_hash(version.metadata())
    _seal_hashes(version, file=None, content=content_hash(content), metadata=metadata)


def check_session_id(session_id: object) -> None:
    """Raise ``Incorrect`` unless this is a valid session id."""
    check_short_text("session_id", session_id, bytes_max=SESSION_ID_BYTES_MAX)


def check_short_text(name: str, value: object, *, bytes_max: int = INDEXED_TEXT_BYTES_MAX) -> None:
    """Raise ``Incorrect`` unless this is a non-empty string that a store can index."""
    check_text(name, value)
    if not value or len(str(value).encode()) > bytes_max:
        raise Incorrect(f"{name} must be a string of 1 to {bytes_max} bytes, not {value!r:.80}")


def check_text(name: str, value: object) -> None:
    """Raise ``Incorrect`` unless this is a valid string."""
    if not isinstance(value, str):
        raise Incorrect(f"{name} must be a string, not {value!r:.80}")
    check_value(value, where=name)


def check_ids(name: str, ids: object) -> None:
    """Raise ``Incorrect`` unless these are object ids without duplicates."""
    if not isinstance(ids, tuple):
        raise Incorrect(f"{name} must be a tuple of ids, not {ids!r:.80}")
    for object_id in ids:
        check_object_id(object_id)
    if len(set(ids)) < len(ids):
        raise Incorrect(f"{name} contains an id twice")


def check_grown_ids(ids: AppendOnly[str]) -> None:
    """Raise ``Incorrect`` unless these are object ids; each id is checked once."""
    _CHECKED_IDS.of(ids)


def read_list(name: str, value: object) -> tuple[Any, ...]:
    """Read a stored list; ``Incorrect`` if it is not a list."""
    if not isinstance(value, list):
        raise Incorrect(f"{name} must be a list, not {value!r:.80}")
    return tuple(value)


def copy_nested(value: Any) -> Any:
    """Copy lists and maps at every level."""
    # Most items are text: a call for each of them would take most of the time.
    if isinstance(value, list):
        return [copy_nested(item) if isinstance(item, _NESTED) else item for item in value]
    if isinstance(value, dict):
        return {
            key: copy_nested(item) if isinstance(item, _NESTED) else item
            for key, item in value.items()
        }
    return value


def _check_new_ids(_: None, ids: Sequence[str]) -> None:
    for object_id in ids:
        check_object_id(object_id)


_CHECKED_IDS: Final[Fold[str, None]] = Fold(None, add=_check_new_ids)


def _seal_hashes(version: Sealed, *, file: str | None, content: str | None, metadata: str) -> None:
    object.__setattr__(version, "content_hash", content)
    object.__setattr__(version, "metadata_hash", metadata)
    version_hash = object_hash(file=file, content=content, metadata=metadata)
    object.__setattr__(version, "object_hash", version_hash)
