"""Evaluates requests as they reach the provider: cost with a cache of marked prefixes, and names.

The judge and the cache are those of ``ctxmgr bench economy``. Definitions of tools are counted as a
first block, so that an injected tool is paid. A request that the API would refuse is counted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxmgr.bench.economy.judge import Judge, Score
from ctxmgr.bench.economy.needs import Need, argument_text
from ctxmgr.bench.economy.replay import MarkedCache
from ctxmgr.bench.economy.sent_messages import SentMessage
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.policy import Prices
from ctxmgr.messages.anthropic import CACHE_BREAKPOINTS_MAX


@dataclass(slots=True)
class ProxyScore:
    """The sum over all sessions of a file."""

    read_tokens: int = 0
    written_tokens: int = 0
    illegal: int = 0
    """Requests that the API would refuse."""
    judged: Score = field(default_factory=Score)

    def cost(self, prices: Prices) -> float:
        """Return the price in uncached input tokens, with a cache of marked prefixes."""
        output = prices.output * self.judged.output_tokens
        return prices.read * self.read_tokens + prices.write * self.written_tokens + output


class SessionScorer:
    """Evaluates the requests of one session in order."""

    def __init__(self, total: ProxyScore, *, count: Count) -> None:
        self._total = total
        self._count = count
        self._cache = MarkedCache(count=count)
        self._judge = Judge(count=count)
        self._sent: dict[str, list[SentMessage]] = {}

    def add(self, body: bytes, needed: Sequence[Need], *, answer: str) -> None:
        """Evaluate one request."""
        request = _in_blocks(json.loads(body))
        self._total.illegal += not is_legal(request)
        read, written = self._cache.send(_with_tools(request))
        self._total.read_tokens += read
        self._total.written_tokens += written
        prompt = [message for part in self._parts(request) for message in part]
        self._judge.judge(prompt, needed, answer=answer)

    def finish(self) -> None:
        """Add the session to the total."""
        self._total.judged.add(self._judge.score)

    def _parts(self, request: Mapping[str, Any]) -> Iterator[list[SentMessage]]:
        head = json.dumps([request["tools"], request["system"]])
        yield self._once(head, "system", [{"type": "text", "text": head}])
        for message in request["messages"]:
            content = [
                {name: value for name, value in block.items() if name != "cache_control"}
                for block in message["content"]
            ]
            key = json.dumps([message["role"], content])
            yield self._once(key, message["role"], content)

    def _once(self, key: str, role: str, content: Sequence[Mapping[str, Any]]) -> list[SentMessage]:
        if key not in self._sent:
            self._sent[key] = list(_messages(role, content, count=self._count))
        return self._sent[key]


def _in_blocks(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request in which all content is lists of blocks: a proxy may write strings."""
    messages = [
        message | {"content": _blocks(message["content"])} for message in request["messages"]
    ]
    return {
        "messages": messages,
        "system": _blocks(request.get("system") or []),
        "tools": request.get("tools") or [],
    }


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def is_legal(request: Mapping[str, Any]) -> bool:
    """Whether the API would accept a request: roles, pairs of calls and results, marks."""
    messages = request["messages"]
    if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        return False
    blocks = [block for message in messages for block in message["content"]]
    marked = sum("cache_control" in block for block in [*blocks, *request["system"]])
    if marked > CACHE_BREAKPOINTS_MAX:
        return False
    waiting: list[str] = []
    for message in messages:
        results = [
            block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"
        ]
        if sorted(results) != sorted(waiting):
            return False
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    return not waiting


def _with_tools(request: Mapping[str, Any]) -> dict[str, Any]:
    tools = {"type": "text", "text": json.dumps(request["tools"])}
    return {"system": [tools, *request["system"]], "messages": request["messages"]}


def _messages(
    role: str, content: Sequence[Mapping[str, Any]], *, count: Count
) -> Iterator[SentMessage]:
    """Yield a message as other APIs have it: every result is one of its own."""
    texts, readable = list[str](), list[str]()
    for block in content:
        if block["type"] == "tool_result":
            text = str(block["content"])
            yield SentMessage.of("tool", text, text, count=count)
        elif block["type"] == "tool_use":
            texts.append(json.dumps({"tool": block["name"], "args": block["input"]}))
            readable.append(argument_text(block["input"]))
        else:
            texts.append(block["text"])
            readable.append(block["text"])
    if texts:
        yield SentMessage.of(role, "\n".join(texts), "\n".join(readable), count=count)
