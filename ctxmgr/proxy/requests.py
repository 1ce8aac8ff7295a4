"""A request as bytes and as what shaping needs of it. Pure.

Most of a request was in the one before. ``RequestReader`` therefore compares it with the last
request of the same client, and reads only what differs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from ctxmgr.core.bounded_cache import BoundedCache
from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.stream_turns import strings
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.proxy.conversation import chained
from ctxmgr.proxy.engine import Api, Incoming
from ctxmgr.proxy.wire.anthropic import AnthropicMessages
from ctxmgr.proxy.wire.json_spans import ByteSpan, elements, fields
from ctxmgr.proxy.wire.message import SessionNames, Side, Wire, WireMessage, digest_of
from ctxmgr.proxy.wire.openai_chat import OpenAIChat
from ctxmgr.proxy.wire.openai_responses import OpenAIResponses

WIRES: Final[Mapping[Api, Wire]] = {
    Api.ANTHROPIC_MESSAGES: AnthropicMessages(),
    Api.OPENAI_CHAT: OpenAIChat(),
    Api.OPENAI_RESPONSES: OpenAIResponses(),
}

CLIENTS_MAX: Final = 64
"""Clients whose last request is kept for comparing."""

HEADS_MAX: Final = 256
"""Values of ``system`` and ``tools`` whose reading is cached."""

CHARS_PER_TOKEN: Final = 4
"""For what is counted roughly: definitions of tools and instructions."""


@dataclass(slots=True)
class Entry:
    """A message of a request."""

    raw: bytes = field(repr=False)
    digest: str
    message: WireMessage = field(repr=False)
    _tokens: int | None = None

    def tokens(self, count: Count) -> int:
        """Return the tokens of the message as the client sent it."""
        if self._tokens is None:
            message = self.message
            texts = [
                *message.prose,
                *(result.text for result in message.results),
                *(text for call in message.calls for _, text in strings(call.args)),
            ]
            self._tokens = sum(map(count, texts)) + MESSAGE_TOKENS
        return self._tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What ``tools`` or ``system`` says."""

    names: tuple[str, ...] = ()
    marks: int = 0
    ttl: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request that was read."""

    api: Api
    body: bytes = field(repr=False)
    fields: Mapping[str, ByteSpan] = field(repr=False)
    spans: tuple[ByteSpan, ...] = field(repr=False)
    """Of the messages."""
    entries: tuple[Entry, ...] = field(repr=False)
    chain: tuple[str, ...] = field(repr=False)
    names: SessionNames
    tools: RequestHead
    system: RequestHead
    model: str

    @property
    def group(self) -> str:
        """Identifies the session and agent; without a name, whatever begins in the same way.

        The beginning is everything before the first answer: many begin with one system prompt.
        """
        opening = "" if self.names.session else self.chain[max(self._opening_length - 1, 0)]
        name = f"{self.api}\n{self.names.session}\n{self.names.agent}\n{opening}"
        return sha256(name.encode(errors="replace"))

    @property
    def _opening_length(self) -> int:
        sides = (entry.message.side for entry in self.entries)
        return sum(1 for _ in takewhile(lambda side: side is not Side.ASSISTANT, sides))

    @property
    def messages(self) -> list[WireMessage]:
        return [entry.message for entry in self.entries]

    @property
    def marks(self) -> int:
        """Cache marks that the client has set; one for the whole request lets the API set one."""
        automatic = self.raw("cache_control") not in (b"", b"null")
        heads = self.tools.marks + self.system.marks
        return automatic + heads + sum(message.marks for message in self.messages)

    @property
    def ttl(self) -> str | None:
        ttls = (self.system.ttl, self.tools.ttl, *(message.ttl for message in self.messages))
        return next((ttl for ttl in ttls if ttl), None)

    @property
    def head_tokens(self) -> int:
        """About the tokens of everything but the messages."""
        spans = (self.fields.get(name) for name in ("system", "instructions", "tools"))
        return sum(span.end - span.start for span in spans if span) // CHARS_PER_TOKEN

    def raw(self, name: str) -> bytes:
        """Return a field as it is written; empty if it is missing."""
        span = self.fields.get(name)
        return b"" if span is None else self.body[span.start : span.end]

    def value(self, name: str) -> Any:
        raw = self.raw(name)
        return json.loads(raw) if raw else None


class RequestReader:
    """Reads requests, and remembers the last one of each client."""

    def __init__(self) -> None:
        self._last: BoundedCache[tuple[str, ...], ReadRequest] = BoundedCache(CLIENTS_MAX)
        self._heads: BoundedCache[bytes, RequestHead] = BoundedCache(HEADS_MAX)

    def read(self, request: Incoming) -> ReadRequest:
        """Read a request; ``ValueError`` or ``Incorrect`` if it cannot be understood."""
        wire = WIRES[request.api]
        own = ("x-claude-code-session-id", "x-claude-code-agent-id", "session-id", "thread-id")
        client = (request.api, *(request.headers.get(name, "") for name in own))
        last = self._last.get(client)
        body, spans = request.body, list[ByteSpan]()
        known = [] if last is None else [entry.raw for entry in last.entries]

        def skip(name: str, at: int) -> int | None:
            if name == wire.listed:
                if body[at : at + 1] != b"[":
                    return None
                found, end = elements(body, at, known=known)
                spans.extend(found)
                return end
            before = b"" if last is None else last.raw(name)
            # Only brackets end by themselves: 1 is the beginning of 12.
            same = before[:1] in (b"{", b"[") and body.startswith(before, at)
            return at + len(before) if same else None

        found = fields(body, skip=skip)
        if wire.listed not in found or not spans:
            raise ValueError(f"it has no list of {wire.listed}")
        entries = self._entries(wire, body, spans, last)
        value = _values(body, found)
        read = ReadRequest(
            api=request.api,
            body=body,
            fields=found,
            spans=tuple(spans),
            entries=entries,
            chain=_chain(entries, last),
            names=wire.names(request.headers, value),
            tools=self._head(wire, _raw(body, found.get("tools")), named=True),
            system=self._head(wire, _raw(body, found.get("system")), named=False),
            model=str(value("model") or ""),
        )
        self._last.keep(client, read)
        return read

    def _entries(
        self, wire: Wire, body: bytes, spans: list[ByteSpan], last: ReadRequest | None
    ) -> tuple[Entry, ...]:
        before = () if last is None else last.entries
        entries = []
        for index, span in enumerate(spans):
            raw = body[span.start : span.end]
            if index < len(before) and before[index].raw == raw:
                entries.append(before[index])
                continue
            value = json.loads(raw)
            entries.append(Entry(raw, digest_of(value), wire.read(_printable(value, raw))))
        return tuple(entries)

    def _head(self, wire: Wire, raw: bytes, *, named: bool) -> RequestHead:
        if not raw:
            return RequestHead()
        head = self._heads.get(raw)
        if head is None:
            value = json.loads(raw)
            blocks = [block for block in value if isinstance(block, dict)] if value else []
            marks = [block["cache_control"] for block in blocks if "cache_control" in block]
            ttls = [mark.get("ttl") for mark in marks if isinstance(mark, dict)]
            names = wire.tool_names(blocks) if named else ()
            ttl = next((ttl for ttl in ttls if isinstance(ttl, str)), None)
            head = RequestHead(names=tuple(names), marks=len(marks), ttl=ttl)
            self._heads.keep(raw, head)
        return head


def _chain(entries: tuple[Entry, ...], last: ReadRequest | None) -> tuple[str, ...]:
    """Return the hash of each message and all before it; those of the last request are known."""
    pairs = () if last is None else zip(entries, last.entries, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
    chain = [] if last is None else list(last.chain[:same])
    for entry in entries[same:]:
        chain.append(chained(chain[-1] if chain else "", entry.digest))
    return tuple(chain)


def _raw(body: bytes, span: ByteSpan | None) -> bytes:
    return b"" if span is None else body[span.start : span.end]


def _values(body: bytes, found: Mapping[str, ByteSpan]) -> Any:
    def value(name: str) -> Any:
        raw = _raw(body, found.get(name))
        return json.loads(raw) if raw else None

    return value


def _printable(value: Any, raw: bytes) -> Any:
    """Return a message without lone surrogates, which cannot be stored or counted."""
    if b"\\u" not in raw:
        return value
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
        return json.loads(text)
    return value
