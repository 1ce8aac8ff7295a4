"""Turns of the economy layout: every output after its call, whole or as its view shows it. Pure.

    user: [#3 src/a.py]            what entered or changed since, as a notice
    …
    user: {text}
    assistant: {text}
    toolcall #4 tool=read status=ok args={"path":"src/b.py"}
    {output}

A turn is a function of what is stored and of its views, so that a record of the views is enough to
rebuild it. The keys of views name slots: ``7.2`` is the output of the third part of turn 7,
``7.2/oldText`` one of its arguments, ``7!0`` the first notice before it, ``7.2=`` the digest of the
call and ``7.1~`` a text of the answer.

A folded argument remains a string at its position: APIs accept only valid arguments.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, Self

from ctxmgr.core.context.assembly import PieceKind, ShownTurn
from ctxmgr.core.context.lines import ended, escaped, user_message
from ctxmgr.core.discovery.known_tools import OutputKind, named_path, output_kind
from ctxmgr.core.economy.file_lines import first_line
from ctxmgr.core.economy.folding import TextView, digested, shortened, shown
from ctxmgr.core.economy.protected import has_failed
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart, AnswerText, CallRef, answer_parts
from ctxmgr.core.objects.chat import Turn
from ctxmgr.core.store.canonical import canonical

DIGEST: Final = "="
PROSE: Final = "~"
"""The last character of the keys of digests and of shortened prose."""

TITLE_CHARS_MAX: Final = 60
TITLE_FOLDERS: Final = 1
"""Characters of a call's arguments in the title of its digest, and folders of a path."""

CHARS_MIN: Final = 60
"""Shorter strings are not folded: a handle would be as long."""


def strings(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and text of every string; a path is a JSON pointer, ``/edits/0/newText``."""
    match value:
        case str():
            yield path, value
        case Mapping():
            for name, item in value.items():
                yield from strings(item, f"{path}/{_escaped(name)}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from strings(item, f"{path}/{index}")


def _foldable(args: Mapping[str, Any]) -> list[tuple[str, str]]:
    if all(isinstance(value, str) and len(value) < CHARS_MIN for value in args.values()):
        return []  # most arguments are a path or a short command
    return [(path, text) for path, text in strings(args) if len(text) >= CHARS_MIN]


def replaced(value: Any, others: Mapping[str, str], path: str = "") -> Any:
    """Return the value with other strings at some paths."""
    match value:
        case str():
            return others.get(path, value)
        case Mapping():
            return {
                name: replaced(item, others, f"{path}/{_escaped(name)}")
                for name, item in value.items()
            }
        case list() | tuple():
            return [replaced(item, others, f"{path}/{index}") for index, item in enumerate(value)]
        case _:
            return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


ECONOMY_RENDERER: Final = "economy/2"
"""Identifies the rendered bytes: any change of what a value and its view render to changes it."""

ECONOMY_RENDERERS: Final = ("economy/1", ECONOMY_RENDERER)
"""Whose prompts can be rebuilt. Views of the first have no line numbers, and are still rendered
as they were."""

COMPACTED: Final = "+compaction"
"""Added to the renderer of a prompt that begins with a summary instead of the first turns."""

_COMMANDS: Final = frozenset({OutputKind.RUN, OutputKind.OTHER})
"""Kinds of output in which a harness may report an exit status."""

_AFTER_NUMBER: Final = re.compile("[.!]")
"""In a key, what follows the number of its turn."""

_SOURCE = re.compile(r"[\w./-]+\.\w{1,5}")


def turn_number(key: str) -> int:
    """Return the number of the turn that a key belongs to."""
    return int(_AFTER_NUMBER.split(key, maxsplit=1)[0])


@dataclass(frozen=True, slots=True)
class StreamTurn(ShownTurn):
    """A turn as the economy layout shows it."""

    def __post_init__(self) -> None:
        text = user_message(self.user) + "".join(map(_part, self.parts))
        object.__setattr__(self, "text", text)

    def pieces(self, chat: str) -> Iterator[tuple[str, str]]:
        """Yield its text in pieces: prose is the chat's, a call and its output the call's."""
        yield chat, user_message(self.user)
        for part in self.parts:
            yield part.ref.object_id if isinstance(part, AnswerCall) else chat, _part(part)


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
class TextSlot:
    """One text of a turn that may be folded."""

    key: str
    handle: str
    title: str
    """The handle with tool and status, for a stub."""
    label: str
    """The handle with tool and file, for references to the same lines."""
    subject: str = ""
    """The arguments of a call that names a file: equal subjects are reads of the same lines."""
    path: str = ""
    """The file that it is the text of, if known."""
    object_id: str
    kind: OutputKind
    failed: bool = False
    """Whether it is the output of a call that failed."""
    content: str = field(repr=False)
    message: int
    """Index among the turn's messages: 0 the user's, 1 the answer, then one per output."""
    first_prompt: int
    """The number of the first prompt that shows it."""
    first_line: int = 1
    """The number of its first line in the file that it is the text of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPiece:
    """A part of a turn's text, and what it shows."""

    key: str
    """That of a notice or an output; empty for prose."""
    object_id: str | None
    """None: the chat's own text."""
    text: str = field(repr=False)
    kind: PieceKind
    hidden_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTurn:
    """A turn with the whole texts that it could show."""

    number: int
    notices: tuple[Notice, ...] = ()
    user: str = field(default="", repr=False)
    parts: tuple[AnswerPart, ...] = field(default=(), repr=False)
    """Tool calls with their whole output, each with its handle."""

    def texts(self, views: Mapping[str, TextView]) -> Iterator[tuple[str, str]]:
        """Yield key and content of the slots that the views show, without empty notices."""
        for index, notice in enumerate(self.notices):
            if notice.content:
                yield self._notice_key(index), notice.content
        if self.is_digest(views):
            yield from (
                (self._digest_key(index), _digest_content(call)) for index, call in self._calls()
            )
            return
        outputs: list[tuple[str, str]] = []
        for index, call in self._calls():
            for path, text in _foldable(call.args):
                yield self._key(index, path), text
            outputs.append((self._key(index), call.output or ""))
        yield from outputs

    def slot(self, key: str) -> TextSlot:
        """Return the slot with this key."""
        slots = self.digest_slots() if key.endswith(DIGEST) else self.slots()
        return next(slot for slot in slots if slot.key == key)

    def message_count(self) -> int:
        """Return how many messages ``messages_of`` yields for it."""
        return 2 + len(self._calls())

    def slots(self) -> Iterator[TextSlot]:
        """Yield what may be folded, in the order of the turn."""
        yield from (self._of_notice(index, notice) for index, notice in enumerate(self.notices))
        outputs: list[TextSlot] = []
        for index, call in self._calls():
            yield from self._of_arguments(index, call)
            outputs.append(self._of_output(index, call, message=2 + len(outputs)))
        yield from outputs

    def outputs(self) -> Iterator[tuple[AnswerCall, TextSlot]]:
        """Yield its calls, each with the slot of its output."""
        for number, (index, call) in enumerate(self._calls()):
            yield call, self._of_output(index, call, message=2 + number)

    def digest_slots(self) -> Iterator[TextSlot]:
        """Yield one slot per call, with its long arguments and its output."""
        after = self.message_count()
        for index, call in self._calls():
            yield TextSlot(
                key=self._digest_key(index),
                handle=call.handle,
                title=_digest_title(call),
                label=_label(call),
                object_id=call.ref.object_id,
                kind=OutputKind.OTHER,
                failed=call.ref.status != "ok",
                content=_digest_content(call),
                message=after,
                first_prompt=self.number + 1,
                first_line=0,
            )

    def is_digest(self, views: Mapping[str, TextView]) -> bool:
        """Whether its calls are shown as a digest, before the user's message of the next turn."""
        return any(self._digest_key(index) in views for index, _ in self._calls())

    def digest(self, views: Mapping[str, TextView]) -> str:
        """Return the digest of its calls; empty if they are shown as calls."""
        return "".join(f"{piece.text}\n" for piece in self.digest_pieces(views))

    def digest_pieces(self, views: Mapping[str, TextView]) -> Iterator[TurnPiece]:
        """Yield its digest call by call, without the newline at the end."""
        for index, call in self._calls():
            key = self._digest_key(index)
            if (view := views.get(key)) is not None:
                content = _digest_content(call) if view.spans else ""
                yield TurnPiece(
                    key=key,
                    object_id=call.ref.object_id,
                    text=digested(content, view, title=_digest_title(call))[:-1],
                    kind=PieceKind.DIGEST,
                    hidden_tokens=view.hidden_tokens,
                )

    def shown(self, views: Mapping[str, TextView], *, before: str = "") -> StreamTurn:
        """Return the turn as the views show it; a text without a view is whole.

        ``before`` is the digest of the turn before it. The assistant did not write it, so that it
        is shown as a part of the user's next message.
        """
        user = before + self.shown_user(views)
        if self.is_digest(views):
            return StreamTurn(
                user, tuple(AnswerText(text=text) for text in self.shown_prose(views))
            )
        parts = tuple(
            self._shown_call(index, part, views) if isinstance(part, AnswerCall) else part
            for index, part in enumerate(self.parts)
        )
        return StreamTurn(user, parts)

    def shown_prose(self, views: Mapping[str, TextView]) -> list[str]:
        """Return the texts of the answer, of which some may be shortened."""
        return [
            part.text if (view := views.get(key)) is None else shortened(part.text, view)
            for key, part in self.prose_slots()
        ]

    def prose_slots(self) -> Iterator[tuple[str, AnswerText]]:
        """Yield the texts of the answer, each with the key of its view."""
        for index, part in enumerate(self.parts):
            if isinstance(part, AnswerText):
                yield f"{self._key(index)}{PROSE}", part

    def shown_user(self, views: Mapping[str, TextView]) -> str:
        """Return the notices and the user's text."""
        notices = [
            self._shown_notice(index, notice, views) for index, notice in enumerate(self.notices)
        ]
        return "\n".join([*notices, self.user] if self.user else notices)

    def pieces(
        self,
        views: Mapping[str, TextView],
        *,
        before: "HeldTurn | None" = None,
        summary: str = "",
    ) -> Iterator[TurnPiece]:
        """Yield the text that ``shown`` gives, in pieces; empty ones are left out."""
        yield from self.user_pieces(views, before=before, summary=summary)
        if self.is_digest(views):
            for prose in self.shown_prose(views):
                text, kind = _part(AnswerText(text=prose)), PieceKind.ASSISTANT
                yield TurnPiece(key="", object_id=None, text=text, kind=kind)
            return
        for index, part in enumerate(self.parts):
            if not isinstance(part, AnswerCall):
                text, kind = _part(part), PieceKind.ASSISTANT
                yield TurnPiece(key="", object_id=None, text=text, kind=kind)
                continue
            key = self._key(index)
            keys = (key, *(self._key(index, path) for path, _ in _foldable(part.args)))
            seen = [views[name] for name in keys if name in views]
            is_file = output_kind(part.ref.tool, part.args) is OutputKind.READ
            whole = PieceKind.FILE if is_file else PieceKind.OUTPUT
            yield TurnPiece(
                key=key,
                object_id=part.ref.object_id,
                text=_part(self._shown_call(index, part, views)),
                kind=PieceKind.FOLDED if seen else whole,
                hidden_tokens=sum(view.hidden_tokens for view in seen),
            )

    def user_pieces(
        self,
        views: Mapping[str, TextView],
        *,
        before: "HeldTurn | None" = None,
        summary: str = "",
    ) -> Iterator[TurnPiece]:
        """Yield the message of the user: a summary or a digest, notices, then what the user said.

        The summary ends with a newline, and is that of the turns before it.
        """
        pieces = [] if before is None else list(before.digest_pieces(views))
        if summary:
            text = summary.removesuffix("\n")
            pieces.append(TurnPiece(key="", object_id=None, text=text, kind=PieceKind.SUMMARY))
        pieces += [
            TurnPiece(
                key=key,
                object_id=notice.object_id,
                text=self._shown_notice(index, notice, views),
                kind=PieceKind.FOLDED if view else PieceKind.NOTICE,
                hidden_tokens=view.hidden_tokens if view else 0,
            )
            for index, notice in enumerate(self.notices)
            for key in [self._notice_key(index)]
            for view in [views.get(key) if notice.content else None]
        ]
        if self.user:
            said = TurnPiece(key="", object_id=None, text=self.user, kind=PieceKind.USER)
            pieces.append(said)
        for index, piece in enumerate(pieces):
            text = piece.text if index else f"user: {piece.text}"
            is_last = index == len(pieces) - 1
            yield replace(piece, text=ended(text) if is_last else f"{text}\n")

    def prose(self) -> list[str]:
        """Return the texts of the answer."""
        return [part.text for part in self.parts if isinstance(part, AnswerText)]

    def argument_strings(self) -> list[str]:
        """Return every string in the arguments of its calls."""
        return [text for _, call in self._calls() for _, text in strings(call.args)]

    def _calls(self) -> list[tuple[int, AnswerCall]]:
        return [
            (index, part) for index, part in enumerate(self.parts) if isinstance(part, AnswerCall)
        ]

    def _shown_notice(self, index: int, notice: Notice, views: Mapping[str, TextView]) -> str:
        if not notice.content:
            return notice.heading
        view = views.get(self._notice_key(index))
        return notice.heading + "\n" + shown(notice.content, view, handle=notice.handle)

    def _shown_call(
        self, index: int, call: AnswerCall, views: Mapping[str, TextView]
    ) -> AnswerCall:
        others = {
            path: shown(text, views[key], handle=call.handle)
            for path, text in _foldable(call.args)
            if (key := self._key(index, path)) in views
        }
        view = views.get(self._key(index))
        if view is None and not others:
            return call
        output = shown(call.output or "", view, handle=call.handle, title=_title(call))
        args = replaced(call.args, others) if others else call.args
        return _with_output(call, output, args=args)

    def _key(self, index: int, path: str = "") -> str:
        return f"{self.number}.{index}{path}"

    def _digest_key(self, index: int) -> str:
        return f"{self.number}.{index}{DIGEST}"

    def _notice_key(self, index: int) -> str:
        return f"{self.number}!{index}"

    def _of_notice(self, index: int, notice: Notice) -> TextSlot:
        return TextSlot(
            key=self._notice_key(index),
            handle=notice.handle,
            title=notice.handle,
            label=notice.handle,
            object_id=notice.object_id,
            kind=OutputKind.READ,
            content=notice.content,
            message=0,
            first_prompt=self.number,
        )

    def _of_arguments(self, index: int, call: AnswerCall) -> Iterator[TextSlot]:
        for path, text in _foldable(call.args):
            yield TextSlot(
                key=self._key(index, path),
                handle=call.handle,
                title=call.handle,
                label=_label(call),
                object_id=call.ref.object_id,
                kind=OutputKind.ARGUMENT,
                content=text,
                message=1,
                first_prompt=self.number + 1,
                first_line=0,
            )

    def _of_output(self, index: int, call: AnswerCall, *, message: int) -> TextSlot:
        return TextSlot(
            key=self._key(index),
            handle=call.handle,
            title=_title(call),
            label=_label(call),
            path=_path(call),
            subject=canonical(dict(call.args)).decode() if named_path(call.args) else "",
            object_id=call.ref.object_id,
            kind=(kind := output_kind(call.ref.tool, call.args)),
            failed=call.ref.status != "ok" or (kind in _COMMANDS and has_failed(call.output or "")),
            content=call.output or "",
            message=message,
            first_prompt=self.number + 1,
            first_line=first_line(kind, call.args, call.output or ""),
        )


def numbered(
    parts: Sequence[AnswerPart], *, first: int, outputs: Mapping[str, str]
) -> tuple[AnswerPart, ...]:
    """Return the parts with a handle for every call, from ``first`` on, and its stored output."""
    completed: list[AnswerPart] = []
    numbers = count(first)
    for part in parts:
        if isinstance(part, AnswerCall):
            output = outputs[part.ref.object_id] if part.output is None else part.output
            completed.append(_with_output(part, output, handle=f"#{next(numbers)}"))
        else:
            completed.append(part)
    return tuple(completed)


def _with_output(
    call: AnswerCall,
    output: str,
    *,
    args: Mapping[str, Any] | None = None,
    handle: str | None = None,
) -> AnswerCall:
    """As ``dataclasses.replace``, which takes much longer."""
    return AnswerCall(
        ref=call.ref,
        call_id=call.call_id,
        args=call.args if args is None else args,
        output=output,
        handle=call.handle if handle is None else handle,
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
    """Return a stored turn with its outputs and handles, as the stream had it.

    ``handles`` holds those of the turns before, and is extended by the turn's own.
    """
    handles.update(notice.handle for notice in notices)
    parts = numbered(
        tuple(answer_parts(turn, calls=calls)), first=len(handles) + 1, outputs=outputs
    )
    handles.update(part.handle for part in parts if isinstance(part, AnswerCall))
    return HeldTurn(number=number, notices=notices, user=turn.user, parts=parts)


def messages_of(turn: ShownTurn) -> Iterator[str]:
    """Yield the texts of a turn's messages, for counting: user's, answer, then each output."""
    calls = [part for part in turn.parts if isinstance(part, AnswerCall)]
    yield turn.user
    prose = [part.text for part in turn.parts if isinstance(part, AnswerText)]
    yield "\n".join([*prose, *(call_text(call) for call in calls)])
    yield from (call.output or "" for call in calls)


def call_text(call: AnswerCall) -> str:
    """Return a call as JSON, which is about what APIs show a model."""
    return canonical({"tool": call.ref.tool, "args": dict(call.args)}).decode()


def _digest_content(call: AnswerCall) -> str:
    """Return what a digest is made of: the long arguments of a call, and its output."""
    return "\n".join([*(text for _, text in _foldable(call.args)), call.output or ""])


def _digest_title(call: AnswerCall) -> str:
    """Return the handle, tool, status and short arguments of a call, in one line."""
    path = named_path(call.args)
    if path:
        subject = "/".join(path.rstrip("/").split("/")[-TITLE_FOLDERS - 1 :])
    else:
        values = [text for _, text in strings(call.args)]
        subject = " ".join([text for text in values if len(text) < CHARS_MIN] or values)
    words = " ".join(subject.split())[:TITLE_CHARS_MAX]
    failed = "" if call.ref.status == "ok" else f" {call.ref.status}"
    return f"{call.handle} {escaped(call.ref.tool)}{failed} {escaped(words)}".rstrip()


def _label(call: AnswerCall) -> str:
    path = named_path(call.args) or ""
    return f"{call.handle} {escaped(call.ref.tool)} {escaped(path.rpartition('/')[2])}".rstrip()


def _path(call: AnswerCall) -> str:
    """Return the file that a call read: from its arguments, or the last one in its command."""
    named = named_path(call.args)
    if named or output_kind(call.ref.tool, call.args) is not OutputKind.READ:
        return named or ""
    words = " ".join(text for _, text in strings(call.args)).split()
    bare = (word.strip("'\"") for word in reversed(words))
    return next((word for word in bare if _SOURCE.fullmatch(word)), "")


def _title(call: AnswerCall) -> str:
    return f"{call.handle} {escaped(call.ref.tool)} {call.ref.status}"


def _part(part: AnswerPart) -> str:
    match part:
        case AnswerText(text=text) if text:
            return ended(f"assistant: {text}")
        case AnswerCall():
            handle = f"{part.handle} " if part.handle else ""
            args = canonical(dict(part.args)).decode()
            heading = f"tool={escaped(part.ref.tool)} status={part.ref.status} args={args}\n"
            return f"toolcall {handle}{heading}" + ended(part.output or "")
        case _:
            return ""


COMPACTED_TURN: Final = StreamTurn("", ())
"""How a turn is shown that is part of a summary: not at all."""
