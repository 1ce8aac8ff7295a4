"""What is sent of a session, call by call, under each policy: ours and the usual ones.

    append-only           everything, always
    keep N                outputs but the last N are hidden, every call or in steps
    clear at HIGH         the oldest outputs are hidden in one sweep, as providers do
    clip N                an output is cut to its head and tail when it arrives
    economy FIDELITY      ours

All are rendered by the same messages as any session. The usual ones touch nothing but outputs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeAlias

from ctxmgr.bench.recorded import RecordedCall, RecordedSession, RecordedTurn
from ctxmgr.core.assembly import Context, ShownTurn, Transcript
from ctxmgr.core.folding import Count
from ctxmgr.core.parts import NOT_RUN, CallRef, Shown, ShownCall, ShownText
from ctxmgr.core.policies import Economy
from ctxmgr.core.signatures import signature_rows
from ctxmgr.core.stream import Stream
from ctxmgr.core.stream_plans import Planning
from ctxmgr.core.stream_turns import StreamTurn, messages_of
from ctxmgr.core.tokens import MESSAGE_TOKENS

HIDDEN: Final = "[an old output is hidden]"

HIDDEN_TOKENS: Final = 12
"""What a hidden output costs with its framing; shorter ones are left alone."""

CLEAR_KEEPS: Final = 3
"""Outputs that clearing leaves alone."""


class Policy(Protocol):
    """Decides what is sent."""

    @property
    def name(self) -> str: ...

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        """Give the context of every call, in the order of the session."""
        ...


@dataclass(slots=True)
class Outputs:
    """The outputs of a session so far."""

    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """With their framing."""
    other_tokens: int = 0
    """Of everything else."""


Rule: TypeAlias = Callable[[Outputs], Sequence[str]]
"""What is shown of every output now."""


@dataclass(frozen=True, slots=True)
class Simple:
    """A policy that looks at outputs only."""

    name: str
    make: Callable[[], Rule] = field(repr=False)
    """A rule may remember what it did: each session gets one of its own."""

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        rule, outputs = self.make(), Outputs()
        whole: list[StreamTurn] = []
        shown: dict[tuple[int, tuple[str, ...]], StreamTurn] = {}
        for turn in session.turns:
            texts = rule(outputs)
            yield context(session, _replaced(whole, texts, shown), user=turn.user)
            whole.append(StreamTurn(turn.user, tuple(parts(turn, number=len(whole) + 1))))
            _note(outputs, turn, whole[-1], count)


@dataclass(frozen=True, slots=True)
class Ours:
    """The economy policy, without a store: the same stream, the same plans."""

    policy: Economy

    @property
    def name(self) -> str:
        return f"economy {self.policy.fidelity:g}"

    def contexts(self, session: RecordedSession, *, count: Count) -> Iterator[Context]:
        stream = Stream(self.policy, count=count, signatures=signature_rows)
        planning = Planning(stream)
        for number, turn in enumerate(session.turns, start=1):
            fixed = sum(map(count, (session.system_prompt, turn.user))) + 2 * MESSAGE_TOKENS
            planning.next_plan(fixed=partial(int, fixed), cold=number == 1)
            made = context(session, stream.transcript.turns, user=stream.user(turn.user))
            yield replace(made, transcript=stream.transcript, marks=planning.marks())
            own = {
                f"{number}.{at}": said.output
                for at, said in enumerate(turn.said)
                if isinstance(said, RecordedCall) and said.output is not None
            }
            stored = (_unanswered(part, own) for part in parts(turn, number=number))
            stream.close(turn.user, tuple(stored), outputs=own)


def append_only() -> Simple:
    return Simple("append-only", lambda: lambda outputs: outputs.texts)


def keep(last: int, *, every: int = 1) -> Simple:
    """Hide all outputs but the last; in steps, only when so many more have come."""

    def rule(outputs: Outputs) -> Sequence[str]:
        cut = max(0, len(outputs.texts) // every * every - last)
        return [
            HIDDEN if at < cut and outputs.tokens[at] > HIDDEN_TOKENS else text
            for at, text in enumerate(outputs.texts)
        ]

    steps = f" in steps of {every}" if every > 1 else " every call"
    return Simple(f"keep {last}{steps}", lambda: rule)


def clear(high: int, low: int) -> Simple:
    """Hide the oldest outputs when the prompt passes ``high`` tokens, until it has ``low``."""

    def make() -> Rule:
        gone: set[int] = set()

        def rule(outputs: Outputs) -> Sequence[str]:
            size = outputs.other_tokens + sum(
                HIDDEN_TOKENS if at in gone else tokens for at, tokens in enumerate(outputs.tokens)
            )
            if size > high:
                for at in range(len(outputs.texts) - CLEAR_KEEPS):
                    if size > low and at not in gone and outputs.tokens[at] > HIDDEN_TOKENS:
                        gone.add(at)
                        size -= outputs.tokens[at] - HIDDEN_TOKENS
            return [HIDDEN if at in gone else text for at, text in enumerate(outputs.texts)]

        return rule

    return Simple(f"clear at {high // 1000}k to {low // 1000}k", make)


def clip(tokens: int) -> Simple:
    """Cut an output to its head and tail when it arrives."""

    def rule(outputs: Outputs) -> Sequence[str]:
        return [
            _clipped(text, tokens / own) if own > tokens else text
            for text, own in zip(outputs.texts, outputs.tokens, strict=True)
        ]

    return Simple(f"clip {tokens}", lambda: rule)


def context(session: RecordedSession, turns: Sequence[ShownTurn], *, user: str) -> Context:
    """Return what a call is made of, in the layout of the stream."""
    return Context(
        session_id="replayed",
        system_prompt=session.system_prompt,
        transcript=Transcript(turns),
        user=user,
    )


def parts(turn: RecordedTurn, *, number: int) -> Iterator[Shown]:
    """Give the parts of an answer, every call with its output."""
    for at, said in enumerate(turn.said):
        if isinstance(said, str):
            yield ShownText(text=said)
        else:
            call_id = f"{number}.{at}"
            ref = CallRef(
                object_id=call_id, tool=said.tool, status="fail" if said.output is None else "ok"
            )
            output = NOT_RUN if said.output is None else said.output
            yield ShownCall(ref=ref, call_id=call_id, args=said.args, output=output)


def _unanswered(part: Shown, outputs: dict[str, str]) -> Shown:
    """Leave the output to the object that holds it."""
    own = isinstance(part, ShownCall) and part.ref.object_id in outputs
    return replace(part, output=None) if isinstance(part, ShownCall) and own else part


def _replaced(
    whole: Sequence[StreamTurn],
    texts: Sequence[str],
    known: dict[tuple[int, tuple[str, ...]], StreamTurn],
) -> list[ShownTurn]:
    """Return the turns with other outputs; a turn that stays the same is the same value."""
    turns: list[ShownTurn] = []
    first = 0
    for at, turn in enumerate(whole):
        ran = [part for part in turn.parts if _ran(part)]
        own = tuple(texts[first : first + len(ran)])
        first += len(ran)
        if (at, own) not in known:
            known[at, own] = StreamTurn(turn.user, tuple(_with_outputs(turn.parts, own)))
        turns.append(known[at, own])
    return turns


def _with_outputs(parts: Sequence[Shown], outputs: Sequence[str]) -> Iterator[Shown]:
    given = iter(outputs)
    for part in parts:
        if isinstance(part, ShownCall) and _ran(part):
            yield replace(part, output=next(given))
        else:
            yield part


def _ran(part: Shown) -> bool:
    return isinstance(part, ShownCall) and part.ref.status == "ok"


def _note(outputs: Outputs, turn: RecordedTurn, shown: StreamTurn, count: Count) -> None:
    own = [
        said.output
        for said in turn.said
        if isinstance(said, RecordedCall) and said.output is not None
    ]
    counted = [count(text) + MESSAGE_TOKENS for text in own]
    all_tokens = sum(count(text) + MESSAGE_TOKENS for text in messages_of(shown) if text)
    outputs.texts += own
    outputs.tokens += counted
    outputs.other_tokens += all_tokens - sum(counted)


def _clipped(text: str, share: float) -> str:
    half = int(len(text) * share / 2)
    return text[:half] + text[len(text) - half :]
