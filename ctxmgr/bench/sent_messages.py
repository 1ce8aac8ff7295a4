"""The messages of a prompt, as they are sent, counted and compared. Pure.

``of_payload`` reads a whole request. ``SentMessages`` gives the same for a context whose turns are
mostly those of the call before, and makes each turn's messages once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxmgr.bench.needs import argument_text
from ctxmgr.core.assembly import Context, ShownTurn, Transcript
from ctxmgr.core.folding import Count
from ctxmgr.core.tokens import MESSAGE_TOKENS
from ctxmgr.messages.conversation import NO_MESSAGE
from ctxmgr.messages.openai import payload


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was sent."""

    role: str
    text: str = field(repr=False)
    """Its bytes, for counting and comparing."""
    readable: str = field(repr=False, compare=False)
    """With arguments decoded, for looking something up."""
    tokens: int = field(compare=False)
    lines: frozenset[str] = field(repr=False, compare=False)

    @classmethod
    def of(cls, role: str, text: str, readable: str, *, count: Count) -> "Message":
        lines = frozenset(readable.split("\n"))
        return cls(role, text, readable, count(text) + MESSAGE_TOKENS, lines)


def of_payload(request: Mapping[str, Any], *, count: Count) -> list[Message]:
    """Read what a request sends. Ids of calls are framing: recordings have none."""
    return [_message(each, count=count) for each in request["messages"]]


class SentMessages:
    """The messages of one session's contexts."""

    def __init__(self, *, count: Count) -> None:
        self._count = count
        self._made: dict[int, tuple[ShownTurn, list[Message]]] = {}

    def of(self, context: Context) -> list[Message]:
        """Return what ``of_payload`` gives for the context's request."""
        messages = self._own(Context(session_id="", system_prompt=context.system_prompt))
        for turn in context.transcript.turns:
            self._add(messages, self._of_turn(turn))
        self._add(messages, self._own(Context(session_id="", system_prompt="", user=context.user)))
        if not messages or messages[-1].role in {"system", "assistant"}:
            messages.append(Message.of("user", NO_MESSAGE, NO_MESSAGE, count=self._count))
        return messages

    def _of_turn(self, turn: ShownTurn) -> list[Message]:
        known = self._made.get(id(turn))
        if known is None:
            alone = Context(session_id="", system_prompt="", transcript=Transcript([turn]))
            known = self._made[id(turn)] = (turn, self._own(alone))
        return known[1]

    def _own(self, context: Context) -> list[Message]:
        """Read a part of a prompt without what stands for a silent user."""
        return [
            each
            for each in of_payload(payload(context), count=self._count)
            if (each.role, each.text) != ("user", NO_MESSAGE)
        ]

    def _add(self, messages: list[Message], more: Sequence[Message]) -> None:
        """Append; two messages of the user in a row are one."""
        rest = list(more)
        if messages and rest and messages[-1].role == rest[0].role == "user":
            text = messages.pop().text + "\n\n" + rest.pop(0).text
            messages.append(Message.of("user", text, text, count=self._count))
        messages += rest


def _message(message: Mapping[str, Any], *, count: Count) -> Message:
    calls = [each["function"] for each in message.get("tool_calls", ())]
    content = message.get("content") or ""
    texts = [content] if content else []
    written = [f'{{"tool": "{each["name"]}", "args": {each["arguments"]}}}' for each in calls]
    decoded = [argument_text(json.loads(each["arguments"])) for each in calls]
    text, readable = "\n".join(texts + written), "\n".join(texts + decoded)
    return Message.of(message["role"], text, readable, count=count)
