"""Random conversations: turns with text, tool calls of every kind, and what is known of them."""

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

said: Final = st.text(st.sampled_from(["a", "é", "😀", " ", "\n"]), max_size=6)
statuses: Final = st.sampled_from(["ok", "fail"])
tools: Final = st.sampled_from(["bash", "read", "odd tool"])
own_ids: Final = st.sampled_from(["call_0", "call_1", "toolu_01A", "", "with space", "x" * 60])


class Told(NamedTuple):
    """One turn and what is known of its tool calls."""

    turn: Turn
    calls: dict[str, CallRef]

    def shown(self) -> ShownTurn:
        return ShownTurn.of(self.turn, calls=self.calls)


@st.composite
def told_turns(draw: st.DrawFn, number: int = 1) -> Told:
    parts: list[dict[str, Any]] = []
    calls: dict[str, CallRef] = {}
    for place in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["text", "ran", "not run", "context", "native"])):
            case "text":
                parts.append(text_part(draw(said)))
            case "ran" | "not run" as outcome:
                ref = CallRef(object_id=f"t{number}.{place}", tool=draw(tools), status="ok")
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
    turn = Turn(user=draw(said), assistant=tuple(parts), toolcall_ids=tuple(calls))
    return Told(turn, calls)


@st.composite
def conversations(draw: st.DrawFn) -> list[Told]:
    return [draw(told_turns(number)) for number in range(1, draw(st.integers(0, 4)) + 1)]


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    told = draw(conversations())
    refs = [ref for record in told for ref in record.calls.values()]
    active = [ref.object_id for ref in refs if draw(st.booleans())]
    return Context(
        session_id="s1",
        system_prompt=draw(said),
        pool=Pool(map(PoolEntry.of_toolcall, refs)),
        transcript=Transcript(record.shown() for record in told),
        user=draw(said),
        active=tuple(ActiveBlock(ref, draw(said)) for ref in active),
    )
