"""A request as bytes and as what shaping needs of it. Pure.

Most of a request was in the one before. ``RequestReader`` therefore compares it with the last
request of the same client, and reads only what differs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final

from ctxmgr.core.context.tokens import MESSAGE_TOKENS
from ctxmgr.core.economy.folding import Count
from ctxmgr.core.economy.stream_turns import strings
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.proxy.engine import Api, Incoming
from ctxmgr.proxy.sized_cache import SizedCache
from ctxmgr.proxy.wire.anthropic import AnthropicMessages
from ctxmgr.proxy.wire.json_spans import (
    ByteSpan,
    elements,
    fields,
    first_element,
    moved,
    shared_elements,
)
from ctxmgr.proxy.wire.message import (
    SessionNames,
    Side,
    Wire,
    WireMessage,
    chained,
    digest_of,
)
from ctxmgr.proxy.wire.openai_chat import OpenAIChat
from ctxmgr.proxy.wire.openai_responses import OpenAIResponses

WIRES: Final[Mapping[Api, Wire]] = {
    Api.ANTHROPIC_MESSAGES: AnthropicMessages(),
    Api.OPENAI_CHAT: OpenAIChat(),
    Api.OPENAI_RESPONSES: OpenAIResponses(),
}

CLIENTS_MAX: Final = 256
"""Clients whose last requests are kept for comparing."""

RECENT_MAX: Final = 16
"""Requests of one client that are kept: one that names no session may have many conversations."""

REQUESTS_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of all requests that are kept for comparing, as they are in memory."""

READ_SIZE: Final = 4
"""Bytes in memory for each byte of a request that was read: the request itself, its messages, and
their texts."""

HEADS_MAX: Final = 256
"""Values of ``system`` and ``tools`` whose reading is cached."""

HEADS_BYTES_MAX: Final = 32 * 1024 * 1024

TOOL_ITEMS_AMONG: Final = 4
"""Items at the beginning of an input that may define tools, as newer models of Codex have them."""

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
    marked: tuple[int, ...]
    """The messages that have cache marks."""
    names: SessionNames
    tools: RequestHead
    tool_item: int | None = None
    """The message that defines the tools, as in requests of newer models of Codex."""
    system: RequestHead
    model: str

    @property
    def group(self) -> str:
        """Identifies the session and agent; without a name, whatever begins in the same way.

        The beginning is everything before the first answer: many begin with one system prompt.
        """
        opening = "" if self.names.session else self.chain[max(self._opening_length - 1, 0)]
        return self._group(self.names.session or self.names.shared, opening)

    @property
    def earlier_group(self) -> str | None:
        """The group in which earlier versions stored a client that names only a shared key."""
        if self.names.session or not self.names.shared:
            return None
        return self._group(self.names.shared, "")

    def _group(self, session: str, opening: str) -> str:
        name = f"{self.api}\n{session}\n{self.names.agent}\n{opening}"
        return sha256(name.encode(errors="replace"))

    @property
    def _opening_length(self) -> int:
        sides = (entry.message.side for entry in self.entries)
        return sum(1 for _ in takewhile(lambda side: side is not Side.ASSISTANT, sides))

    def messages(self, start: int = 0, end: int | None = None) -> list[WireMessage]:
        """Return what the messages of a range say."""
        return [entry.message for entry in self.entries[start:end]]

    @property
    def marks(self) -> int:
        """Cache marks that the client has set; one for the whole request lets the API set one."""
        automatic = self.raw("cache_control") not in (b"", b"null")
        heads = self.tools.marks + self.system.marks
        return automatic + heads + sum(self.entries[index].message.marks for index in self.marked)

    @property
    def ttl(self) -> str | None:
        own = (self.entries[index].message.ttl for index in self.marked)
        return next((ttl for ttl in (self.system.ttl, self.tools.ttl, *own) if ttl), None)

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
    """Reads requests, and remembers the last ones of each client. Used by several threads."""

    def __init__(self, *, bytes_max: int = REQUESTS_BYTES_MAX) -> None:
        self._recent: SizedCache[tuple[str, ...], tuple[ReadRequest, ...]] = SizedCache(
            bytes_max, count_max=CLIENTS_MAX
        )
        self._heads: SizedCache[bytes, RequestHead] = SizedCache(
            HEADS_BYTES_MAX, count_max=HEADS_MAX
        )

    def new_bytes(self, request: Incoming) -> int:
        """Return about how much of a request was not in an earlier one: reading it takes time."""
        body, same = request.body, 0
        for last in self._recent.get(_client(request)) or ():
            at = last.spans[0].start
            count = _shared(last, body, at)
            same = max(same, last.spans[count - 1].end if count else 0)
        return len(body) - same

    def read(self, request: Incoming) -> ReadRequest:
        """Read a request; ``ValueError`` or ``Incorrect`` if it cannot be understood."""
        wire, body = WIRES[request.api], request.body
        recent = self._recent.get(_client(request)) or ()
        last: ReadRequest | None = None
        same, spans = 0, list[ByteSpan]()

        def skip(name: str, at: int) -> int | None:
            nonlocal last, same
            if name == wire.listed and body[at : at + 1] == b"[":
                first = first_element(body, at)
                counts = [_shared(one, body, first) for one in recent]
                if same := max(counts, default=0):
                    last = recent[counts.index(same)]
                    spans.extend(moved(last.spans[:same], first))
                found, end = elements(body, at, known=spans)
                spans[:] = found
                return end
            raw = recent[0].raw(name) if recent else b""
            # Only brackets end by themselves: 1 is the beginning of 12.
            known = raw[:1] in (b"{", b"[") and body.startswith(raw, at)
            return at + len(raw) if known else None

        found = fields(body, skip=skip)
        if wire.listed not in found or not spans:
            raise ValueError(f"it has no list of {wire.listed}")
        entries = self._entries(wire, body, spans, last, same=same)
        value = _values(body, found)
        marked = [] if last is None else [index for index in last.marked if index < same]
        marked += (index for index in range(same, len(entries)) if entries[index].message.marks)
        read = ReadRequest(
            api=request.api,
            body=body,
            fields=found,
            spans=tuple(spans),
            entries=entries,
            chain=_chain(entries, last, same=same),
            marked=tuple(marked),
            names=wire.names(request.headers, value),
            tools=self._head(wire, _raw(body, found.get("tools")), named=True),
            system=self._head(wire, _raw(body, found.get("system")), named=False),
            model=str(value("model") or ""),
        )
        if not read.tools.names:
            read = _with_tool_item(wire, read)
        others = tuple(one for one in recent if one is not last)[: RECENT_MAX - 1]
        size = READ_SIZE * (len(body) + sum(len(one.body) for one in others))
        self._recent.keep(_client(request), (read, *others), size=size)
        return read

    def _entries(
        self,
        wire: Wire,
        body: bytes,
        spans: list[ByteSpan],
        last: ReadRequest | None,
        *,
        same: int,
    ) -> tuple[Entry, ...]:
        before = () if last is None else last.entries
        entries = list(before[:same])
        for index in range(same, len(spans)):
            raw = body[spans[index].start : spans[index].end]
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
            self._heads.keep(raw, head, size=len(raw))
        return head


def _with_tool_item(wire: Wire, read: ReadRequest) -> ReadRequest:
    """Return a request with the tools that one of its first messages defines."""
    for index, entry in enumerate(read.entries[:TOOL_ITEMS_AMONG]):
        if b'"additional_tools"' not in entry.raw:
            continue
        value = json.loads(entry.raw)
        tools = value.get("tools") if value.get("type") == "additional_tools" else None
        names = wire.tool_names(tools) if isinstance(tools, list) else []
        if names:
            return replace(read, tools=RequestHead(names=tuple(names)), tool_item=index)
    return read


def _client(request: Incoming) -> tuple[str, ...]:
    own = ("x-claude-code-session-id", "x-claude-code-agent-id", "session-id", "thread-id")
    return (request.api, *(request.headers.get(name, "") for name in own))


def _shared(last: ReadRequest, body: bytes, at: int) -> int:
    """Return how many messages of a request another one has from a position on."""
    return shared_elements(last.body, last.spans, body, at)


def _chain(entries: tuple[Entry, ...], last: ReadRequest | None, *, same: int) -> tuple[str, ...]:
    """Return the hash of each message and all before it; those of the last request are known."""
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
