"""Answers of models and the ids of their tool calls, independent of any one API. Pure.

A tool call has two ids. Its object id is the provider's id if the provider guarantees uniqueness,
and ``{session}:{turn}:{id}`` otherwise (003-A20). The id it is sent back with must be valid for the
API and unique within the payload: the provider's id if it is both, a generated one otherwise.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from ctxmgr.core.context.lines import reference
from ctxmgr.core.objects.answers import (
    TEXT,
    TOOLCALL,
    AnswerCall,
    native_part,
    text_part,
    toolcall_part,
)
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.store.documents import Document, check_value
from ctxmgr.errors import Incorrect

NO_MESSAGE: Final = "[no message]"
"""Sent where an API requires a user message and there is none."""

NAME_LENGTH_MAX: Final = 64
"""Characters of a tool's name: the smallest limit of all APIs."""

STORED_ID_LENGTH_MAX: Final = 128
"""Characters of a provider's id that are stored; usual ids have about 30."""

UNNAMED: Final = "unnamed"
"""The tool of a call without a name. No such tool exists, so the call fails."""

SENT_ID_LENGTH_MAX: Final = 40
"""Characters of a call's id in a payload: the smallest limit of all APIs."""

_ARGS_DEPTH: Final = 5
"""Depth at which a stored chat nests the arguments of a call."""

_VALID_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{SENT_ID_LENGTH_MAX}}}")
_INVALID_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A tool call that an answer requests."""

    toolcall_id: str
    """The id of the tool call's object."""
    call_id: str
    """The provider's id."""
    tool: str
    args: Mapping[str, Any] = field(repr=False)
    malformed: bool = False
    """Whether the arguments were not a JSON object; ``args["raw"]`` then holds their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's reply in the form that ``LiveSession.end_turn`` takes."""

    parts: tuple[Document, ...] = field(repr=False)
    meta: AssistantMeta

    @property
    def calls(self) -> tuple[RequestedCall, ...]:
        """The tool calls that it requests, in order."""
        return tuple(
            RequestedCall(
                toolcall_id=part["toolcall_id"],
                call_id=part["call_id"],
                tool=part["tool"],
                args=part["args"],
                malformed=part.get("malformed", False),
            )
            for part in self.parts
            if part["type"] == TOOLCALL
        )


def answer_text(parts: Iterable[Mapping[str, Any]], *, separator: str = "\n") -> str:
    """Return the text of an answer without its tool calls."""
    return separator.join(part["text"] for part in parts if part["type"] == TEXT)


class ToolCallIds:
    """Assigns object ids to the tool calls of one answer.

    ``taken`` holds ids that are in use: after a crash a turn is repeated under the same number, and
    the tool calls that it had run are stored already.
    """

    def __init__(
        self, session_id: str, *, turn: int, unique: bool, taken: Container[str] = ()
    ) -> None:
        self._prefix = "" if unique else f"{session_id}:{turn}:"
        self._taken = taken
        self._assigned: set[str] = set()

    def assign(self, call_id: str) -> str:
        """Return an unused object id; some models give all calls the same id."""
        object_id, attempt = f"{self._prefix}{call_id}", 1
        while object_id in self._assigned or object_id in self._taken or not object_id:
            attempt += 1
            object_id = f"{self._prefix}{call_id}.{attempt}"
        self._assigned.add(object_id)
        return object_id


class WireIds:
    """Assigns ids that an API accepts to the tool calls of one payload."""

    def __init__(self) -> None:
        self._assigned: set[str] = set()

    def assign(self, call: AnswerCall) -> str:
        wire_id, number = call.call_id, len(self._assigned)
        while wire_id in self._assigned or not _VALID_ID.fullmatch(wire_id):
            number += 1
            wire_id = f"call_{number}"
        self._assigned.add(wire_id)
        return wire_id


def tool_name(name: str) -> str:
    """Return a name that every API accepts. A name that came from an API is unchanged."""
    return _INVALID_IN_NAMES.sub("_", name)[:NAME_LENGTH_MAX]


def result_text(call: AnswerCall) -> str:
    """Return the text of a tool's result: its output if the prompt has it, or a reference."""
    return reference(call.ref) if call.output is None else call.output


def read_call(call_id: object, *, name: object, args: object, ids: ToolCallIds) -> Document:
    """Return the answer part for a tool call. Id, name and arguments may be missing or malformed.

    Arguments that are not a JSON object, or that no document can hold, are kept as text.
    """
    stored_id = str(call_id or "")[:STORED_ID_LENGTH_MAX]
    short_name = str(name or UNNAMED)[:NAME_LENGTH_MAX]
    tool = short_name if short_name.isascii() else tool_name(short_name)
    object_id = ids.assign(stored_id)
    if is_storable_object(args):
        return toolcall_part(object_id, call_id=stored_id, tool=tool, args=args)
    raw = {"raw": args if isinstance(args, str) else repr(args)}
    part = toolcall_part(object_id, call_id=stored_id, tool=tool, args=raw)
    return part | {"malformed": True}


@contextmanager
def reading_reply(api: str) -> Iterator[None]:
    """Report a reply that is not one of the API's as ``Incorrect``."""
    try:
        yield
    except KeyError as error:
        raise Incorrect(f"the reply is not one of {api}: the field {error} is missing") from error
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        raise Incorrect(f"the reply is not one of {api}: {error!s:.200}") from error


def read_native(block: object, *, api: str) -> Document:
    """Return the answer part for a block of one API; one that no document can hold is left out."""
    return native_part(api, block=block) if is_storable_object(block) else text_part("")


def read_meta(
    reply: Mapping[str, Any],
    *,
    api: str,
    provider: str | None,
    stop_reason: object,
    timestamp: int | None,
) -> AssistantMeta:
    """Return model, usage and stop reason of a reply; values of the wrong type are left out."""
    model, usage = reply.get("model"), reply.get("usage")
    return AssistantMeta(
        api=api,
        provider=provider,
        model=model if isinstance(model, str) else None,
        usage=usage if is_storable_object(usage) else None,
        stopReason=stop_reason if isinstance(stop_reason, str) else None,
        timestamp=timestamp,
    )


def is_storable_object(args: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a JSON object that a stored chat can hold."""
    if not isinstance(args, dict):
        return False
    try:
        check_value(args, where="args", depth=_ARGS_DEPTH)
    except Incorrect:
        return False
    return True
