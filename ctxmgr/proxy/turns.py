"""The messages of a request as turns: what an economy stream is made of. Pure.

    user text … · assistant text and calls · results and more user text · assistant …
    └────────────────── turn 1 ───────────────┘          └─ belongs to turn 2

A turn is complete when the results of its calls are there, which is in the request after the one
that it answered.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ctxmgr.core.economy.stream_turns import HeldTurn
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart, AnswerText, CallRef
from ctxmgr.proxy.wire.message import Side, WireCall, WireMessage, WireResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WireExchange:
    """A call with its result."""

    call: WireCall
    message: int
    """The index of the message that holds the call."""
    result: WireResult | None = None
    result_message: int = -1
    shares_id: bool = False
    """Whether another call of the turn has the same id: then neither is changed."""

    @property
    def output(self) -> str:
        return "" if self.result is None or self.result.at is None else self.result.text


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTurn:
    """A complete turn."""

    user: str = field(repr=False)
    prose: tuple[str, ...] = field(repr=False)
    calls: tuple[WireExchange, ...]
    end: int
    """The index of its last message."""

    def same_calls(self, other: "WireTurn") -> bool:
        """Whether both have the same calls with the same results."""
        return len(self.calls) == len(other.calls) and all(
            (mine.call.call_id, mine.call.tool, mine.call.args, mine.output)
            == (its.call.call_id, its.call.tool, its.call.args, its.output)
            for mine, its in zip(self.calls, other.calls, strict=True)
        )

    def numbered(self, number: int) -> Iterator[tuple[str, WireExchange]]:
        """Yield its calls, each with the key of its output in a stream."""
        for index, call in enumerate(self.calls, start=len(self.prose)):
            yield f"{number}.{index}", call

    def parts(self, number: int, *, outputs: Mapping[str, str]) -> tuple[AnswerPart, ...]:
        """Return the parts of its answer; ``outputs`` replaces those of some keys."""
        return (
            *(AnswerText(text=text) for text in self.prose),
            *(
                AnswerCall(
                    ref=CallRef(
                        object_id=key,
                        tool=call.call.tool,
                        status="fail"
                        if key not in outputs and call.result is not None and call.result.failed
                        else "ok",
                    ),
                    call_id=call.call.call_id,
                    args=call.call.args,
                    output=outputs.get(key, call.output),
                )
                for key, call in self.numbered(number)
            ),
        )

    def held(self, number: int, *, first_handle: int, outputs: Mapping[str, str]) -> HeldTurn:
        """Return the turn as a stream holds it, with a handle for each call."""
        parts: list[AnswerPart] = []
        handle = first_handle
        for part in self.parts(number, outputs=outputs):
            if isinstance(part, AnswerCall):
                parts.append(
                    AnswerCall(
                        ref=part.ref,
                        call_id=part.call_id,
                        args=part.args,
                        output=part.output,
                        handle=f"#{handle}",
                    )
                )
                handle += 1
            else:
                parts.append(part)
        return HeldTurn(number=number, user=self.user, parts=tuple(parts))


class TurnBuilder:
    """Divides messages into turns, in order."""

    def __init__(self) -> None:
        self._user: list[str] = []
        self._after: list[str] = []
        """Texts after the answer: they belong to the next turn."""
        self._prose: list[str] = []
        self._calls: list[tuple[int, WireCall]] = []
        self._results: dict[str, tuple[int, WireResult]] = {}
        self._answered = False
        self._continued = False
        """Whether something follows the answer."""
        self._end = -1

    def add(self, index: int, message: WireMessage) -> WireTurn | None:
        """Add a message; return the turn that it completes, if it begins another."""
        if message.side is Side.ASSISTANT:
            done = self.finish() if self._continued else None
            self._answered = True
            self._prose += message.prose
            self._calls += ((index, call) for call in message.calls)
            self._end = index
            return done
        if self._answered:
            self._continued = True
            self._after += message.prose
            self._end = index
        else:
            self._user += message.prose
        for result in message.results:
            self._results.setdefault(result.call_id, (index, result))
        return None

    def finish(self) -> WireTurn | None:
        """Return the turn that is complete now; None if the last message is an answer."""
        if not self._continued:
            return None
        turn = WireTurn(
            user="\n".join(self._user),
            prose=tuple(text for text in self._prose if text),
            calls=tuple(self._exchanges()),
            end=self._end,
        )
        self._user, self._after = self._after, []
        self._prose, self._calls, self._results = [], [], {}
        self._answered = self._continued = False
        return turn

    def _exchanges(self) -> Iterator[WireExchange]:
        """Yield the calls with their results; some servers give several calls one id, or none."""
        times = Counter(call.call_id for _, call in self._calls)
        for index, call in self._calls:
            if times[call.call_id] > 1:
                yield WireExchange(call=call, message=index, shares_id=True)
                continue
            at, result = self._results.get(call.call_id, (-1, None))
            yield WireExchange(call=call, message=index, result=result, result_message=at)
