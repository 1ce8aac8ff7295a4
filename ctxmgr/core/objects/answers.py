"""The parts of a model's answer, independent of any provider's API. Pure.

    text          {"type": "text", "text": …}
    toolcall      {"type": "toolcall", "toolcall_id": …, "call_id": …, "tool": …, "args": {…}}
    contextcall   {"type": "contextcall", "call_id": …, "tool": …, "args": {…},
                   "status": …, "output": …}
    native        {"type": "native", "api": …, "block": {…}}

A ``toolcall`` refers to its object, which holds the output; ``call_id`` is the provider's id. A
``contextcall`` (activate, deactivate, pin, unpin) has no object, so the part holds its output. With
``"explained": true``, prompts in the form of text give the reason of a call that failed without an
object; parts of earlier versions do not have it. A
``native`` block, such as signed thinking, is kept unchanged and sent back only to its API. Parts of
other types are kept and never shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect

TEXT: Final = "text"
TOOLCALL: Final = "toolcall"
CONTEXTCALL: Final = "contextcall"
NATIVE: Final = "native"

EXPLAINED: Final[Mapping[str, bool]] = {"explained": True}
"""Marks a part whose call may have failed without an object."""

Status: TypeAlias = Literal["ok", "fail"]

NOT_RUN: Final = "this tool call was not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRef:
    """What a conversation shows of a tool call, without its output."""

    object_id: str
    tool: str
    status: Status

    @classmethod
    def of(cls, toolcall: ToolCall) -> Self:
        return cls(object_id=toolcall.object_id, tool=toolcall.tool, status=toolcall.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerText:
    """Text of the assistant."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCall:
    """A tool call in an answer."""

    ref: CallRef
    call_id: str
    args: Mapping[str, Any]
    output: str | None = None
    """Set if there is no object to hold it, or if a policy shows outputs inside the answer."""
    explained: bool = False
    """Whether the text of a prompt gives the reason if it failed and has no object."""
    handle: str = ""
    """The short name that a policy gives it; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNative:
    """A block that only one API understands."""

    api: str
    block: Mapping[str, Any]


AnswerPart: TypeAlias = AnswerText | AnswerCall | AnswerNative


def text_part(text: str) -> Document:
    """Return the part of an answer that holds text."""
    return {"type": TEXT, "text": text}


def toolcall_part(
    toolcall_id: str, *, call_id: str, tool: str, args: Mapping[str, Any]
) -> Document:
    """Return the part of an answer that asks for a tool call.

    ``toolcall_id`` is the id of the recorded object, ``call_id`` the id that the model gave.
    """
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
    """Return the part of an answer that activates, deactivates, pins or unpins, with its output."""
    return {
        "type": CONTEXTCALL,
        "call_id": call_id,
        "tool": tool,
        "args": dict(args),
        "status": status,
        "output": output,
    }


def native_part(api: str, *, block: Mapping[str, Any]) -> Document:
    """Return the part of an answer that holds a block of one API."""
    return {"type": NATIVE, "api": api, "block": dict(block)}


def answer_parts(turn: Turn, *, calls: Mapping[str, CallRef]) -> Iterator[AnswerPart]:
    """Yield the parts of a turn's answer in order; ``calls`` has its tool calls by id.

    A requested call that is not in ``turn.toolcall_ids`` was not run. A call of the turn that no
    part mentions comes last. Raises ``Incorrect`` for a call that is not in ``calls``, and for a
    part that lacks a field of its type.
    """
    mentioned = set()
    for part in turn.assistant:
        if part["type"] == TOOLCALL:
            mentioned.add(part.get("toolcall_id"))
        try:
            yield from _read_part(part, turn=turn, calls=calls)
        except KeyError as error:
            raise Incorrect(f"a {part['type']} part has no {error}") from error
    for object_id in turn.toolcall_ids:
        if object_id not in mentioned:
            yield AnswerCall(ref=_require_call(object_id, calls), call_id=object_id, args={})


def _read_part(
    part: Mapping[str, Any], *, turn: Turn, calls: Mapping[str, CallRef]
) -> Iterator[AnswerPart]:
    match part["type"]:
        case "text":
            yield AnswerText(text=part["text"])
        case "toolcall" if part["toolcall_id"] in turn.toolcall_ids:
            ref = _require_call(part["toolcall_id"], calls)
            yield AnswerCall(ref=ref, call_id=part["call_id"], args=part["args"])
        case "toolcall":
            ref = CallRef(object_id=part["toolcall_id"], tool=part["tool"], status="fail")
            yield _without_object(part, ref, output=NOT_RUN)
        case "contextcall":
            ref = CallRef(object_id=part["call_id"], tool=part["tool"], status=part["status"])
            yield _without_object(part, ref, output=part["output"])
        case "native":
            yield AnswerNative(api=part["api"], block=part["block"])


def _without_object(part: Mapping[str, Any], ref: CallRef, *, output: str) -> AnswerCall:
    return AnswerCall(
        ref=ref,
        call_id=part["call_id"],
        args=part["args"],
        output=output,
        explained=part.get("explained") is True,
    )


def _require_call(object_id: str, calls: Mapping[str, CallRef]) -> CallRef:
    if object_id not in calls:
        raise Incorrect(f"{object_id}: the turn refers to this tool call, which is missing")
    return calls[object_id]
