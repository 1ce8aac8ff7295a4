"""Streams under the economy policy, for tests: turns with one call each, tokens of four letters."""

from typing import Any

from ctxmgr.core.economy.planner import FoldPlanner
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.stream import Stream
from ctxmgr.core.objects.answers import AnswerCall, AnswerPart, AnswerText, CallRef


def count(text: str) -> int:
    return -(-len(text) // 4)


def long_output(name: str, *, lines: int = 40) -> str:
    return "\n".join(f"{name} has printed the value_{name}_{at}" for at in range(lines))


class Talk:
    """The stream of one session, built call by call."""

    def __init__(self, policy: Economy | None = None) -> None:
        self.stream = Stream(policy or Economy(), count=count)
        self.planning = FoldPlanner(self.stream)

    def turn(
        self,
        output: str,
        *,
        text: str = "so",
        tool: str = "bash",
        args: dict[str, Any] | None = None,
        **planned: Any,
    ) -> str:
        """Send a prompt, answer it with one call, and return the prompt."""
        prompt = self.prompt(**planned)
        call_id = f"c{self.stream.number}"
        ref = CallRef(object_id=call_id, tool=tool, status="ok")
        parts: list[AnswerPart] = [AnswerText(text=text)]
        parts.append(AnswerCall(ref=ref, call_id=call_id, args=args or {}))
        self.stream.close("", parts, outputs={call_id: output})
        return prompt

    def prompt(self, **planned: Any) -> str:
        self.planning.next_plan(fixed=lambda: count(self.stream.user("")), **planned)
        return self.stream.transcript.rope.text
