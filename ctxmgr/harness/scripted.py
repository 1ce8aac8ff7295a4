"""A model that answers from a script: what it says depends on what it is shown, on nothing else.

For demos, experiments and tests of the loop. It is asked as any model is. A step of the script
reads the prompt as a model would, and finds the ids of objects there.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ctxmgr.core.documents import Document
from ctxmgr.core.model import Called, Charge, Ended, Piece, Request, Said, Stop
from ctxmgr.errors import Incorrect, NotFound

FORM: Final = "anthropic"


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says in one turn. Without calls, the work is done."""

    text: str
    calls: tuple[Call, ...] = ()


class Seen:
    """A prompt, as a model reads it."""

    def __init__(self, payload: Document) -> None:
        blocks = list(payload["system"])
        for message in payload["messages"]:
            blocks += message["content"]
        self.text = "".join(block.get("text", "") for block in blocks)

    def file(self, path: str) -> str:
        """Return the id of the file whose path ends so."""
        return self._id(rf"type=file path=\S*{re.escape(path)} ", f"a file {path}")

    def call(self, tool: str, *, status: str) -> str:
        """Return the id of the last call of that tool that ended so."""
        return self._id(rf"type=toolcall tool={tool} status={status}$", f"a {tool} call: {status}")

    def shows(self, object_id: str) -> bool:
        """Tell whether the object is shown in full."""
        return f"ACTIVE_CONTENT id={object_id}\n" in self.text

    def _id(self, line: str, what: str) -> str:
        found = re.findall(rf"^id=(\S+) {line}", self.text, re.MULTILINE)
        if not found:
            raise NotFound(f"the prompt does not show {what}")
        return str(found[-1])


Step: TypeAlias = Reply | Callable[[Seen], Reply]


class ScriptedModel:
    """Gives one answer of its script after the other."""

    form: Final = FORM
    unique_ids: Final = False

    def __init__(self, name: str, steps: Iterable[Step]) -> None:
        self.name = name
        self._steps = tuple(steps)
        self.received: list[Document] = []
        """Every prompt it was sent."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        if len(self.received) == len(self._steps):
            raise Incorrect(f"{self.name} has {len(self._steps)} answers and was asked for more")
        step = self._steps[len(self.received)]
        self.received.append(request.payload)
        reply = step if isinstance(step, Reply) else step(Seen(request.payload))
        yield Said(text=reply.text)
        for call in reply.calls:
            yield Called(tool=call.tool, args=call.args)
        yield Ended(
            reply=_message(reply),
            stop=Stop.TOOLS if reply.calls else Stop.DONE,
            charge=Charge(purpose=request.purpose, model=self.name, usage=None),
        )


def call(tool: str, **args: Any) -> Call:
    return Call(tool, args)


def _message(reply: Reply) -> Document:
    asked = [
        {"type": "tool_use", "id": f"c{number}", "name": each.tool, "input": dict(each.args)}
        for number, each in enumerate(reply.calls, start=1)
    ]
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": reply.text}, *asked],
        "stop_reason": "tool_use" if asked else "end_turn",
    }
