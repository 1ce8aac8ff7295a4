"""Infrastructure objects: what a session is made of, each with a fixed place in the prompt. Pure.

    Chat            one per session; every turn is a new version
    └─ Turn         one model call: what was new before it, its answer, the tool calls it asked for
    SystemPrompt    the text that opens a session's prompts
    SessionRecord   which objects a session has met and how much of each it shows; ids only

The chat holds references to tool calls, never their output. Every version hashes all turns, so a
turn keeps its canonical bytes, and a new version only joins and hashes what is there already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, ClassVar, Final, Self

from ctxmgr.core.canonical import canonical
from ctxmgr.core.documents import Document, check_value
from ctxmgr.core.envelopes import (
    CHAT,
    SESSION,
    SYSTEM_PROMPT,
    Sealed,
    chat_id,
    check_ids,
    check_session_id,
    check_text,
    copied,
    read_list,
    seal_unsourced,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.hashes import sha256
from ctxmgr.errors import Incorrect

_TURN_FIELDS: Final = frozenset({"user", "assistant", "toolcall_ids", "assistant_meta"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMeta:
    """How an answer was made, as far as the harness knows. Named as it is stored."""

    api: str | None = None
    provider: str | None = None
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    stopReason: str | None = None  # noqa: N815
    timestamp: int | None = None
    """When the answer was complete, in UTC milliseconds."""

    def to_value(self) -> Document:
        """Return what is known; what is not is left out."""
        known = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in known if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model call."""

    user: str = field(repr=False)
    """What was new before the call; may be empty."""
    assistant: tuple[Mapping[str, Any], ...] = field(repr=False)
    """The parts of the answer in their order: maps with a ``type``, otherwise as they came."""
    toolcall_ids: tuple[str, ...] = ()
    assistant_meta: AssistantMeta = AssistantMeta()

    value: Document = field(init=False, repr=False, compare=False)
    """As it is stored. Every document of a chat shares it: do not change it."""
    canonical: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_text("turn user", self.user)
        check_ids("turn toolcall_ids", self.toolcall_ids)
        _check_parts(self.assistant)
        _check_meta(self.assistant_meta)
        given = {
            "user": self.user,
            "assistant": list(self.assistant),
            "toolcall_ids": list(self.toolcall_ids),
            "assistant_meta": self.assistant_meta.to_value(),
        }
        check_value(given, where="turn", depth=1)  # a turn is inside the list of turns
        value = copied(given)
        object.__setattr__(self, "assistant", tuple(value["assistant"]))
        object.__setattr__(self, "assistant_meta", AssistantMeta(**value["assistant_meta"]))
        object.__setattr__(self, "value", value)
        # A copy: orjson's own bytes lie in a buffer of several KB, and a chat keeps them all.
        object.__setattr__(self, "canonical", bytes(memoryview(canonical(value))))

    @classmethod
    def from_value(cls, value: object) -> Self:
        """Read a turn from its stored form; ``Incorrect`` unless it has exactly its fields."""
        if not isinstance(value, dict) or value.keys() != _TURN_FIELDS:
            raise Incorrect(f"a turn has {', '.join(sorted(_TURN_FIELDS))}, not {value!r:.80}")
        return cls(
            user=value["user"],
            assistant=read_list("turn assistant", value["assistant"]),
            toolcall_ids=read_list("turn toolcall_ids", value["toolcall_ids"]),
            assistant_meta=_meta(value["assistant_meta"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Sealed):
    """All turns of a session. It has no content of its own: the turns are the text."""

    kind: ClassVar[str] = CHAT
    source: ClassVar[None] = None
    content: ClassVar[None] = None

    session_id: str
    turns: tuple[Turn, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        assert isinstance(self.turns, tuple)
        hashed = self._metadata_hash()
        seal_unsourced(self, chat_id(self.session_id), content=None, metadata=hashed)

    @property
    def session_ref(self) -> str:
        return session_object_id(self.session_id)

    @property
    def turn_count(self) -> int:
        return len(self.turns)

    @property
    def toolcall_refs(self) -> tuple[str, ...]:
        """Every tool call of every turn, in the order they were asked for."""
        return tuple(dict.fromkeys(chain.from_iterable(turn.toolcall_ids for turn in self.turns)))

    def append(self, turn: Turn) -> Self:
        """Return the next version, with one turn more."""
        return type(self)(session_id=self.session_id, turns=(*self.turns, turn))

    def metadata(self) -> Document:
        return {**self._small_fields(), "turns": [turn.value for turn in self.turns]}

    def _small_fields(self) -> Document:
        return {
            "session_ref": self.session_ref,
            "toolcall_refs": list(self.toolcall_refs),
            "turn_count": self.turn_count,
        }

    def _metadata_hash(self) -> str:
        """What ``metadata_hash(self.metadata())`` gives: ``turns`` is the last key of the four."""
        small = canonical(self._small_fields()).removesuffix(b"}")
        turns = b",".join([turn.canonical for turn in self.turns])
        return sha256(small, b',"turns":[', turns, b"]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrompt(Sealed):
    """The system prompt of one session. It has no fields besides its text."""

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
    """A session as it is stored: four sets of ids in the order of arrival, and no content."""

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
        for name in ("session_index", "metadata_pool", "active_set", "pinned_set"):
            check_ids(name, getattr(self, name))
        _check_inside("metadata_pool", self.metadata_pool, "session_index", self.session_index)
        _check_inside("active_set", self.active_set, "metadata_pool", self.metadata_pool)
        _check_inside("pinned_set", self.pinned_set, "metadata_pool", self.metadata_pool)
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


def read_turns(values: object) -> tuple[Turn, ...]:
    """Read turns from their stored form."""
    return tuple(map(Turn.from_value, read_list("turns", values)))


def _check_parts(parts: Iterable[Mapping[str, Any]]) -> None:
    if not isinstance(parts, tuple):
        raise Incorrect(f"turn assistant is a tuple of parts, not {parts!r:.80}")
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise Incorrect(f"a part of an answer is a map with a type, not {part!r:.80}")


def _check_meta(meta: AssistantMeta) -> None:
    for name in ("api", "provider", "model", "stopReason"):
        if getattr(meta, name) is not None:
            check_text(f"assistant_meta {name}", getattr(meta, name))
    if meta.usage is not None and not isinstance(meta.usage, dict):
        raise Incorrect(f"assistant_meta usage is a map, not {meta.usage!r:.80}")
    if meta.timestamp is not None and type(meta.timestamp) is not int:
        raise Incorrect(f"assistant_meta timestamp is an integer, not {meta.timestamp!r:.80}")


def _meta(value: object) -> AssistantMeta:
    known = {each.name for each in fields(AssistantMeta)}
    if not isinstance(value, dict) or not value.keys() <= known or None in value.values():
        raise Incorrect(f"assistant_meta has {', '.join(sorted(known))}, not {value!r:.80}")
    return AssistantMeta(**value)


def _check_inside(name: str, ids: tuple[str, ...], outer: str, outer_ids: tuple[str, ...]) -> None:
    strangers = set(ids).difference(outer_ids)
    if strangers:
        raise Incorrect(f"{min(strangers)} is in {name} and not in {outer}")
