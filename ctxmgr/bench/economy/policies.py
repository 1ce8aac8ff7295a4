"""The policies of the benchmark: ours and common ones.

    append-only           everything is always sent
    keep N                all outputs but the last N are hidden, at every call or in steps
    clear at HIGH         the oldest outputs are hidden at once, as providers do
    clip N                an output is cut to its head and tail when it arrives
    economy FIDELITY      ours

All contexts are rendered as those of any session. The common policies change only outputs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeAlias

from ctxmgr.bench.economy.sessions import RecordedSession, ReplayedCall, ReplayedTurn
from ctxmgr.core.context.assembly import Context, ShownTurn, Transcript
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.planner import FoldPlanner
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.signatures import signature_rows
from ctxmgr.core.economy.stream import Stream
from ctxmgr.core.economy.stream_turns import StreamTurn, messages_of
from ctxmgr.core.objects.answers import NOT_RUN, AnswerCall, AnswerPart, AnswerText, CallRef

HIDDEN: Final = "[an old output is hidden]"

HIDDEN_TOKENS: Final = 12
"""Tokens of a hidden output with its framing; shorter outputs are not hidden."""

CLEAR_KEEPS: Final = 3
"""The newest outputs, which ``clear`` does not hide."""


class Policy(Protocol):
    """Decides what is sent."""

    @property
    def name(self) -> str: ...

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        """Yield the context of every call, in order."""
        ...


@dataclass(slots=True)
class Outputs:
    """The outputs of a session so far."""

    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Tokens of each output, with its framing."""
    other_tokens: int = 0
    """Tokens of everything else."""


Rule: TypeAlias = Callable[[Outputs], Sequence[str]]
"""Returns the texts to send instead of the outputs."""


@dataclass(frozen=True, slots=True)
class Simple:
    """A policy that depends only on outputs."""

    name: str
    make: Callable[[], Rule] = field(repr=False)
    """Creates the rule for a session; a rule may have state."""

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        rule, outputs = self.make(), Outputs()
        whole: list[StreamTurn] = []
        cache: dict[tuple[int, tuple[str, ...]], StreamTurn] = {}
        for turn in session.turns:
            texts = rule(outputs)
            yield context(session, _replaced(whole, texts, cache), user=turn.user)
            whole.append(StreamTurn(turn.user, tuple(parts(turn, number=len(whole) + 1))))
            _add_outputs(outputs, turn, whole[-1], count)


@dataclass(frozen=True, slots=True)
class Ours:
    """The economy policy without a store, with the same stream and plans."""

    policy: Economy

    @property
    def name(self) -> str:
        mode = f" {self.policy.mode}" if self.policy.mode else ""
        prose = " with prose" if self.policy.shorten_prose else ""
        return f"economy {self.policy.fidelity:g}{mode}{prose}"

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        return (context for context, _ in self.prompts(session, count=count))

    def prompts(
        self, session: RecordedSession, *, count: Count
    ) -> Iterator[tuple[Context, Stream]]:
        """Yield the context of every call, in order, and the stream that it shows."""
        stream = Stream(self.policy, count=count, signatures=signature_rows)
        planning = FoldPlanner(stream)
        for number, turn in enumerate(session.turns, start=1):
            fixed = sum(map(count, (session.system_prompt, turn.user))) + 2 * MESSAGE_TOKENS
            planning.next_plan(fixed=partial(int, fixed), cold=number == 1)
            plain = context(session, stream.transcript.turns, user=stream.user(turn.user))
            yield (
                replace(plain, transcript=stream.transcript, marks=planning.marks()),
                stream,
            )
            outputs = {
                f"{number}.{n}": part.output
                for n, part in enumerate(turn.parts)
                if isinstance(part, ReplayedCall) and part.output is not None
            }
            # An output is not part of the answer: the tool call's object holds it.
            stored = (
                replace(part, output=None)
                if isinstance(part, AnswerCall) and part.ref.object_id in outputs
                else part
                for part in parts(turn, number=number)
            )
            stream.close(turn.user, tuple(stored), outputs=outputs)


def append_only() -> Simple:
    return Simple("append-only", lambda: lambda outputs: outputs.texts)


def keep(last: int, *, every: int = 1) -> Simple:
    """Hide all outputs but the last ones; the boundary moves in steps of ``every`` outputs."""

    def rule(outputs: Outputs) -> Sequence[str]:
        cut = max(0, len(outputs.texts) // every * every - last)
        return [
            HIDDEN if n < cut and outputs.tokens[n] > HIDDEN_TOKENS else text
            for n, text in enumerate(outputs.texts)
        ]

    steps = f" in steps of {every}" if every > 1 else " every call"
    return Simple(f"keep {last}{steps}", lambda: rule)


def clear(high: int, low: int) -> Simple:
    """When the prompt exceeds ``high`` tokens, hide the oldest outputs until it has ``low``."""

    def make() -> Rule:
        hidden: set[int] = set()

        def rule(outputs: Outputs) -> Sequence[str]:
            size = outputs.other_tokens + sum(
                HIDDEN_TOKENS if n in hidden else tokens for n, tokens in enumerate(outputs.tokens)
            )
            if size > high:
                for n in range(len(outputs.texts) - CLEAR_KEEPS):
                    if size > low and n not in hidden and outputs.tokens[n] > HIDDEN_TOKENS:
                        hidden.add(n)
                        size -= outputs.tokens[n] - HIDDEN_TOKENS
            return [HIDDEN if n in hidden else text for n, text in enumerate(outputs.texts)]

        return rule

    return Simple(f"clear at {high // 1000}k to {low // 1000}k", make)


def clip(tokens: int) -> Simple:
    """Cut an output to its head and tail when it arrives."""

    def rule(outputs: Outputs) -> Sequence[str]:
        clipped = []
        for text, own_tokens in zip(outputs.texts, outputs.tokens, strict=True):
            if own_tokens > tokens:
                half = int(len(text) * (tokens / own_tokens) / 2)
                clipped.append(text[:half] + text[len(text) - half :])
            else:
                clipped.append(text)
        return clipped

    return Simple(f"clip {tokens}", lambda: rule)


def context(session: RecordedSession, turns: Sequence[ShownTurn], *, user: str) -> Context:
    """Return the context of a call, in the layout of the stream."""
    return Context(
        session_id="replayed",
        system_prompt=session.system_prompt,
        transcript=Transcript(turns),
        user=user,
    )


def parts(turn: ReplayedTurn, *, number: int) -> Iterator[AnswerPart]:
    """Yield the parts of an answer, every call with its output."""
    for n, part in enumerate(turn.parts):
        if isinstance(part, str):
            yield AnswerText(text=part)
        else:
            call_id = f"{number}.{n}"
            ref = CallRef(
                object_id=call_id, tool=part.tool, status="fail" if part.output is None else "ok"
            )
            output = NOT_RUN if part.output is None else part.output
            yield AnswerCall(ref=ref, call_id=call_id, args=part.args, output=output)


def _replaced(
    whole: Sequence[StreamTurn],
    texts: Sequence[str],
    cache: dict[tuple[int, tuple[str, ...]], StreamTurn],
) -> list[ShownTurn]:
    """Return the turns with these outputs; an unchanged turn is the same object as before."""
    turns: list[ShownTurn] = []
    first = 0
    for n, turn in enumerate(whole):
        ran = [part for part in turn.parts if _ran(part)]
        outputs = tuple(texts[first : first + len(ran)])
        first += len(ran)
        if (n, outputs) not in cache:
            cache[n, outputs] = StreamTurn(turn.user, tuple(_with_outputs(turn.parts, outputs)))
        turns.append(cache[n, outputs])
    return turns


def _with_outputs(parts: Sequence[AnswerPart], outputs: Sequence[str]) -> Iterator[AnswerPart]:
    remaining = iter(outputs)
    for part in parts:
        if isinstance(part, AnswerCall) and _ran(part):
            yield replace(part, output=next(remaining))
        else:
            yield part


def _ran(part: AnswerPart) -> bool:
    return isinstance(part, AnswerCall) and part.ref.status == "ok"


def _add_outputs(outputs: Outputs, turn: ReplayedTurn, whole: StreamTurn, count: Count) -> None:
    texts = [
        part.output
        for part in turn.parts
        if isinstance(part, ReplayedCall) and part.output is not None
    ]
    counted = [count(text) + MESSAGE_TOKENS for text in texts]
    all_tokens = sum(count(text) + MESSAGE_TOKENS for text in messages_of(whole) if text)
    outputs.texts += texts
    outputs.tokens += counted
    outputs.other_tokens += all_tokens - sum(counted)
