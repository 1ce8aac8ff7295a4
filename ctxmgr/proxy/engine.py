"""The contract between the proxy's HTTP server and what shapes its requests. Contract.

    Incoming ─► Engine.prepare ─► Outgoing ─► the provider ─► Engine.answered

The server receives a request, asks ``prepare`` for the bytes to forward, and reports the status and
usage of the provider's answer to ``answered``. An engine never fails because of a request: if it
does not understand one, it returns the client's own bytes, and the reason.

``PassThrough`` forwards every request as it came.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ctxmgr.core.model import Usage


class Api(StrEnum):
    """A provider's API that is understood."""

    ANTHROPIC_MESSAGES = "anthropic-messages"
    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request as the client sent it."""

    api: Api
    path: str
    """Without the query, as in ``/v1/messages/count_tokens``."""
    headers: Mapping[str, str] = field(repr=False)
    """With names in lower case, and without credentials."""
    body: bytes = field(repr=False)
    """Decompressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedText:
    """A text of which a request shows only a part."""

    handle: str
    tool: str
    message: int
    """The index of its message, or of its item, in the request."""
    tokens: int
    """Of the whole text."""
    sent_tokens: int
    planned: bool = False
    """Whether this request shortened it although an earlier one had sent more of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request as it is forwarded."""

    body: bytes = field(repr=False)
    shaped: bool = False
    """Whether ``body`` differs from what the client sent."""
    conversation: str | None = None
    """None for a request that belongs to no conversation, such as the generation of a title."""
    reason: str | None = None
    """Why the request was not shaped."""
    folds: tuple[ShapedText, ...] = ()
    added_headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case. A value is added to those that the client sent, after a comma."""
    baseline_tokens: int = 0
    """About the tokens of the prompt that the client sent."""
    sent_tokens: int = 0
    retrieved_tokens: int = 0
    """Of texts that the model asked back with this request."""
    break_cause: str | None = None
    """Why the provider cannot reuse all of the previous request of the conversation: what changed
    and where, or that the client changed it."""


class Engine(Protocol):
    """Shapes requests. Requests may be prepared concurrently."""

    async def prepare(self, request: Incoming) -> Outgoing:
        """Return what to forward; on any doubt the client's own bytes and the reason."""
        ...

    async def answered(self, conversation: str, *, status: int, usage: Usage | None) -> None:
        """Take note of the provider's answer to the newest request of a conversation.

        Status 400 says that a shaped request was refused, and the client's own bytes, which the
        caller sends once, were not: the conversation is not shaped any more. Never raises.
        """
        ...

    async def stored(self, conversation: str) -> bool:
        """Wait until what was sent of a conversation is stored; return whether it is.

        The caller passes no whole answer on before, so that nothing that a client has received
        depends on a request that a crash could forget. Waits for a bounded time, and never raises.
        """
        ...


class PassThrough:
    """Forwards every request as it came."""

    async def prepare(self, request: Incoming) -> Outgoing:
        return Outgoing(body=request.body, reason="nothing is shaped (record only)")

    async def answered(self, conversation: str, *, status: int, usage: Usage | None) -> None:
        del conversation, status, usage

    async def stored(self, conversation: str) -> bool:
        del conversation
        return True
