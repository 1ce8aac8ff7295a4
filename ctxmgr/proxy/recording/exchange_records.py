"""Exchanges as they are stored: each has what is new in it, and refers to the one before. Pure.

    proxy_exchange:{session}:{n}    the n-th exchange of a session

A request repeats all earlier messages, so storing it whole would make a session grow with the
square of its length. A side of a record (``received``, and ``sent`` if it differs) has the number
of messages that are the same, byte for byte, as in the exchange before, and those that follow; the
frame is left out if it is the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ctxmgr.core.model import to_value
from ctxmgr.core.objects.envelope import EXCHANGE, exchange_id
from ctxmgr.core.store.documents import ID, KIND, Document, storable
from ctxmgr.errors import Corrupt
from ctxmgr.proxy.engine import ShapedText
from ctxmgr.proxy.recording.request_parts import RequestParts
from ctxmgr.proxy.server.accounting import RequestAccount
from ctxmgr.proxy.server.exchange import ProxiedExchange

RECORD_BYTES_MAX: Final = 12 * 1024 * 1024
"""Of new messages in one record: less than a document may have."""

TOO_LARGE: Final = "[not stored: too large]"


@dataclass(frozen=True, slots=True)
class RequestText:
    """A request as a record has it: the frame and one text for each message."""

    frame: str = field(default="", repr=False)
    messages: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, parts: RequestParts | None) -> "RequestText":
        return cls() if parts is None else cls(parts.frame, parts.messages)

    def since(self, before: "RequestText") -> Document:
        """Return what a record stores of this request after another one."""
        kept = 0
        for mine, other in zip(self.messages, before.messages, strict=False):
            if mine != other:
                break
            kept += 1
        new = self.messages[kept:]
        if sum(map(len, new)) > RECORD_BYTES_MAX // 2:
            new = tuple(TOO_LARGE if len(text) > RECORD_BYTES_MAX // 64 else text for text in new)
        same = self.frame == before.frame
        return {"frame": None if same else self.frame, "kept": kept, "messages": list(new)}

    def after(self, stored: object) -> "RequestText":
        """Return the request that a record after this one stores."""
        match stored:
            case {"frame": str() | None as frame, "kept": int(kept), "messages": list(new)}:
                messages = (*self.messages[:kept], *map(str, new))
                return RequestText(self.frame if frame is None else frame, messages)
            case _:
                raise Corrupt(f"a request that was not stored as one: {stored!r:.80}")


def exchange_document(
    exchange: ProxiedExchange,
    *,
    session_id: str,
    number: int,
    turn: int,
    received: Document,
    sent: Document | None,
    answer: str,
    account: RequestAccount | None,
    before: Iterable[ShapedText] = (),
) -> Document:
    """Return the record of an exchange; ``before`` is what the one before showed in part."""
    outgoing = exchange.outgoing
    document: Document = {
        ID: exchange_id(session_id, number=number),
        KIND: EXCHANGE,
        "session": session_id,
        "n": number,
        "turn": turn,
        "api": str(exchange.api),
        "provider": str(exchange.provider),
        "model": exchange.model,
        "began": exchange.began_ms,
        "ended": exchange.ended_ms,
        "prepare_ms": round(exchange.prepare_seconds * 1_000, 2),
        "first_byte_ms": (
            None
            if exchange.first_byte_seconds is None
            else round(exchange.first_byte_seconds * 1_000, 1)
        ),
        "status": exchange.status,
        "whole": exchange.whole,
        "shaped": outgoing.shaped,
        "reason": outgoing.reason,
        "refused": exchange.refused,
        "folds": [asdict(fold) for fold in _new_folds(outgoing.folds, before)],
        "folds_total": len(outgoing.folds),
        "usage": None if exchange.usage is None else to_value(exchange.usage),
        "baseline_tokens": outgoing.baseline_tokens,
        "sent_tokens": outgoing.sent_tokens,
        "retrieved_tokens": outgoing.retrieved_tokens,
        "billed": None if account is None else round(account.billed, 1),
        "baseline": None if account is None else round(account.baseline, 1),
        "lost": None if account is None or account.lost is None else asdict(account.lost),
        "received": received,
        "sent": sent,
        "answer": answer,
    }
    stored: Document = storable(document)
    return stored


def _new_folds(folds: Iterable[ShapedText], before: Iterable[ShapedText]) -> list[ShapedText]:
    """Return what is shown in part for the first time, or otherwise than before."""
    known = {(fold.handle, fold.message, fold.sent_tokens) for fold in before}
    return [
        fold
        for fold in folds
        if fold.planned or (fold.handle, fold.message, fold.sent_tokens) not in known
    ]


def rebuilt(
    documents: Sequence[Mapping[str, Any]],
) -> Iterable[tuple[RequestText, RequestText]]:
    """Yield each exchange's requests, as received and as sent, from the records in their order."""
    received, sent = RequestText(), RequestText()
    for document in documents:
        received = received.after(document.get("received"))
        stored = document.get("sent")
        sent = received if stored is None else sent.after(stored)
        yield received, sent
