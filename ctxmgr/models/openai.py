"""A model behind OpenAI's chat completions API, theirs or another server's. Touches the network."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, Self

from ctxmgr.core.documents import Document
from ctxmgr.core.model import Piece, Request
from ctxmgr.errors import Incorrect
from ctxmgr.models.openai_events import OpenAIReading
from ctxmgr.models.streaming import streamed
from ctxmgr.models.transport import SILENCE_S, Transport, host_of

BASE_URL: Final = "https://api.openai.com/v1"


class OpenAIModel:
    """One model. Use it with ``async with``, or close it."""

    form: Final = "openai"
    unique_ids: Final = False
    """Nobody who speaks this API promises it, and many number the calls of each answer anew."""

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
            raise Incorrect(f"{BASE_URL} needs an API key: set OPENAI_API_KEY")
        self.name: Final = name
        # Their newer models refuse the old name, and other servers do not know the new one.
        self._limit = "max_completion_tokens" if own else "max_tokens"
        self._transport = Transport(
            base_url.rstrip("/") + "/chat/completions",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            key=key,
            silence_s=silence_s,
            wait=wait,
        )

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        reading = OpenAIReading(purpose=request.purpose, model=self.name)
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
            self._limit: request.output_tokens_max,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if isinstance(request.payload, str):
            body["messages"] = [{"role": "user", "content": request.payload}]
        else:
            body |= request.payload
        if request.tools:
            body["tools"] = list(request.tools)
        return body
