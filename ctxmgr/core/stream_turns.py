"""Turns of the economy layout: every output in its place, in full or as its view says. Pure.

    user: [#3 src/a.py]            what entered or changed since, as a notice
    …
    user: {text}
    assistant: {text}
    toolcall #4 tool=read status=ok args={"path":"src/b.py"}
    {output}

A turn is a function of what is stored and of its views, so that a record of the views is enough to
make it again. The keys of views name places: ``7.2`` is the output of the third part of turn 7,
``7.2/oldText`` one of its arguments, ``7!0`` the first notice before it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, Self

from ctxmgr.core.assembly import ShownTurn
from ctxmgr.core.canonical import canonical
from ctxmgr.core.folded_arguments import CHARS_MIN, replaced, strings
from ctxmgr.core.folding import View, shown
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.lines import ended, escaped, user_message
from ctxmgr.core.parts import CallRef, Shown, ShownCall, ShownText, shown_parts
from ctxmgr.core.tool_kinds import Kind, kind_of
from ctxmgr.core.tool_traces import named_path

ECONOMY_RENDERER: Final = "economy/1"
"""Names these bytes. Whoever changes one byte of what a value and its view render to changes it."""

_SOURCE = re.compile(r"[\w./-]+\.\w{1,5}")


@dataclass(frozen=True, slots=True)
class StreamTurn(ShownTurn):
    """A turn as the economy layout shows it."""

    def __post_init__(self) -> None:
        text = user_message(self.user) + "".join(map(_part, self.parts))
        object.__setattr__(self, "text", text)

    def pieces(self, chat: str) -> Iterator[tuple[str, str]]:
        """Give its text in pieces: what was said is the chat's, a call and its output its own."""
        yield chat, user_message(self.user)
        for part in self.parts:
            yield part.ref.object_id if isinstance(part, ShownCall) else chat, _part(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that entered, changed or left since the turn before."""

    handle: str
    object_id: str
    heading: str
    content: str = field(default="", repr=False)

    def to_value(self) -> dict[str, str]:
        return {
            "handle": self.handle,
            "object_id": self.object_id,
            "heading": self.heading,
            "content": self.content,
        }

    @classmethod
    def from_value(cls, value: Mapping[str, str]) -> Self:
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One text of a turn that may be folded."""

    key: str
    handle: str
    title: str
    """The handle with tool and status, for a stub."""
    label: str
    """The handle with what it is of, for whoever shows the same lines."""
    subject: str = ""
    """What was read, where the call names a file: the same again is the same."""
    path: str = ""
    """Of the file that it is the text of, where that can be told."""
    object_id: str
    kind: Kind
    content: str = field(repr=False)
    message: int
    """Of the turn's own messages: 0 the user's, 1 the answer, then one per output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTurn:
    """A turn with all that it could show."""

    number: int
    notices: tuple[Notice, ...] = ()
    user: str = field(default="", repr=False)
    parts: tuple[Shown, ...] = field(default=(), repr=False)
    """Tool calls with their whole output, each with its handle."""

    def places(self) -> Iterator[Place]:
        """Give what may be folded, in the order of the turn."""
        yield from (self._of_notice(at, each) for at, each in enumerate(self.notices))
        outputs: list[Place] = []
        for at, call in self._calls():
            yield from self._of_arguments(at, call)
            outputs.append(self._of_output(at, call, message=2 + len(outputs)))
        yield from outputs

    def shown(self, views: Mapping[str, View]) -> StreamTurn:
        """Return the turn as the views say; what has none is whole."""
        parts = tuple(
            self._shown_call(at, part, views) if isinstance(part, ShownCall) else part
            for at, part in enumerate(self.parts)
        )
        return StreamTurn(self.shown_user(views), parts)

    def shown_user(self, views: Mapping[str, View]) -> str:
        """Return what stands before the answer."""
        told = [self._told(at, each, views) for at, each in enumerate(self.notices)]
        return "\n".join([*told, self.user] if self.user else told)

    def said(self) -> list[str]:
        """Return the prose of the answer."""
        return [part.text for part in self.parts if isinstance(part, ShownText)]

    def asked(self) -> list[str]:
        """Return every string in the arguments of its calls."""
        return [text for _, call in self._calls() for _, text in strings(call.args)]

    def _calls(self) -> Iterator[tuple[int, ShownCall]]:
        for at, part in enumerate(self.parts):
            if isinstance(part, ShownCall):
                yield at, part

    def _told(self, at: int, notice: Notice, views: Mapping[str, View]) -> str:
        if not notice.content:
            return notice.heading
        view = views.get(f"{self.number}!{at}")
        return notice.heading + "\n" + shown(notice.content, view, handle=notice.handle)

    def _shown_call(self, at: int, call: ShownCall, views: Mapping[str, View]) -> ShownCall:
        others = {
            path: shown(text, views[key], handle=call.handle)
            for path, text in strings(call.args)
            if (key := self._key(at, path)) in views
        }
        view = views.get(self._key(at))
        output = shown(call.output or "", view, handle=call.handle, title=_title(call))
        args = replaced(call.args, others) if others else call.args
        return replace(call, args=args, output=output)

    def _key(self, at: int, path: str = "") -> str:
        return f"{self.number}.{at}{path}"

    def _of_notice(self, at: int, notice: Notice) -> Place:
        return Place(
            key=f"{self.number}!{at}",
            handle=notice.handle,
            title=notice.handle,
            label=notice.handle,
            object_id=notice.object_id,
            kind=Kind.READ,
            content=notice.content,
            message=0,
        )

    def _of_arguments(self, at: int, call: ShownCall) -> Iterator[Place]:
        for path, text in strings(call.args):
            if len(text) >= CHARS_MIN:
                yield Place(
                    key=self._key(at, path),
                    handle=call.handle,
                    title=call.handle,
                    label=_label(call),
                    object_id=call.ref.object_id,
                    kind=Kind.ARGUMENT,
                    content=text,
                    message=1,
                )

    def _of_output(self, at: int, call: ShownCall, *, message: int) -> Place:
        return Place(
            key=self._key(at),
            handle=call.handle,
            title=_title(call),
            label=_label(call),
            path=_path(call),
            subject=canonical(dict(call.args)).decode() if named_path(call.args) else "",
            object_id=call.ref.object_id,
            kind=kind_of(call.ref.tool, call.args),
            content=call.output or "",
            message=message,
        )


def numbered(
    parts: Sequence[Shown], *, first: int, outputs: Mapping[str, str]
) -> tuple[Shown, ...]:
    """Give every tool call its handle, from ``first`` on, and its output if an object holds it."""
    given: list[Shown] = []
    numbers = count(first)
    for part in parts:
        if isinstance(part, ShownCall):
            output = outputs[part.ref.object_id] if part.output is None else part.output
            given.append(replace(part, handle=f"#{next(numbers)}", output=output))
        else:
            given.append(part)
    return tuple(given)


def held_turns(
    turns: Sequence[Turn],
    *,
    calls: Mapping[str, CallRef],
    outputs: Mapping[str, str],
    notices: Mapping[int, tuple[Notice, ...]],
) -> Iterator[HeldTurn]:
    """Give stored turns with their outputs and handles, as the stream had them."""
    handles: set[str] = set()
    for number, turn in enumerate(turns, start=1):
        yield held_turn(
            turn,
            number=number,
            calls=calls,
            outputs=outputs,
            notices=notices.get(number, ()),
            handles=handles,
        )


def held_turn(
    turn: Turn,
    *,
    number: int,
    calls: Mapping[str, CallRef],
    outputs: Mapping[str, str],
    notices: tuple[Notice, ...],
    handles: set[str],
) -> HeldTurn:
    """Give one of them; ``handles`` are those of the turns before, and take in its own."""
    handles.update(notice.handle for notice in notices)
    parts = numbered(tuple(shown_parts(turn, calls=calls)), first=len(handles) + 1, outputs=outputs)
    handles.update(part.handle for part in parts if isinstance(part, ShownCall))
    return HeldTurn(number=number, notices=notices, user=turn.user, parts=parts)


def messages_of(turn: ShownTurn) -> Iterator[str]:
    """Give what the messages of a turn hold, for counting: user's, answer, then each output."""
    calls = [part for part in turn.parts if isinstance(part, ShownCall)]
    yield turn.user
    said = [part.text for part in turn.parts if isinstance(part, ShownText)]
    yield "\n".join([*said, *(call_text(call) for call in calls)])
    yield from (call.output or "" for call in calls)


def call_text(call: ShownCall) -> str:
    """Return a call as JSON, as models are shown it in one way or another."""
    return canonical({"tool": call.ref.tool, "args": dict(call.args)}).decode()


def _label(call: ShownCall) -> str:
    path = named_path(call.args) or ""
    return f"{call.handle} {escaped(call.ref.tool)} {escaped(path.rpartition('/')[2])}".rstrip()


def _path(call: ShownCall) -> str:
    """Return which file a call read: as it says, or as its command names one at the end."""
    named = named_path(call.args)
    if named or kind_of(call.ref.tool, call.args) is not Kind.READ:
        return named or ""
    words = " ".join(text for _, text in strings(call.args)).split()
    return next((word for word in reversed(words) if _SOURCE.fullmatch(word)), "")


def _title(call: ShownCall) -> str:
    return f"{call.handle} {escaped(call.ref.tool)} {call.ref.status}"


def _part(part: Shown) -> str:
    match part:
        case ShownText(text=text) if text:
            return ended(f"assistant: {text}")
        case ShownCall():
            return _heading(part) + ended(part.output or "")
        case _:
            return ""


def _heading(call: ShownCall) -> str:
    handle = f"{call.handle} " if call.handle else ""
    args: Any = canonical(dict(call.args)).decode()
    tool = escaped(call.ref.tool)
    return f"toolcall {handle}tool={tool} status={call.ref.status} args={args}\n"
