"""What all model APIs have in common: an answer, its tool calls, and ids that are legal. Pure.

Ids of tool calls are the provider's where it promises that they are unique, and otherwise
``{session}:{turn}:{id}`` (003-A20). Sent back, a call needs an id that its API takes and that no
other call of the same payload has: the provider's own where that holds, a made one otherwise.
"""

import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.documents import DEPTH_MAX, Document, check_value
from ctxmgr.core.infrastructure import AssistantMeta
from ctxmgr.core.lines import reference
from ctxmgr.core.parts import TOOLCALL, ShownCall, toolcall_part
from ctxmgr.errors import Incorrect

NO_MESSAGE: Final = "[no message]"
"""Stands where an API demands that the user speaks and nothing was said."""

NAME_LENGTH_MAX: Final = 64
"""Characters of a tool's name: the smallest bound of the APIs."""

OWN_ID_LENGTH_MAX: Final = 128
"""Characters kept of a provider's id; theirs have about 30."""

UNNAMED: Final = "unnamed"
"""The tool of a call that names none. No such tool exists, so the call fails as it should."""

CALL_ID_LENGTH_MAX: Final = 40
"""Characters of a call's id: the smallest bound of the APIs."""

_DEPTH_AROUND: Final = 5
"""Lists and maps around a call's arguments in a stored chat."""

_DEPTH_CUT: Final = DEPTH_MAX + 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{CALL_ID_LENGTH_MAX}}}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A tool call that an answer asks for."""

    toolcall_id: str
    call_id: str
    """The provider's own."""
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    malformed: bool = False
    """The arguments were no map; ``args`` holds their text as ``raw``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's reply as a turn takes it."""

    parts: tuple[Document, ...] = field(repr=False)
    meta: AssistantMeta

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The tool calls it asks for, in order."""
        return tuple(
            Asked(
                toolcall_id=part["toolcall_id"],
                call_id=part["call_id"],
                tool=part["tool"],
                args=part["args"],
                malformed=part.get("malformed", False),
            )
            for part in self.parts
            if part["type"] == TOOLCALL
        )


class ToolCallIds:
    """Gives each tool call of one answer its object id.

    ``taken`` are ids that have calls already: after a crash a turn is asked for again under the
    same number, and what it had run is stored.
    """

    def __init__(
        self, session_id: str, *, turn: int, unique: bool, taken: Container[str] = ()
    ) -> None:
        self._prefix = "" if unique else f"{session_id}:{turn}:"
        self._taken = taken
        self._given: set[str] = set()

    def give(self, call_id: str) -> str:
        """Return an id that nobody has used; some models number all calls alike."""
        object_id, again = f"{self._prefix}{call_id}", 1
        while object_id in self._given or object_id in self._taken or not object_id:
            again += 1
            object_id = f"{self._prefix}{call_id}.{again}"
        self._given.add(object_id)
        return object_id


class WireIds:
    """Gives each tool call of one payload an id that its API takes."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def give(self, call: ShownCall) -> str:
        wire_id, number = call.call_id, len(self._given)
        while wire_id in self._given or not _PLAIN_ID.fullmatch(wire_id):
            number += 1
            wire_id = f"call_{number}"
        self._given.add(wire_id)
        return wire_id


def tool_name(name: str) -> str:
    """Return a name that every API takes. One that came from an API stays as it is."""
    return _NOT_IN_NAMES.sub("_", name)[:NAME_LENGTH_MAX]


def result_text(call: ShownCall) -> str:
    """Return what stands for a call's output: its reference, or its outcome if it has no object."""
    return reference(call.ref) if call.output is None else call.output


def paragraphs(texts: Iterable[str]) -> str:
    """Join texts that end their lines by one empty line each."""
    return "\n".join(text for text in texts if text)


def read_args(value: object) -> tuple[dict[str, Any], bool]:
    """Return the arguments as a map that can be stored, and whether they were none."""
    if not isinstance(value, dict):
        return {"raw": value if isinstance(value, str) else repr(value)}, True
    try:
        check_value(value, where="args", depth=_DEPTH_AROUND)
    except Incorrect:
        return {"raw": repr(value)}, True
    return value, False


def read_call(call_id: object, *, name: object, args: object, ids: "ToolCallIds") -> Document:
    """Return the part for a tool call as some model wrote it, which may lack anything."""
    known, malformed = read_args(args)
    own_id = str(call_id or "")[:OWN_ID_LENGTH_MAX]
    named = str(name or UNNAMED)[:NAME_LENGTH_MAX]
    tool = named if named.isascii() else tool_name(named)
    part = toolcall_part(ids.give(own_id), call_id=own_id, tool=tool, args=known)
    return part | {"malformed": True} if malformed else part


def read_meta(
    reply: Mapping[str, Any],
    *,
    api: str,
    provider: str | None,
    stop_reason: object,
    timestamp: int | None,
) -> AssistantMeta:
    model, usage = reply.get("model"), reply.get("usage")
    return AssistantMeta(
        api=api,
        provider=provider,
        model=model if isinstance(model, str) else None,
        usage=usage if isinstance(usage, dict) else None,
        stopReason=stop_reason if isinstance(stop_reason, str) else None,
        timestamp=timestamp,
    )


def storable(value: Any, *, depth: int = 0) -> Any:
    """Return a reply without what no document holds: half characters and numbers that are none.

    What is nested too deep is cut where it is deeper than any document still: it is refused, or
    told as text, by whoever checks it next.
    """
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case float() if not math.isfinite(value):
            return None
        case list() | dict() if depth > _DEPTH_CUT:
            return None
        case list():
            return [storable(each, depth=depth + 1) for each in value]
        case dict():
            return {storable(key): storable(each, depth=depth + 1) for key, each in value.items()}
        case _:
            return value
