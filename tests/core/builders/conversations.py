"""Random conversations: turns with text, tool calls of every kind, and references to them."""

from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from ctxmgr.core.context.assembly import (
    ActiveBlock,
    Context,
    Pool,
    PoolEntry,
    ShownTurn,
    Transcript,
)
from ctxmgr.core.objects.answers import (
    CallRef,
    contextcall_part,
    native_part,
    text_part,
    toolcall_part,
)
from ctxmgr.core.objects.chat import Turn
from tests.core.builders.values import maps

user_texts: Final = st.text(st.sampled_from(["a", "é", "😀", " ", "\n"]), max_size=6)
statuses: Final = st.sampled_from(["ok", "fail"])
tools: Final = st.sampled_from(["bash", "read", "odd tool"])
own_ids: Final = st.sampled_from(["call_0", "call_1", "toolu_01A", "", "with space", "x" * 60])


class SampleTurn(NamedTuple):
    """One turn and the references of its tool calls."""

    turn: Turn
    calls: dict[str, CallRef]

    def shown(self) -> ShownTurn:
        return ShownTurn.of(self.turn, calls=self.calls)


@st.composite
def sample_turns(draw: st.DrawFn, number: int = 1) -> SampleTurn:
    parts: list[dict[str, Any]] = []
    calls: dict[str, CallRef] = {}
    for position in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["text", "ran", "not run", "context", "native"])):
            case "text":
                parts.append(text_part(draw(user_texts)))
            case "ran" | "not run" as outcome:
                ref = CallRef(object_id=f"t{number}.{position}", tool=draw(tools), status="ok")
                args = draw(maps)
                parts.append(
                    toolcall_part(ref.object_id, call_id=draw(own_ids), tool=ref.tool, args=args)
                )
                if outcome == "ran":
                    calls[ref.object_id] = CallRef(
                        object_id=ref.object_id, tool=ref.tool, status=draw(statuses)
                    )
            case "context":
                parts.append(
                    contextcall_part(
                        draw(own_ids), tool="pin", args={}, status=draw(statuses), output="done"
                    )
                )
            case _:
                block = {"type": "thinking", "thinking": "hm", "signature": "s"}
                parts.append(native_part("anthropic", block=block))
    if draw(st.booleans()):
        calls[f"silent{number}"] = CallRef(object_id=f"silent{number}", tool="bash", status="ok")
    turn = Turn(user=draw(user_texts), assistant=tuple(parts), toolcall_ids=tuple(calls))
    return SampleTurn(turn, calls)


@st.composite
def conversations(draw: st.DrawFn) -> list[SampleTurn]:
    return [draw(sample_turns(number)) for number in range(1, draw(st.integers(0, 4)) + 1)]


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    turns = draw(conversations())
    refs = [ref for turn in turns for ref in turn.calls.values()]
    active = [ref.object_id for ref in refs if draw(st.booleans())]
    return Context(
        session_id="s1",
        system_prompt=draw(user_texts),
        pool=Pool(map(PoolEntry.of_toolcall, refs)),
        transcript=Transcript(turn.shown() for turn in turns),
        user=draw(user_texts),
        active=tuple(ActiveBlock(ref, draw(user_texts)) for ref in active),
    )
