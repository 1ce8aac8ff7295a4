"""The messages of a prompt as they are sent, with their token counts.

``of_payload`` reads a complete request. ``SentMessages`` returns the same for a context, and caches
the messages of each turn, because most turns are those of the previous call.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxmgr.bench.economy.needs import argument_text
from ctxmgr.core.context.assembly import Context, ShownTurn, Transcript
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.messages.answers import NO_MESSAGE
from ctxmgr.messages.openai import payload


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message as it was sent."""

    role: str
    text: str = field(repr=False)
    """The text as sent, for counting and comparing."""
    readable: str = field(repr=False, compare=False)
    """The text with decoded arguments, for finding names."""
    tokens: int = field(compare=False)
    lines: frozenset[str] = field(repr=False, compare=False)

    @classmethod
    def of(cls, role: str, text: str, readable: str, *, count: Count) -> "SentMessage":
        lines = frozenset(readable.split("\n"))
        return cls(role, text, readable, count(text) + MESSAGE_TOKENS, lines)


def of_payload(request: Mapping[str, Any], *, count: Count) -> list[SentMessage]:
    """Return the messages of a request without the ids of calls, which recordings do not have."""
    return [_message(message, count=count) for message in request["messages"]]


class SentMessages:
    """The messages of one session's contexts."""

    def __init__(self, *, count: Count) -> None:
        self._count = count
        self._cache: dict[int, tuple[ShownTurn, list[SentMessage]]] = {}

    def of(self, context: Context) -> list[SentMessage]:
        """Return the same as ``of_payload`` for the context's request."""
        messages = self._own(Context(session_id="", system_prompt=context.system_prompt))
        for turn in context.transcript.turns:
            # The entry keeps the turn alive, so that its id is not reused.
            if id(turn) not in self._cache:
                alone = Context(session_id="", system_prompt="", transcript=Transcript([turn]))
                self._cache[id(turn)] = (turn, self._own(alone))
            self._add(messages, self._cache[id(turn)][1])
        self._add(messages, self._own(Context(session_id="", system_prompt="", user=context.user)))
        if not messages or messages[-1].role in {"system", "assistant"}:
            messages.append(SentMessage.of("user", NO_MESSAGE, NO_MESSAGE, count=self._count))
        return messages

    def _own(self, context: Context) -> list[SentMessage]:
        """Return the messages of a part of a prompt, without the placeholder for the user's."""
        return [
            message
            for message in of_payload(payload(context), count=self._count)
            if (message.role, message.text) != ("user", NO_MESSAGE)
        ]

    def _add(self, messages: list[SentMessage], more: Sequence[SentMessage]) -> None:
        """Append messages; consecutive user messages become one."""
        rest = list(more)
        if messages and rest and messages[-1].role == rest[0].role == "user":
            text = messages.pop().text + "\n\n" + rest.pop(0).text
            messages.append(SentMessage.of("user", text, text, count=self._count))
        messages += rest


def _message(message: Mapping[str, Any], *, count: Count) -> SentMessage:
    functions = [call["function"] for call in message.get("tool_calls", ())]
    content = message.get("content") or ""
    texts = [content] if content else []
    written = [f'{{"tool": "{call["name"]}", "args": {call["arguments"]}}}' for call in functions]
    decoded = [argument_text(json.loads(call["arguments"])) for call in functions]
    text, readable = "\n".join(texts + written), "\n".join(texts + decoded)
    return SentMessage.of(message["role"], text, readable, count=count)
