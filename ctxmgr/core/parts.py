"""The parts of an answer, in no provider's words. Pure.

    text          {"type": "text", "text": …}
    toolcall      {"type": "toolcall", "toolcall_id": …, "call_id": …, "tool": …, "args": {…}}
    contextcall   {"type": "contextcall", "call_id": …, "tool": …, "args": {…},
                   "status": …, "output": …}
    native        {"type": "native", "api": …, "block": {…}}

A ``toolcall`` names its object, which holds the output; ``call_id`` is the provider's own id. A
``contextcall`` (activate, deactivate, pin, unpin) has no object, so its outcome stands here. What
only one API understands, such as signed thinking, is kept as it came and given back to it alone.
Parts of other types are kept and shown to nobody.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

from ctxmgr.core.contents import ToolCall
from ctxmgr.core.documents import Document
from ctxmgr.core.infrastructure import Turn
from ctxmgr.errors import Incorrect

TEXT: Final = "text"
TOOLCALL: Final = "toolcall"
CONTEXTCALL: Final = "contextcall"
NATIVE: Final = "native"

Status: TypeAlias = Literal["ok", "fail"]

NOT_RUN: Final = "this tool call was not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRef:
    """What the conversation shows of a tool call: never its output."""

    object_id: str
    tool: str
    status: Status

    @classmethod
    def of(cls, toolcall: ToolCall) -> Self:
        return cls(object_id=toolcall.object_id, tool=toolcall.tool, status=toolcall.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """Something the assistant said."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A tool call in its place in the answer."""

    ref: CallRef
    call_id: str
    args: Mapping[str, Any]
    output: str | None = None
    """Where there is no object to hold it, and where a policy shows outputs in their place."""
    handle: str = ""
    """What the agent may call it by, where a policy gives it a short name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNative:
    """Something that one API alone understands."""

    api: str
    block: Mapping[str, Any]


Shown: TypeAlias = ShownText | ShownCall | ShownNative


def text_part(text: str) -> Document:
    return {"type": TEXT, "text": text}


def toolcall_part(
    toolcall_id: str, *, call_id: str, tool: str, args: Mapping[str, Any]
) -> Document:
    return {
        "type": TOOLCALL,
        "toolcall_id": toolcall_id,
        "call_id": call_id,
        "tool": tool,
        "args": dict(args),
    }


def contextcall_part(
    call_id: str, *, tool: str, args: Mapping[str, Any], status: Status, output: str
) -> Document:
    return {
        "type": CONTEXTCALL,
        "call_id": call_id,
        "tool": tool,
        "args": dict(args),
        "status": status,
        "output": output,
    }


def native_part(api: str, *, block: Mapping[str, Any]) -> Document:
    return {"type": NATIVE, "api": api, "block": dict(block)}


def shown_parts(turn: Turn, *, calls: Mapping[str, CallRef]) -> Iterator[Shown]:
    """Read a turn's answer in the order it happened; ``calls`` knows its tool calls by id.

    A call that was asked for and is not among the turn's own was not run. One of the turn's own
    that no part mentions comes last. ``Incorrect`` for one that ``calls`` does not know, and for a
    part that lacks what its type needs.
    """
    mentioned = set()
    for part in turn.assistant:
        if part["type"] == TOOLCALL:
            mentioned.add(part.get("toolcall_id"))
        try:
            yield from _shown(part, turn=turn, calls=calls)
        except KeyError as error:
            raise Incorrect(f"a {part['type']} part has no {error}") from error
    for object_id in turn.toolcall_ids:
        if object_id not in mentioned:
            yield ShownCall(ref=_known(object_id, calls), call_id=object_id, args={})


def _shown(part: Mapping[str, Any], *, turn: Turn, calls: Mapping[str, CallRef]) -> Iterator[Shown]:
    match part["type"]:
        case "text":
            yield ShownText(text=part["text"])
        case "toolcall" if part["toolcall_id"] in turn.toolcall_ids:
            ref = _known(part["toolcall_id"], calls)
            yield ShownCall(ref=ref, call_id=part["call_id"], args=part["args"])
        case "toolcall":
            ref = CallRef(object_id=part["toolcall_id"], tool=part["tool"], status="fail")
            yield ShownCall(ref=ref, call_id=part["call_id"], args=part["args"], output=NOT_RUN)
        case "contextcall":
            ref = CallRef(object_id=part["call_id"], tool=part["tool"], status=part["status"])
            output = part["output"]
            yield ShownCall(ref=ref, call_id=part["call_id"], args=part["args"], output=output)
        case "native":
            yield ShownNative(api=part["api"], block=part["block"])


def _known(object_id: str, calls: Mapping[str, CallRef]) -> CallRef:
    if object_id not in calls:
        raise Incorrect(f"{object_id}: the turn made this tool call, and nothing is known of it")
    return calls[object_id]
