"""A conversation that some harness recorded, in no harness's words. Pure.

    Recording   system prompt, then turns
    └─ turn     one model call: what was new before it, what it said and which calls it made, in
                that order, with their outputs; usage, model and time as far as they were recorded

``Recorder`` makes one from a file's entries in their order, whatever the format: an answer that
was written in several entries is one turn, and a result finds its call by id.
"""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ctxmgr.core.model import Usage
from ctxmgr.errors import Incorrect

TURNS_MAX: Final = 100_000
"""Turns of one recording; weeks of work have some thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A tool call with what came of it."""

    call_id: str
    tool: str
    args: Any = field(repr=False)
    """As they were recorded; a map, unless the model wrote something else."""
    output: str | None = field(repr=False)
    """None: it was never answered."""
    failed: bool = False


RecordedPart: TypeAlias = str | RecordedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """One model call."""

    user: str = field(repr=False)
    said: tuple[RecordedPart, ...] = field(repr=False)
    model: str | None = None
    usage: Usage | None = None
    timestamp: int | None = None
    """UTC milliseconds."""

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        return tuple(each for each in self.said if isinstance(each, RecordedCall))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded session."""

    format: str
    recorded_id: str | None
    """What its harness called it."""
    system_prompt: str = field(repr=False)
    """Empty: most harnesses do not record theirs."""
    turns: tuple[RecordedTurn, ...] = field(repr=False)
    unanswered: str = field(default="", repr=False)
    """What the user said last, if no answer to it was recorded."""


@dataclass(slots=True)
class _Call:
    call_id: str
    tool: str
    args: Any
    output: str | None = None
    failed: bool = False

    def finished(self) -> RecordedCall:
        return RecordedCall(
            call_id=self.call_id,
            tool=self.tool,
            args=self.args,
            output=self.output,
            failed=self.failed,
        )


@dataclass(slots=True)
class _Turn:
    key: str | None
    user: str
    said: list[str | _Call] = field(default_factory=list)
    model: str | None = None
    usage: Usage | None = None
    timestamp: int | None = None

    def finished(self) -> RecordedTurn:
        said = (each.finished() if isinstance(each, _Call) else each for each in self.said)
        return RecordedTurn(
            user=self.user,
            said=tuple(said),
            model=self.model,
            usage=self.usage,
            timestamp=self.timestamp,
        )


class Recorder:
    """Takes what happened in its order; ``Incorrect`` for what cannot have happened."""

    def __init__(self) -> None:
        self.recorded_id: str | None = None
        self.model: str | None = None
        """Of the answers that name none themselves."""
        self._system: list[str] = []
        self._turns: list[_Turn] = []
        self._user: list[str] = []
        self._calls: dict[str, _Call] = {}
        self._open = False

    def system(self, text: str) -> None:
        """Take instructions: the system prompt, or, once answers came, what the user says next."""
        if text:
            (self._user if self._turns else self._system).append(text)

    def user(self, text: str) -> None:
        if text:
            self._user.append(text)
            self._open = False

    def answer(
        self,
        key: str | None = None,
        *,
        model: str | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Begin an answer, or go on with the last one if it has this key."""
        if not self.goes_on(key):
            if len(self._turns) >= TURNS_MAX:
                raise Incorrect(f"more than {TURNS_MAX:,} model calls in one recording")
            self._turns.append(_Turn(key, "\n\n".join(self._user)))
            self._user.clear()
            self._open = True
        turn = self._turns[-1]
        turn.model = model or turn.model or self.model
        turn.timestamp = turn.timestamp if timestamp is None else timestamp

    def text(self, text: str) -> None:
        """Add to the answer that is open."""
        if text:
            self._turns[-1].said.append(text)

    def call(self, call_id: str, *, tool: str, args: Any) -> None:
        """Add a tool call to the answer that is open."""
        call = _Call(call_id, tool, args)
        self._turns[-1].said.append(call)
        self._calls[call_id] = call

    def result(self, call_id: str, *, output: str, failed: bool = False) -> None:
        """Take what came of a call; the next answer is another model call."""
        call = self._calls.get(call_id)
        if call is None:
            raise Incorrect(f"the result of a call {call_id!r:.80} that was not made before it")
        call.output = output if call.output is None else f"{call.output}\n{output}"
        call.failed = failed
        self._open = False

    def usage(self, usage: Usage) -> None:
        """Take what the last answer cost; said twice, the last word counts."""
        if self._turns:
            self._turns[-1].usage = usage

    @property
    def is_open(self) -> bool:
        """Whether an answer has begun and nothing has come after it."""
        return self._open

    def goes_on(self, key: str | None) -> bool:
        """Tell whether the last answer has this key."""
        return key is not None and bool(self._turns) and self._turns[-1].key == key

    def knows(self, call_id: str) -> bool:
        return call_id in self._calls

    def finished(self, name: str) -> Recording:
        if not self._turns:
            raise Incorrect("the recording holds no answer of a model")
        return Recording(
            format=name,
            recorded_id=self.recorded_id,
            system_prompt="\n\n".join(self._system),
            turns=tuple(turn.finished() for turn in self._turns),
            unanswered="\n\n".join(self._user),
        )
