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
    """A prompt, as the script reads it: under either policy, only what the model can see."""

    def __init__(self, payload: Document) -> None:
        self._messages = payload["messages"]
        blocks = list(payload["system"])
        for message in self._messages:
            blocks += message["content"]
        self.text = "\n".join(_text_of(block) for block in blocks)

    def file(self, path: str) -> str:
        """Return the id of the file whose path ends with ``path``, or the path if it is shown."""
        ids = self._ids(rf"type=file path=\S*/{re.escape(path)} ")
        if ids:
            return ids[-1]
        if path not in self.text:
            raise NotFound(f"the prompt does not show a file {path}")
        return path

    def call(self, tool: str, *, status: str) -> str | None:
        """Return the id of the last call of the tool with that status, if the prompt shows one.

        Under the economy policy, only shortened outputs have a handle.
        """
        ids = self._ids(rf"type=toolcall tool={tool} status={status}$")
        return ids[-1] if ids else self._handle(tool, failed=status == "fail")

    def shows(self, object_id: str) -> bool:
        """Return whether the object is shown in full."""
        return f"ACTIVE_CONTENT id={object_id}\n" in self.text

    def _ids(self, line: str) -> list[str]:
        return re.findall(rf"^id=(\S+) {line}", self.text, re.MULTILINE)

    def _handle(self, tool: str, *, failed: bool) -> str | None:
        called: set[str] = set()
        found = None
        for message in self._messages:
            for block in message["content"]:
                if block["type"] == "tool_use" and block["name"] == tool:
                    called.add(block["id"])
                if block["type"] != "tool_result" or block["tool_use_id"] not in called:
                    continue
                handle = _HANDLE.search(_text_of(block))
                if handle and bool(block.get("is_error")) == failed:
                    found = handle[1]
        return found


_HANDLE: Final = re.compile(r"^\[(#\d+) \+", re.MULTILINE)
"""The mark of a shortened text."""


def _text_of(block: Document) -> str:
    if "text" in block:
        return str(block["text"])
    content = block.get("content", "")
    return content if isinstance(content, str) else "\n".join(map(_text_of, content))


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
