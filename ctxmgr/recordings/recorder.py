"""A recorded conversation, independent of the format it was recorded in. Pure.

    Recording          system prompt and turns
    └─ RecordedTurn    one model call: the new user text, then the text and tool calls of the answer
                       in their order, with outputs; usage, model and time if they were recorded

``Recorder`` builds a recording from the entries of a file: an answer that is split over several
entries becomes one turn, and results are matched to calls by id. Values of another type than the
format has raise ``ValueError``, which the reader reports with its position.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from ctxmgr.core.model import Usage, to_value
from ctxmgr.errors import Incorrect

TURNS_MAX: Final = 100_000
"""Turns of one recording; weeks of work have a few thousand."""

INSTANT_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""

TOKENS_MAX: Final = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""

IMAGE: Final = "[image]"
"""Replaces an image."""

_TEXT_BLOCKS: Final = frozenset({"text", "input_text", "output_text", None})
_IMAGE_BLOCKS: Final = frozenset({"image", "image_url", "input_image"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A tool call with its result."""

    call_id: str
    tool: str
    args: Any = field(repr=False)
    """As they were recorded; a JSON object unless the model wrote something else."""
    output: str | None = field(repr=False)
    """None if no result was recorded."""
    failed: bool = False
    timestamp: int | None = None
    """When the result was recorded, in UTC milliseconds."""


RecordedPart: TypeAlias = str | RecordedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """One model call."""

    user: str = field(repr=False)
    parts: tuple[RecordedPart, ...] = field(repr=False)
    """Text and tool calls of the answer, in their order."""
    model: str | None = None
    usage: Usage | None = None
    timestamp: int | None = None
    """UTC milliseconds."""

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The tool calls of the answer."""
        return tuple(part for part in self.parts if isinstance(part, RecordedCall))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded session."""

    format: str
    recorded_id: str | None
    """The session's id in the harness that recorded it."""
    system_prompt: str = field(repr=False)
    """Empty if it was not recorded, as in most formats."""
    turns: tuple[RecordedTurn, ...] = field(repr=False)
    unanswered: str = field(default="", repr=False)
    """User text at the end for which no answer was recorded."""
    parent: str | None = None
    """The session that started this one for a subagent; None for other sessions."""


@dataclass(slots=True)
class _OpenCall:
    call_id: str
    tool: str
    args: Any
    output: str | None = None
    failed: bool = False
    timestamp: int | None = None

    def finished(self) -> RecordedCall:
        return RecordedCall(
            call_id=self.call_id,
            tool=self.tool,
            args=self.args,
            output=self.output,
            failed=self.failed,
            timestamp=self.timestamp,
        )


@dataclass(slots=True)
class _OpenTurn:
    key: str | None
    user: str
    parts: list[str | _OpenCall] = field(default_factory=list)
    model: str | None = None
    usage: Usage | None = None
    timestamp: int | None = None

    def finished(self) -> RecordedTurn:
        parts = (part.finished() if isinstance(part, _OpenCall) else part for part in self.parts)
        return RecordedTurn(
            user=self.user,
            parts=tuple(parts),
            model=self.model,
            usage=self.usage,
            timestamp=self.timestamp,
        )


class Recorder:
    """Builds a recording from messages, tool calls and results in their order."""

    def __init__(self) -> None:
        self.recorded_id: str | None = None
        self.parent: str | None = None
        """The session that started this one for a subagent."""
        self.model: str | None = None
        """The model of answers that do not name one."""
        self._system: list[str] = []
        self._environment: list[str] = []
        self._turns: list[_OpenTurn] = []
        self._user: list[str] = []
        self._calls: dict[str, _OpenCall] = {}
        self._open = False

    def system(self, text: str) -> None:
        """Add to the system prompt or, after the first answer, to the next user text."""
        if self._turns:
            self.user(text)
        elif _text(text, "text"):
            self._system.append(text)

    def environment(self, text: str) -> None:
        """Add what the harness says about its environment, which follows the system prompt."""
        if self._turns:
            self.user(text)
        elif _text(text, "text"):
            self._environment.append(text)

    def user(self, text: str) -> None:
        if _text(text, "text"):
            self._user.append(text)
            self._open = False

    def answer(
        self,
        key: str | None = None,
        *,
        model: str | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Start an answer, or continue the last one if it has this key."""
        if not self.continues(key):
            if len(self._turns) >= TURNS_MAX:
                raise Incorrect(f"the recording has more than {TURNS_MAX:,} model calls")
            self._turns.append(_OpenTurn(key, "\n\n".join(self._user)))
            self._user.clear()
            self._open = True
        turn = self._turns[-1]
        turn.model = _optional(model or turn.model or self.model, "model")
        turn.timestamp = turn.timestamp if timestamp is None else timestamp

    def text(self, text: str) -> None:
        """Add text to the last answer."""
        if _text(text, "text"):
            self._last.parts.append(text)

    def call(self, call_id: str, *, tool: str, args: Any) -> None:
        """Add a tool call to the last answer."""
        call = _OpenCall(_text(call_id, "id of a tool call"), _text(tool, "tool"), args)
        self._last.parts.append(call)
        self._calls[call_id] = call

    def result(
        self, call_id: str, *, output: str, failed: bool = False, timestamp: int | None = None
    ) -> None:
        """Add the result of a call and end the answer; ``Incorrect`` if there is no such call."""
        call = self._calls.get(call_id)
        if call is None:
            raise Incorrect(
                f"a result for the tool call {call_id!r:.80}, which does not precede it"
            )
        _text(output, "output")
        call.output = output if call.output is None else f"{call.output}\n{output}"
        call.failed = call.failed or failed
        call.timestamp = call.timestamp if timestamp is None else timestamp
        self._open = False

    def fail(self, call_id: str) -> None:
        """Mark a call as failed, whether its result was recorded before or will be later."""
        if call_id in self._calls:
            self._calls[call_id].failed = True

    def end_answer(self) -> None:
        """End the last answer: what follows is another one."""
        self._open = False

    def discard_summary(self, text: str) -> None:
        """Remove the last text of the last answer if ``text`` ends with it, and end the answer.

        Such a text is the summary of a compaction. If nothing else was answered, the user text
        before it belongs to the next answer.
        """
        self._open = False
        last = self._turns[-1] if self._turns else None
        part = last.parts[-1] if last is not None and last.parts else None
        if last is None or not isinstance(part, str) or not _text(text, "text").endswith(part):
            return
        last.parts.pop()
        if not last.parts:
            self._turns.pop()
            self._user = [last.user, *self._user] if last.user else self._user

    def usage(self, usage: Usage) -> None:
        """Set the usage of the last answer, replacing an earlier report."""
        counts = to_value(usage).values()
        if any(type(count) is not int or not 0 <= count <= TOKENS_MAX for count in counts):
            raise ValueError("a number of tokens is invalid")
        if self._turns:
            self._turns[-1].usage = usage

    @property
    def _last(self) -> _OpenTurn:
        if not self._turns:
            raise ValueError("a part of an answer before the first answer")
        return self._turns[-1]

    @property
    def has_answers(self) -> bool:
        """Whether an answer has started."""
        return bool(self._turns)

    @property
    def has_system_prompt(self) -> bool:
        return bool(self._system)

    @property
    def has_usage(self) -> bool:
        """Whether the usage of the last answer is known."""
        return bool(self._turns) and self._turns[-1].usage is not None

    @property
    def is_open(self) -> bool:
        """Whether an answer has started and neither a result nor user text followed."""
        return self._open

    def continues(self, key: str | None) -> bool:
        """Return whether the last answer has this key."""
        return key is not None and bool(self._turns) and self._turns[-1].key == key

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def finished(self, name: str) -> Recording:
        if not self._turns:
            raise Incorrect("the recording contains no answer of a model")
        return Recording(
            format=name,
            recorded_id=_optional(self.recorded_id, "session id"),
            parent=_optional(self.parent, "parent"),
            system_prompt="\n\n".join([*self._system, *self._environment]),
            turns=tuple(turn.finished() for turn in self._turns),
            unanswered="\n\n".join(self._user),
        )


def content_text(content: object) -> str:
    """Return the content of a message, which is text, blocks or None, as text."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(filter(None, map(_block_text, content)))
        case dict():
            return _block_text(content)
        case _:
            raise ValueError(f"content is text or a list of blocks, not {content!r:.80}")


def parse_args(arguments: object) -> object:
    """Parse arguments that are JSON text; other text is returned unchanged."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def milliseconds(value: object) -> int | None:
    """Return a recorded time, which is ISO 8601 text or UTC milliseconds; None if there is none."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        value = aware.timestamp() * 1_000
    if not isinstance(value, int | float):
        return None
    if not 0 <= value <= INSTANT_MAX:  # also false if it is not a number
        raise ValueError(f"the time {value!r:.40} is out of range")
    return round(value)


def _text(value: str, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {value!r:.80}")  # noqa: TRY004 (a value in a file)
    return value


def _optional(value: str | None, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _block_text(block: object) -> str:
    """Return the text of a block; blocks without text give the empty string."""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        raise ValueError(f"a block is an object, not {block!r:.80}")  # noqa: TRY004 (a value in a file)
    kind = block.get("type")
    if kind in _IMAGE_BLOCKS:
        return IMAGE
    return str(block.get("text") or "") if kind in _TEXT_BLOCKS else ""
