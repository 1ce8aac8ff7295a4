"""Requests to a model in tests, and the parts of its answers."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from ctxmgr.core.model import AnswerDone, AnswerPart, Model, Request, TextDelta, ToolUse
from ctxmgr.messages import anthropic, openai
from ctxmgr.messages.answers import Answer
from ctxmgr.models.anthropic import AnthropicModel
from ctxmgr.models.open_model import HttpModel
from ctxmgr.models.openai import OpenAIModel
from tests.models.model_server import KEY, ModelServer

READERS: dict[str, Callable[..., Answer]] = {
    "anthropic": anthropic.read_answer,
    "openai": openai.read_answer,
}


def make_model(api: str, server: ModelServer, **options: Any) -> HttpModel:
    """Return a model that sends its requests to the server."""
    kind = {"anthropic": AnthropicModel, "openai": OpenAIModel}[api]
    return kind("scripted-1", key=KEY, base_url=server.base_url(api), **options)


async def stream_parts(model: Model, payload: Any = "Hello?") -> list[AnswerPart]:
    """Send a request and return all parts of the answer."""
    request = Request(payload=payload, purpose="test")
    async with aclosing(model.stream(request)) as parts:
        return [part async for part in parts]


def read_parts(parts: list[AnswerPart]) -> tuple[str, list[ToolUse], Answer]:
    """Return the text, the calls, and the answer in the form that a turn takes."""
    *streamed, done = parts
    assert isinstance(done, AnswerDone)
    text = "".join(part.text for part in streamed if isinstance(part, TextDelta))
    calls = [part for part in streamed if isinstance(part, ToolUse)]
    api = "openai" if "choices" in done.reply else "anthropic"
    return text, calls, READERS[api](done.reply, session_id="s", turn=1, unique_ids=False)
