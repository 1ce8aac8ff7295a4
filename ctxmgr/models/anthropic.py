"""A model behind Anthropic's Messages API, theirs or another server's. Touches the network."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, Self

from ctxmgr.core.documents import Document
from ctxmgr.core.model import Piece, Request
from ctxmgr.errors import Incorrect
from ctxmgr.models.anthropic_events import AnthropicReading
from ctxmgr.models.streaming import streamed
from ctxmgr.models.transport import SILENCE_S, Transport, host_of

BASE_URL: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
"""Of the API: what its events and fields mean."""


class AnthropicModel:
    """One model. Use it with ``async with``, or close it."""

    form: Final = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        key: str | None,
        base_url: str = BASE_URL,
        silence_s: float = SILENCE_S,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        own = host_of(base_url) == host_of(BASE_URL)
        if own and not key:
            raise Incorrect(f"{BASE_URL} needs an API key: set ANTHROPIC_API_KEY")
        self.name: Final = name
        self.unique_ids: Final = own
        headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
        self._transport = Transport(
            _address(base_url), headers=headers, key=key, silence_s=silence_s, wait=wait
        )

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        reading = AnthropicReading(purpose=request.purpose, model=self.name)
        return streamed(self._transport.events(self._body(request)), reading)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _body(self, request: Request) -> Document:
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": request.output_tokens_max,
            "stream": True,
        }
        if isinstance(request.payload, str):
            body["messages"] = [{"role": "user", "content": request.payload}]
        else:
            body |= {name: value for name, value in request.payload.items() if value}
        if request.tools:
            body["tools"] = list(request.tools)
        return body


def _address(base_url: str) -> str:
    """Say where requests go; people write the base with and without the version."""
    return base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
