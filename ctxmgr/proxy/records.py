"""The documents in which conversations are stored. Pure.

    proxy_session:GROUP            the conversations of one session of a client, oldest first
    proxy_conversation:ID          what it is shaped by; never changes
    proxy_step:ID:NUMBER           what one request added: hashes of messages, what was sent instead
    proxy_text:ID:HANDLE           the whole of a text that was shortened

Messages are not stored: the client sends them again with every request. Steps form a chain, as turn
records do: each holds what is new since the one before. Documents of a newer format are refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ctxmgr.core.economy.folding import TextView
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.economy.stream_state import StreamState
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Corrupt, Incorrect
from ctxmgr.proxy.conversation import Kept, Replaced, Terms
from ctxmgr.proxy.modes import Shaping
from ctxmgr.proxy.retrieval import WholeText

FORMAT: Final = 1

OPENING_FORMAT: Final = 2
"""Of a conversation with an opening, which earlier versions would leave out."""

CONVERSATIONS_KEPT: Final = 32
"""Conversations that the document of a session lists; older ones stay stored."""


def session_id(group: str) -> str:
    return f"proxy_session:{group}"


def session_document(group: str, conversations: Sequence[str]) -> Document:
    return {
        "xt/id": session_id(group),
        "type": "proxy_session",
        "format": FORMAT,
        "conversations": list(conversations[-CONVERSATIONS_KEPT:]),
    }


def conversation_id(conversation: str) -> str:
    return f"proxy_conversation:{conversation}"


def terms_document(conversation: str, terms: Terms, *, group: str, parent: str | None) -> Document:
    return {
        "xt/id": conversation_id(conversation),
        "type": "proxy_conversation",
        "format": OPENING_FORMAT if terms.opening else FORMAT,
        "group": group,
        "parent": parent,
        "shaping": str(terms.shaping),
        "policy": terms.policy.to_value(),
        "tool": terms.tool.decode(),
        "excluded": sorted(terms.excluded),
        "first_handle": terms.first_handle,
        **({"opening": terms.opening} if terms.opening else {}),
    }


def read_terms(document: Document) -> tuple[Terms, str | None]:
    """Return the terms of a conversation and the conversation before it."""
    if document.get("format") != OPENING_FORMAT:
        _check_format(document)
    try:
        terms = Terms(
            shaping=Shaping(document["shaping"]),
            policy=Economy.from_value(document["policy"]),
            tool=str(document["tool"]).encode(),
            excluded=frozenset(document["excluded"]),
            first_handle=int(document["first_handle"]),
            opening=str(document.get("opening", "")),
        )
        parent = document["parent"]
    except (KeyError, TypeError, ValueError, Incorrect) as error:
        raise Corrupt(f"{document['xt/id']} cannot be read: {error}") from error
    return terms, parent if isinstance(parent, str) else None


def step_id(conversation: str, number: int) -> str:
    return f"proxy_step:{conversation}:{number}"


def step_document(conversation: str, number: int, step: Mapping[str, Any]) -> Document:
    return {
        "xt/id": step_id(conversation, number),
        "type": "proxy_step",
        "format": FORMAT,
        "conversation": conversation,
        **step,
    }


def joined(documents: Iterable[Document]) -> Kept:
    """Return what a chain of steps says, oldest first."""
    kept, streams = Kept(), list[Mapping[str, Any]]()
    for document in documents:
        _check_format(document)
        try:
            kept.chain += map(str, document["chain"])
            kept.tokens += map(int, document["tokens"])
            for key, view in document["views"].items():
                _set(kept.views, key, None if view is None else TextView.from_value(view))
            for key, value in document["replaced"].items():
                _set(kept.replaced, key, None if value is None else Replaced(*value))
            kept.retrieved |= document["retrieved"]
            kept.model = str(document["model"])
            kept.drops_thinking = bool(document["drops_thinking"])
            kept.unshaped = str(document["unshaped"])
            kept.explained = str(document["explained"])
            kept.next_handle = int(document["next_handle"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Corrupt(f"{document['xt/id']} cannot be read: {error}") from error
        streams.append(document["stream"])
        kept.steps += 1
    try:
        kept.state = StreamState.joined(streams)
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"the state of a conversation cannot be read: {error}") from error
    kept.sent_at = kept.state.sent_at if kept.state is not None else 0.0
    return kept


def text_id(conversation: str, handle: str) -> str:
    return f"proxy_text:{conversation}:{handle.lstrip('#')}"


def text_document(conversation: str, handle: str, text: WholeText) -> Document:
    return {
        "xt/id": text_id(conversation, handle),
        "type": "proxy_text",
        "format": FORMAT,
        "conversation": conversation,
        "handle": handle,
        **text.to_value(),
    }


def read_text(document: Document) -> WholeText:
    _check_format(document)
    try:
        return WholeText(
            tool=str(document["tool"]),
            args={str(name): str(text) for name, text in document["args"].items()},
            output=str(document["output"]),
            first_line=int(document["first_line"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(f"{document['xt/id']} cannot be read: {error}") from error


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _check_format(document: Document) -> None:
    if document.get("format") != FORMAT:
        raise Corrupt(
            f"{document['xt/id']} has the format {document.get('format')!r:.20}, but this version"
            f" reads {FORMAT}; use the version of ctxmgr that wrote it"
        )
