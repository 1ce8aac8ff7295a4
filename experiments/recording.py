"""A model that records the prompts it receives. Delegates to another model."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ctxmgr.core.model import AnswerDone, AnswerPart, Model, Request


class Recording:
    """Wraps the model under test without changing its answers."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.form, self.unique_ids = model.name, model.form, model.unique_ids
        self.received: list[Any] = []
        """The prompt of every complete answer, in order."""

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        async with aclosing(self._model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, AnswerDone):
                    self.received.append(request.payload)
                yield piece
