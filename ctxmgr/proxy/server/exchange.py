"""One request and its answer, as they passed through the proxy. Pure.

Nothing here holds credentials: headers are those without them, and bodies carry none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ctxmgr.core.model import Usage
from ctxmgr.proxy.engine import Api, Outgoing
from ctxmgr.proxy.server.accounting import RequestAccount
from ctxmgr.proxy.server.providers import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedExchange:
    """A request of an API that is understood, and what was answered."""

    provider: Provider
    api: Api
    path: str
    headers: Mapping[str, str] = field(repr=False)
    """Of the request, without credentials."""
    received: bytes = field(repr=False)
    """The request as the client sent it, decompressed."""
    outgoing: Outgoing = field(repr=False)
    """The request as it went out, after a refusal of a shaped one as well."""
    refused: str | None
    """What the provider answered to the shaped request, if it refused it."""
    status: int | None
    """None if the provider did not answer."""
    answer: bytes = field(repr=False)
    """Decompressed; a stream as it came."""
    streamed: bool
    whole: bool
    """Whether the answer ended, and ``answer`` is all of it."""
    model: str | None
    """The one that answered, if the answer names it."""
    usage: Usage | None
    began_ms: int
    """UTC milliseconds, when the request had arrived."""
    ended_ms: int
    prepare_seconds: float
    first_byte_seconds: float | None
    """From the whole request to the first byte of the answer's body."""


class ExchangeSink(Protocol):
    """Takes note of exchanges after they ended."""

    def put(self, exchange: ProxiedExchange, account: RequestAccount | None) -> None:
        """Accept an exchange at once; it is stored later, or reported as not recorded."""
        ...
