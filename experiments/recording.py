"""A model that keeps what it was sent. Asks the model behind it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ctxmgr.core.model import Ended, Model, Piece, Request


class Recording:
    """Stands for the model under test, and changes nothing."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.form, self.unique_ids = model.name, model.form, model.unique_ids
        self.received: list[Any] = []
        """The prompt of every whole answer, in their order."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        async with aclosing(self._model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Ended):
                    self.received.append(request.payload)
                yield piece
