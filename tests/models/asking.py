"""Asking a model in tests: one request, and all of its pieces."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from ctxmgr.core.model import Called, Ended, Model, Piece, Request, Said
from ctxmgr.messages import anthropic, openai
from ctxmgr.messages.conversation import Answer
from ctxmgr.models.anthropic import AnthropicModel
from ctxmgr.models.choice import HttpModel
from ctxmgr.models.openai import OpenAIModel
from tests.models.model_server import KEY, ModelServer

READERS: dict[str, Callable[..., Answer]] = {
    "anthropic": anthropic.read_answer,
    "openai": openai.read_answer,
}


def made(api: str, server: ModelServer, **options: Any) -> HttpModel:
    """Return a model that asks the server."""
    kind = {"anthropic": AnthropicModel, "openai": OpenAIModel}[api]
    return kind("scripted-1", key=KEY, base_url=server.base_url(api), **options)


async def pieces_of(model: Model, payload: Any = "Hello?") -> list[Piece]:
    """Ask and wait for the end."""
    request = Request(payload=payload, purpose="test")
    async with aclosing(model.stream(request)) as pieces:
        return [piece async for piece in pieces]


def told(pieces: list[Piece]) -> tuple[str, list[Called], Answer]:
    """The text, the calls, and the answer as a turn takes it."""
    *streamed, ended = pieces
    assert isinstance(ended, Ended)
    text = "".join(piece.text for piece in streamed if isinstance(piece, Said))
    calls = [piece for piece in streamed if isinstance(piece, Called)]
    api = "openai" if "choices" in ended.reply else "anthropic"
    return text, calls, READERS[api](ended.reply, session_id="s", turn=1, unique_ids=False)
