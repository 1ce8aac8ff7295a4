"""The session record and the system prompt of a session. Pure.

SystemPrompt    the text that starts a session's prompts
SessionRecord   the objects a session has seen and how much of each it shows; ids only
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ctxmgr.core.objects.envelope import (
    SESSION,
    SYSTEM_PROMPT,
    Sealed,
    chat_id,
    check_ids,
    check_session_id,
    check_text,
    seal_unsourced,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect

SETS: Final = ("session_index", "metadata_pool", "active_set", "pinned_set")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrompt(Sealed):
    """The system prompt of one session."""

    kind: ClassVar[str] = SYSTEM_PROMPT
    source: ClassVar[None] = None

    session_id: str
    content: str = field(repr=False)

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        check_text("content", self.content)
        seal_unsourced(self, system_prompt_id(self.session_id), content=self.content)

    def metadata(self) -> Document:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord(Sealed):
    """A session as it is stored: four sets of object ids, in the order they were added."""

    kind: ClassVar[str] = SESSION
    source: ClassVar[None] = None
    content: ClassVar[None] = None

    session_id: str
    session_index: tuple[str, ...] = ()
    metadata_pool: tuple[str, ...] = ()
    active_set: tuple[str, ...] = ()
    pinned_set: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        for name in SETS:
            check_ids(name, getattr(self, name))
        _check_subset("metadata_pool", self.metadata_pool, "session_index", self.session_index)
        _check_subset("active_set", self.active_set, "metadata_pool", self.metadata_pool)
        _check_subset("pinned_set", self.pinned_set, "metadata_pool", self.metadata_pool)
        seal_unsourced(self, session_object_id(self.session_id), content=None)

    @property
    def chat_ref(self) -> str:
        return chat_id(self.session_id)

    @property
    def system_prompt_ref(self) -> str:
        return system_prompt_id(self.session_id)

    def metadata(self) -> Document:
        return {
            "session_id": self.session_id,
            "chat_ref": self.chat_ref,
            "system_prompt_ref": self.system_prompt_ref,
            "session_index": list(self.session_index),
            "metadata_pool": list(self.metadata_pool),
            "active_set": list(self.active_set),
            "pinned_set": list(self.pinned_set),
        }


def _check_subset(name: str, ids: tuple[str, ...], outer: str, outer_ids: tuple[str, ...]) -> None:
    missing = set(ids).difference(outer_ids)
    if missing:
        raise Incorrect(f"{min(missing)} is in {name} and not in {outer}")
