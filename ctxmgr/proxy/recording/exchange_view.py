"""Exchanges as people read them: a list with their bill, and both sides of one. Reads the store."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctxmgr.core.objects.envelope import exchange_id
from ctxmgr.core.sessions.storage import exchange_count
from ctxmgr.core.store.contract import Store
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import NotFound
from ctxmgr.proxy.recording.exchange_records import RequestText, rebuilt

LISTED_MAX: Final = 2_000
"""Exchanges that are listed, from the newest."""

MESSAGE_LENGTH_MAX: Final = 20_000
"""Characters of a message that are shown."""

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRow:
    """One request of a session."""

    n: int
    turn: int
    began: int
    """UTC milliseconds."""
    model: str | None
    status: int | None
    """None if the provider did not answer."""
    shaped: bool
    reason: str | None
    """Why it went out as the client sent it."""
    folds: int
    """Texts of which only a part was sent."""
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    billed: float | None
    """In uncached input tokens, from the provider's usage."""
    baseline: float | None
    """The same for the request that the client sent."""
    saved: float | None
    """Negative if it cost more."""
    retrieved_tokens: int
    """Of texts that the model asked back."""
    lost_tokens: int
    """That had been sent before and were not found in the provider's cache."""
    lost_because: str | None
    prepare_ms: float
    first_byte_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeList:
    """The requests of a session, and their sum."""

    session: str
    requests: int
    billed: float
    baseline: float
    saved: float
    """Net, in uncached input tokens; negative if the proxy cost more than it saved."""
    breaks: int
    exchanges: tuple[ExchangeRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePair:
    """A message as the client sent it, and as it went out."""

    index: int
    received: str | None = field(repr=False)
    """None: the proxy added it."""
    sent: str | None = field(repr=False)
    """None: as it was received, or not sent at all."""
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDetail:
    """Both sides of a request, and its answer. Secrets are masked."""

    session: str
    row: ExchangeRow
    folds: tuple[Mapping[str, Any], ...]
    """Texts that this request was the first to shorten, or shortened further."""
    refused: str | None
    """What the provider said to the shaped request, if it refused it."""
    messages: tuple[MessagePair, ...] = field(repr=False)
    settings: MessagePair = field(repr=False)
    """Everything of the request but its messages."""
    answer: str = field(repr=False)


async def list_exchanges(store: Store, session_id: str, *, mask: Mask) -> ExchangeList:
    """Return the requests of a session; ``NotFound`` if none was recorded."""
    count = await exchange_count(store, session_id)
    if not count:
        raise NotFound(f"no request of session {session_id} passed through the proxy")
    numbers = range(max(1, count - LISTED_MAX + 1), count + 1)
    ids = [exchange_id(session_id, number=number) for number in numbers]
    found = await store.get_many(ids, without=("received", "sent", "answer"))
    rows = tuple(_row(version.document, mask) for version in found.values())
    billed = sum(row.billed or 0.0 for row in rows)
    baseline = sum(row.baseline or 0.0 for row in rows)
    return ExchangeList(
        session=session_id,
        requests=count,
        billed=round(billed, 1),
        baseline=round(baseline, 1),
        saved=round(baseline - billed, 1),
        breaks=sum(row.lost_because is not None for row in rows),
        exchanges=rows,
    )


async def show_exchange(
    store: Store, session_id: str, number: int, *, mask: Mask
) -> ExchangeDetail:
    """Return one request of a session as it came and as it went out."""
    documents = await _chain(store, session_id, number)
    if not documents:
        raise NotFound(f"session {session_id} has no request {number}")
    document = documents[-1]
    received, sent = list(rebuilt(documents))[-1]
    went_out = received if document.get("sent") is None else sent
    return ExchangeDetail(
        session=session_id,
        row=_row(document, mask),
        folds=tuple(document.get("folds") or ()),
        refused=_masked(document.get("refused"), mask),
        messages=tuple(_pairs(received, went_out, mask)),
        settings=_pair(0, received.frame, went_out.frame, mask),
        answer=mask(str(document.get("answer", ""))),
    )


async def _chain(store: Store, session_id: str, number: int) -> list[Document]:
    """Return the records that a request is rebuilt from, back to one that is stored whole."""
    documents: list[Document] = []
    for each in range(number, 0, -1):
        version = await store.get(exchange_id(session_id, number=each))
        if version is None or "received" not in version.document:
            break
        documents.append(version.document)
        sides = [side for side in (version.document["received"], version.document["sent"]) if side]
        if all(side["kept"] == 0 and side["frame"] is not None for side in sides):
            break
    return documents[::-1]


def _row(document: Document, mask: Mask) -> ExchangeRow:
    usage = document.get("usage") or {}
    billed, baseline = document.get("billed"), document.get("baseline")
    lost = document.get("lost") or {}
    known = ("input_tokens", "cache_read_tokens", "cache_written_tokens")
    return ExchangeRow(
        n=int(document["n"]),
        turn=int(document.get("turn", 0)),
        began=int(document.get("began", 0)),
        model=document.get("model"),
        status=document.get("status"),
        shaped=bool(document.get("shaped")),
        reason=_masked(document.get("reason"), mask),
        folds=int(document.get("folds_total", len(document.get("folds") or ()))),
        prompt_tokens=sum(int(usage.get(name, 0)) for name in known) if usage else None,
        cached_tokens=usage.get("cache_read_tokens"),
        output_tokens=usage.get("output_tokens"),
        billed=billed,
        baseline=baseline,
        saved=None if billed is None or baseline is None else round(baseline - billed, 1),
        retrieved_tokens=int(document.get("retrieved_tokens", 0)),
        lost_tokens=int(lost.get("tokens", 0)),
        lost_because=_masked(lost.get("cause"), mask),
        prepare_ms=float(document.get("prepare_ms", 0.0)),
        first_byte_ms=document.get("first_byte_ms"),
    )


def _pairs(received: RequestText, sent: RequestText, mask: Mask) -> list[MessagePair]:
    count = max(len(received.messages), len(sent.messages))
    padded = [(*side.messages, *[None] * (count - len(side.messages))) for side in (received, sent)]
    return [
        _pair(index, came, went, mask)
        for index, (came, went) in enumerate(zip(*padded, strict=True))
    ]


def _pair(index: int, came: str | None, went: str | None, mask: Mask) -> MessagePair:
    changed = came != went
    return MessagePair(
        index=index,
        received=_shown(came, mask),
        sent=_shown(went, mask) if changed else None,
        changed=changed,
    )


def _shown(text: str | None, mask: Mask) -> str | None:
    """Return a message as indented JSON, masked and cut."""
    if text is None:
        return None
    try:
        pretty = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        pretty = text
    masked = mask(pretty)
    if len(masked) <= MESSAGE_LENGTH_MAX:
        return masked
    return f"{masked[:MESSAGE_LENGTH_MAX]}\n… {len(masked) - MESSAGE_LENGTH_MAX} more characters"


def _masked(text: str | None, mask: Mask) -> str | None:
    return None if text is None else mask(text)
