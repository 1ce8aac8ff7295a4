"""A model that answers from a script, for demos, experiments and tests of the loop.

Its answers depend only on the prompts it receives: a step of the script reads the prompt, and finds
the ids of objects there.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ctxmgr.core.model import AnswerDone, AnswerPart, Charge, Request, Stop, TextDelta, ToolUse
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect, NotFound

FORM: Final = "anthropic"


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """The answer of one turn. Without calls, the work is done."""

    text: str
    calls: tuple[ScriptedCall, ...] = ()


class ScriptedPrompt:
    """A prompt, as the script reads it."""

    def __init__(self, payload: Document) -> None:
        blocks = list(payload["system"])
        for message in payload["messages"]:
            blocks += message["content"]
        self.text = "".join(block.get("text", "") for block in blocks)

    def file(self, path: str) -> str:
        """Return the id of the file whose path ends with ``path``."""
        return self._id(rf"type=file path=\S*{re.escape(path)} ", f"a file {path}")

    def call(self, tool: str, *, status: str) -> str:
        """Return the id of the last call of the tool with that status."""
        return self._id(rf"type=toolcall tool={tool} status={status}$", f"a {tool} call: {status}")

    def shows(self, object_id: str) -> bool:
        """Return whether the object is shown in full."""
        return f"ACTIVE_CONTENT id={object_id}\n" in self.text

    def _id(self, line: str, what: str) -> str:
        ids = re.findall(rf"^id=(\S+) {line}", self.text, re.MULTILINE)
        if not ids:
            raise NotFound(f"the prompt does not show {what}")
        return str(ids[-1])


Step: TypeAlias = ScriptedReply | Callable[[ScriptedPrompt], ScriptedReply]


class ScriptedModel:
    """Returns the answers of its script one after the other."""

    form: Final = FORM
    unique_ids: Final = False

    def __init__(self, name: str, steps: Iterable[Step]) -> None:
        self.name = name
        self._steps = tuple(steps)
        self.received: list[Document] = []
        """Every prompt that it received."""

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        if len(self.received) == len(self._steps):
            raise Incorrect(f"{self.name} has only {len(self._steps)} answers")
        step = self._steps[len(self.received)]
        self.received.append(request.payload)
        reply = step if isinstance(step, ScriptedReply) else step(ScriptedPrompt(request.payload))
        yield TextDelta(text=reply.text)
        for call in reply.calls:
            yield ToolUse(tool=call.tool, args=call.args)
        yield AnswerDone(
            reply=_message(reply),
            stop=Stop.TOOLS if reply.calls else Stop.DONE,
            charge=Charge(purpose=request.purpose, model=self.name, usage=None),
        )


def call(tool: str, **args: Any) -> ScriptedCall:
    return ScriptedCall(tool, args)


def _message(reply: ScriptedReply) -> Document:
    calls = [
        {"type": "tool_use", "id": f"c{number}", "name": call.tool, "input": dict(call.args)}
        for number, call in enumerate(reply.calls, start=1)
    ]
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": reply.text}, *calls],
        "stop_reason": "tool_use" if calls else "end_turn",
    }
