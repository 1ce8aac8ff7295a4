"""The session record and the system prompt of a session. Pure.

SystemPrompt    the text that starts a session's prompts
SessionRecord   the objects a session has seen and how much of each it shows; ids only
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from ctxmgr.core.append_only import AppendOnly, OrderedIds
from ctxmgr.core.objects.envelope import (
    SESSION,
    SYSTEM_PROMPT,
    Sealed,
    chat_id,
    check_grown_ids,
    check_ids,
    check_session_id,
    check_text,
    seal_unsourced,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.objects.hashes import grown_metadata_hash
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect

SETS: Final = ("session_index", "metadata_pool", "active_set", "pinned_set")

GROWING_SETS: Final = ("session_index", "metadata_pool")
"""The sets that every object is added to, and that no operation removes one from."""


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
    # Compared by their hash: in a long session, both have thousands of ids.
    session_index: Sequence[str] = field(default=(), compare=False)
    metadata_pool: Sequence[str] = field(default=(), compare=False)
    active_set: tuple[str, ...] = ()
    pinned_set: tuple[str, ...] = ()
    _grown: Mapping[str, AppendOnly[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        for name in SETS:
            check_ids(name, getattr(self, name))
        _check_subset("metadata_pool", self.metadata_pool, "session_index", self.session_index)
        _check_subset("active_set", self.active_set, "metadata_pool", self.metadata_pool)
        _check_subset("pinned_set", self.pinned_set, "metadata_pool", self.metadata_pool)
        object.__setattr__(
            self, "_grown", {name: AppendOnly(getattr(self, name)) for name in GROWING_SETS}
        )
        seal_unsourced(self, session_object_id(self.session_id), content=None)

    @classmethod
    def of(cls, session_id: str, *, sets: Mapping[str, OrderedIds]) -> Self:
        """Return the record of sets of which the pool is known to be part of the index.

        The sets that grow are checked and encoded only as far as they are new.
        """
        check_session_id(session_id)
        record = object.__new__(cls)
        object.__setattr__(record, "session_id", session_id)
        grown = {name: sets[name].in_order for name in GROWING_SETS}
        object.__setattr__(record, "_grown", grown)
        for name in SETS:
            ids = sets[name].in_order
            object.__setattr__(record, name, ids if name in grown else tuple(ids))
            check_grown_ids(ids)
        for name in ("active_set", "pinned_set"):
            _check_subset(name, sets[name], "metadata_pool", sets["metadata_pool"])
        metadata = grown_metadata_hash(record._small_fields(), grown=grown)
        seal_unsourced(record, session_object_id(session_id), content=None, metadata=metadata)
        return record

    @property
    def chat_ref(self) -> str:
        return chat_id(self.session_id)

    @property
    def system_prompt_ref(self) -> str:
        return system_prompt_id(self.session_id)

    def metadata(self) -> Document:
        small = self._small_fields()
        return {
            "session_id": self.session_id,
            "chat_ref": self.chat_ref,
            "system_prompt_ref": self.system_prompt_ref,
            "session_index": self._grown["session_index"][:],
            "metadata_pool": self._grown["metadata_pool"][:],
            "active_set": small["active_set"],
            "pinned_set": small["pinned_set"],
        }

    def _small_fields(self) -> Document:
        return {
            "session_id": self.session_id,
            "chat_ref": self.chat_ref,
            "system_prompt_ref": self.system_prompt_ref,
            "active_set": list(self.active_set),
            "pinned_set": list(self.pinned_set),
        }

    def grown(self) -> Mapping[str, AppendOnly[str]]:
        return self._grown


def _check_subset(name: str, ids: Collection[str], outer: str, outer_ids: Collection[str]) -> None:
    if isinstance(outer_ids, OrderedIds):
        missing = {object_id for object_id in ids if object_id not in outer_ids}
    else:
        missing = set(ids).difference(outer_ids)
    if missing:
        raise Incorrect(f"{min(missing)} is in {name} and not in {outer}")
