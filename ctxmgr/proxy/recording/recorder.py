"""Stores exchanges as records, and those of a conversation as the turns of a session. Commits.

    exchange n    its record, at once
    turn n        when the next request brings the outputs of its tool calls, or the proxy ends

Turns are those of any other session, so the inspector, ``timeline``, ``usage`` and ``cache`` show
them. Files are never read here: a request only names them. A request that belongs to no
conversation, such as the generation of a title, is counted and not stored.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.model import to_value
from ctxmgr.core.objects.answers import text_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.sessions.storage import PROXY_SESSION, exchange_count
from ctxmgr.core.store.contract import Put, Store
from ctxmgr.core.store.documents import Document, storable
from ctxmgr.errors import NotFound
from ctxmgr.messages.answers import ToolCallIds, read_call
from ctxmgr.proxy.engine import ShapedText
from ctxmgr.proxy.recording.answer_parts import AnswerParts, CalledTool, read_answer_parts
from ctxmgr.proxy.recording.exchange_records import RequestText, exchange_document
from ctxmgr.proxy.recording.request_parts import CallOutput, RequestParts, read_request
from ctxmgr.proxy.server.accounting import RequestAccount
from ctxmgr.proxy.server.exchange import ProxiedExchange

OPEN_SESSIONS_MAX: Final = 100
"""Sessions that are kept open; the least recently used are paused, and resumed when needed."""

OPEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of the requests of all sessions that are kept open."""

ANSWER_LENGTH_MAX: Final = 1024 * 1024
"""Characters of an answer in a record; the turn has all of it."""

_SESSION_HEADERS: Final = ("x-claude-code-session-id", "session-id", "session_id", "x-session-id")
_AGENT_HEADERS: Final = ("x-claude-code-agent-id", "thread-id")


@dataclass(slots=True)
class _PendingTurn:
    """A turn whose tool calls have no outputs yet."""

    user: str
    parts: list[Document]
    calls: list[tuple[CalledTool, Document]]
    meta: AssistantMeta
    tried: bool = False
    """Whether it could not be stored once."""


@dataclass(slots=True)
class _OpenConversation:
    session: LiveSession
    number: int = 0
    """Of the last exchange."""
    keys: tuple[bytes, ...] = ()
    """Of the messages of the last request."""
    received: RequestParts | None = None
    sent: RequestParts | None = None
    """None: as it was received."""
    folds: tuple[ShapedText, ...] = ()
    pending: _PendingTurn | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        return sum(parts.size for parts in (self.received, self.sent) if parts is not None)


class ExchangeRecorder:
    """Records exchanges in a store."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store
        self._open: OrderedDict[str, _OpenConversation] = OrderedDict()

    async def record(self, exchange: ProxiedExchange, account: RequestAccount | None) -> None:
        """Store one exchange."""
        known = self._open.get(_named_session(exchange) or "")
        before = (None, None) if known is None else (known.received, known.sent)
        read = await asyncio.to_thread(_read, exchange, *before)
        if read is None:
            return
        session_id, parts, sent, answer = read
        conversation = await self._conversation(session_id, parts)
        common = parts.common(conversation.keys)
        await self._end_pending(conversation, parts.outputs(common))
        number = conversation.number + 1
        received = RequestText.of(conversation.received)
        document = exchange_document(
            exchange,
            session_id=session_id,
            number=number,
            turn=conversation.session.turn,
            received=RequestText.of(parts).since(received),
            sent=(
                None
                if sent is None
                else RequestText.of(sent).since(
                    RequestText.of(conversation.sent or conversation.received)
                )
            ),
            answer=_answer_text(answer),
            account=account,
            before=conversation.folds,
        )
        await self._store.commit([Put(document)])
        # Numbers have no gaps, and each record is read with the one before: only what is stored
        # counts.
        conversation.number, conversation.keys = number, parts.keys
        conversation.received, conversation.sent = parts, sent
        conversation.folds = exchange.outgoing.folds
        if answer.parts:
            conversation.pending = _pending(
                exchange, answer, user=parts.user_text(common), session=conversation.session
            )
            if not answer.calls:
                await self._end_pending(conversation, {})
        await self._bound()

    async def _bound(self) -> None:
        """Pause sessions until the rest takes little memory; the newest one stays."""
        total = sum(conversation.size for conversation in self._open.values())
        while len(self._open) > 1 and (
            len(self._open) > OPEN_SESSIONS_MAX or total > OPEN_BYTES_MAX
        ):
            session_id, oldest = self._open.popitem(last=False)
            total -= oldest.size
            await self._pause(session_id, oldest)

    async def close(self) -> None:
        """End the turns that are still open, and pause the sessions."""
        while self._open:
            await self._pause(*self._open.popitem(last=False))

    async def _conversation(self, session_id: str, parts: RequestParts) -> _OpenConversation:
        known = self._open.get(session_id)
        if known is None:
            known = await self._opened(session_id, parts)
            self._open[session_id] = known
        self._open.move_to_end(session_id)
        return known

    async def _opened(self, session_id: str, parts: RequestParts) -> _OpenConversation:
        try:
            session = await self._client.resume(session_id, eager=False)
        except NotFound:
            prompt = storable(parts.system) or "[the request had no system prompt]"
            session = await self._client.start(session_id, system_prompt=prompt)
            return _OpenConversation(session)
        number = await exchange_count(self._store, session_id)
        # What was new in the request before is not known any more: this one is stored whole, and
        # its turn begins after the last answer that the request contains.
        return _OpenConversation(session, number=number, keys=parts.keys_until_last_answer())

    async def _pause(self, session_id: str, conversation: _OpenConversation) -> None:
        await self._end_pending(conversation, {})
        await self._client.pause(session_id)

    async def _end_pending(
        self, conversation: _OpenConversation, outputs: dict[str, CallOutput]
    ) -> None:
        """Store the turn before, with the outputs of its calls as far as they are known."""
        turn, conversation.pending = conversation.pending, None
        if turn is None:
            return
        try:
            await _store_turn(conversation.session, turn, outputs)
        except Exception:
            if not turn.tried:  # once more with the next exchange, which has the outputs as well
                turn.tried, conversation.pending = True, turn
            raise


async def _store_turn(
    session: LiveSession, turn: _PendingTurn, outputs: dict[str, CallOutput]
) -> None:
    await session.render(storable(turn.user))
    for call, part in turn.calls:
        output = outputs.get(call.call_id)
        if output is None:
            continue
        await session.record(
            part["toolcall_id"],
            tool=part["tool"],
            args=part["args"],
            output=storable(output.text),
            status="fail" if output.failed else "ok",
            discover=False,
        )
    await session.end_turn(turn.parts, meta=turn.meta)


def _read(
    exchange: ProxiedExchange, before: RequestParts | None, sent_before: RequestParts | None
) -> tuple[str, RequestParts, RequestParts | None, AnswerParts] | None:
    """Return what is stored of an exchange; None if it belongs to no conversation."""
    parts = read_request(exchange.api, exchange.received, before=before)
    if parts is None or not exchange.path.endswith(("/messages", "/completions", "/responses")):
        return None
    session_id = _session_id(exchange, parts)
    if session_id is None:
        return None
    sent: RequestParts | None = None
    if exchange.outgoing.shaped:
        sent = read_request(exchange.api, exchange.outgoing.body, before=sent_before or before)
    succeeded = exchange.status is not None and exchange.status < 300  # noqa: PLR2004
    answer = (
        read_answer_parts(exchange.api, exchange.answer, streamed=exchange.streamed)
        if succeeded
        else AnswerParts()
    )
    return session_id, parts, sent, answer


def _session_id(exchange: ProxiedExchange, parts: RequestParts) -> str | None:
    """Return the session of an exchange: the engine's conversation, or what the client names."""
    if exchange.outgoing.conversation is None and (not parts.has_tools or not parts.keys):
        return None
    named = _named_session(exchange)
    if named is not None:
        return named
    first = hashlib.sha256(parts.system.encode() + parts.keys[0]).hexdigest()[:24]
    return PROXY_SESSION + first


def _named_session(exchange: ProxiedExchange) -> str | None:
    """Return the session that the engine or the client names."""
    if exchange.outgoing.conversation is not None:
        return PROXY_SESSION + _short(exchange.outgoing.conversation)
    names = [
        next((exchange.headers[name] for name in group if exchange.headers.get(name)), "")
        for group in (_SESSION_HEADERS, _AGENT_HEADERS)
    ]
    return PROXY_SESSION + _short("-".join(filter(None, names))) if names[0] else None


def _short(name: str) -> str:
    """Return a name that can be part of a session's id."""
    if len(name) <= 80 and name.isascii() and name.isprintable() and " " not in name:  # noqa: PLR2004
        return name
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def _pending(
    exchange: ProxiedExchange, answer: AnswerParts, *, user: str, session: LiveSession
) -> _PendingTurn:
    ids = ToolCallIds(session.session_id, turn=session.turn, unique=False)
    parts: list[Document] = []
    calls: list[tuple[CalledTool, Document]] = []
    for part in answer.parts:
        if isinstance(part, str):
            parts.append(text_part(storable(part)))
            continue
        call = read_call(part.call_id, name=part.tool, args=storable(part.args), ids=ids)
        parts.append(call)
        calls.append((part, call))
    meta = AssistantMeta(
        api=str(exchange.api),
        provider=str(exchange.provider),
        model=exchange.model,
        usage=None if exchange.usage is None else to_value(exchange.usage),
        stopReason=answer.stop,
        timestamp=exchange.ended_ms,
    )
    return _PendingTurn(user, parts, calls, meta)


def _answer_text(answer: AnswerParts) -> str:
    lines = [
        part if isinstance(part, str) else f"→ {part.tool}({part.arguments})"
        for part in answer.parts
    ]
    return "\n".join(lines)[:ANSWER_LENGTH_MAX]
