"""Chats: the turns of a session. Pure.

    Chat       one per session; every turn is a new version
    └─ Turn    one model call: the new user message, the answer, and the tool calls it made

A chat refers to tool calls by id and does not hold their output. Every version hashes all turns, so
a version shares the canonical bytes of its turns with the next one, which only hashes them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, ClassVar, Final, Self

from ctxmgr.core.append_only import AppendOnly, OrderedIds
from ctxmgr.core.objects.envelope import (
    CHAT,
    Sealed,
    chat_id,
    check_ids,
    check_session_id,
    check_text,
    copy_nested,
    read_list,
    seal_unsourced,
    session_object_id,
)
from ctxmgr.core.objects.hashes import grown_metadata_hash
from ctxmgr.core.store.canonical import CANONICAL_ITEMS, CanonicalItems, checked_canonical
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect

_TURN_FIELDS: Final = frozenset({"user", "assistant", "toolcall_ids", "assistant_meta"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMeta:
    """How an answer was made, as far as the harness knows. Fields have their stored names."""

    api: str | None = None
    provider: str | None = None
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    stopReason: str | None = None  # noqa: N815
    timestamp: int | None = None
    """When the answer was complete, in milliseconds since 1970, UTC."""

    def to_value(self) -> Document:
        """Return the stored form, without fields that are None."""
        if self is NO_META:
            return {}
        values = ((name, getattr(self, name)) for name in _META_FIELDS)
        return {name: value for name, value in values if value is not None}


_META_FIELDS: Final = tuple(spec.name for spec in fields(AssistantMeta))
NO_META: Final = AssistantMeta()
"""Nothing is known of how the answer was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn: the user's message, the model's answer and its tool calls."""

    user: str = field(repr=False)
    """The user's message; may be empty."""
    assistant: tuple[Mapping[str, Any], ...] = field(repr=False)
    """The parts of the answer, in order. Each is a dict with a ``type``."""
    toolcall_ids: tuple[str, ...] = ()
    assistant_meta: AssistantMeta = NO_META

    value: Document = field(init=False, repr=False, compare=False)
    """The stored form. It is shared between documents and must not be changed."""
    canonical: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts, ids, meta = self.assistant, self.toolcall_ids, self.assistant_meta
        uncopied = {
            "user": self.user,
            "assistant": list(parts) if isinstance(parts, tuple) else parts,
            "toolcall_ids": list(ids) if isinstance(ids, tuple) else ids,
            "assistant_meta": meta.to_value(),
        }
        encoded = _checked(uncopied, user=self.user, parts=parts, ids=ids, meta=meta)
        value = copy_nested(uncopied)
        object.__setattr__(self, "assistant", tuple(value["assistant"]))
        if self.assistant_meta.usage is not None:
            object.__setattr__(self, "assistant_meta", AssistantMeta(**value["assistant_meta"]))
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "canonical", encoded)

    @classmethod
    def from_value(cls, value: object) -> Self:
        """Read a turn from its stored form; ``Incorrect`` if a field is missing or unknown.

        The turn keeps the value, which must not be changed: a resume reads thousands of turns, and
        copying each would take as long as checking it.
        """
        if not isinstance(value, dict) or value.keys() != _TURN_FIELDS:
            raise Incorrect(
                f"a turn must have the fields {', '.join(sorted(_TURN_FIELDS))}, not {value!r:.80}"
            )
        assistant = read_list("turn assistant", value["assistant"])
        toolcall_ids = read_list("turn toolcall_ids", value["toolcall_ids"])
        meta = _read_meta(value["assistant_meta"])
        encoded = _checked(value, user=value["user"], parts=assistant, ids=toolcall_ids, meta=meta)
        turn = object.__new__(cls)
        object.__setattr__(turn, "user", value["user"])
        object.__setattr__(turn, "assistant", assistant)
        object.__setattr__(turn, "toolcall_ids", toolcall_ids)
        object.__setattr__(turn, "assistant_meta", meta)
        object.__setattr__(turn, "value", value)
        object.__setattr__(turn, "canonical", encoded)
        return turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Sealed):
    """All turns of a session. Each turn is a new version."""

    kind: ClassVar[str] = CHAT
    source: ClassVar[None] = None
    content: ClassVar[None] = None

    session_id: str
    turns: tuple[Turn, ...] = field(default=(), repr=False)
    _values: AppendOnly[Document] = field(init=False, repr=False, compare=False)
    """The stored form of the turns."""
    _toolcalls: OrderedIds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        assert isinstance(self.turns, tuple)
        values = AppendOnly(turn.value for turn in self.turns)
        if self.turns:
            joined = b",".join([turn.canonical for turn in self.turns])
            CANONICAL_ITEMS.keep(values, CanonicalItems((joined,)))
        calls = OrderedIds(chain.from_iterable(turn.toolcall_ids for turn in self.turns))
        self._seal(values, calls)

    @property
    def session_ref(self) -> str:
        return session_object_id(self.session_id)

    @property
    def turn_count(self) -> int:
        return len(self.turns)

    @property
    def toolcall_refs(self) -> tuple[str, ...]:
        """The ids of all tool calls of all turns, in order."""
        return tuple(self._toolcalls)

    def append(self, turn: Turn) -> Self:
        """Return the next version, with one more turn. Costs the turn, and hashing them all."""
        longer = object.__new__(type(self))
        object.__setattr__(longer, "session_id", self.session_id)
        object.__setattr__(longer, "turns", (*self.turns, turn))
        longer._seal(self._values.add((turn.value,)), self._toolcalls.add(turn.toolcall_ids))
        return longer

    def has_turn(self, turn: Turn, *, number: int) -> bool:
        """Whether turn ``number``, from 1, has the messages and tool calls of ``turn``.

        How the answer was made is not compared: a harness that ends a turn again may state another
        time.
        """
        if not 1 <= number <= self.turn_count:
            return False
        stored = self.turns[number - 1]
        return (stored.user, stored.assistant, stored.toolcall_ids) == (
            turn.user,
            turn.assistant,
            turn.toolcall_ids,
        )

    def metadata(self) -> Document:
        return {
            "session_ref": self.session_ref,
            "toolcall_refs": self._toolcalls.in_order[:],
            "turn_count": self.turn_count,
            "turns": self._values[:],
        }

    def grown(self) -> Mapping[str, AppendOnly[Any]]:
        return {"toolcall_refs": self._toolcalls.in_order, "turns": self._values}

    def _seal(self, values: AppendOnly[Document], toolcalls: OrderedIds) -> None:
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_toolcalls", toolcalls)
        small = {"session_ref": self.session_ref, "turn_count": self.turn_count}
        metadata = grown_metadata_hash(small, grown=self.grown())
        seal_unsourced(self, chat_id(self.session_id), content=None, metadata=metadata)


def read_turns(values: object) -> tuple[Turn, ...]:
    """Read turns from their stored form."""
    return tuple(map(Turn.from_value, read_list("turns", values)))


def _checked(
    value: Document,
    *,
    user: str,
    parts: tuple[Mapping[str, Any], ...],
    ids: tuple[str, ...],
    meta: AssistantMeta,
) -> bytes:
    """Return the canonical bytes of a turn; ``Incorrect`` if one of its fields is invalid."""
    check_text("turn user", user)
    check_ids("turn toolcall_ids", ids)
    _check_parts(parts)
    _check_meta(meta)
    # A turn is nested in the list of turns, hence the depth.
    encoded = checked_canonical(value, where="turn", depth=1)
    # Copied: orjson's bytes may occupy a buffer of several KB, and a chat keeps them all.
    return bytes(memoryview(encoded))


def _check_parts(parts: Iterable[Mapping[str, Any]]) -> None:
    if not isinstance(parts, tuple):
        raise Incorrect(f"turn assistant must be a tuple of parts, not {parts!r:.80}")
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise Incorrect(f"a part of an answer must be a map with a type, not {part!r:.80}")


def _check_meta(meta: AssistantMeta) -> None:
    if meta is NO_META:
        return
    for name in ("api", "provider", "model", "stopReason"):
        if getattr(meta, name) is not None:
            check_text(f"assistant_meta {name}", getattr(meta, name))
    if meta.usage is not None and not isinstance(meta.usage, dict):
        raise Incorrect(f"assistant_meta usage must be a map, not {meta.usage!r:.80}")
    if meta.timestamp is not None and type(meta.timestamp) is not int:
        raise Incorrect(f"assistant_meta timestamp must be an integer, not {meta.timestamp!r:.80}")


def _read_meta(value: object) -> AssistantMeta:
    names = frozenset(_META_FIELDS)
    if not isinstance(value, dict) or not value.keys() <= names or None in value.values():
        raise Incorrect(f"assistant_meta may have {', '.join(sorted(names))}, not {value!r:.80}")
    return AssistantMeta(**value) if value else NO_META
