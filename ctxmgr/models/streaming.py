"""From the events of an answer to its pieces; the same for every API. Touches nothing.

Reading    one API's way of putting an answer together, event by event
streamed   events ─► pieces ─► Ended; whatever cannot be read makes the answer lost
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ctxmgr.core.model import Called, Ended, Piece, Said
from ctxmgr.errors import AnswerLost

M = TypeVar("M", bound="Wire")


class Wire(BaseModel):
    """Something a server sent. It may hold more than we know of."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Reading(Protocol):
    """An answer under construction."""

    @property
    def over(self) -> bool:
        """Nothing more that matters can come."""
        ...

    def feed(self, data: str) -> Iterator[Said | Called]:
        """Take one event. ``AnswerLost`` if the server reports an error or cannot be understood."""
        ...

    def ended(self) -> Ended:
        """Give the whole answer; ``AnswerLost`` if it is none."""
        ...


async def streamed(
    events: AsyncGenerator[str, None], reading: Reading
) -> AsyncGenerator[Piece, None]:
    """Give the pieces of an answer as they come, and at last the answer."""
    async with aclosing(events):
        async for data in events:
            for piece in reading.feed(data):
                yield piece
            if reading.over:
                break
    yield reading.ended()


def parsed(data: str) -> dict[str, Any]:
    """Read an event's data."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AnswerLost(f"the model's server sent no JSON: {data!r:.200}") from error
    if not isinstance(value, dict):
        raise AnswerLost(f"the model's server sent no JSON object: {data!r:.200}")
    return value


def checked(kind: type[M], value: dict[str, Any]) -> M:
    """Read what must have a shape."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise AnswerLost(f"the model's server sent a bad event: {where}: {first['msg']}") from error


def arguments(text: str) -> dict[str, Any] | str:
    """Read a call's arguments; what a model wrote that is no JSON object stays as it is."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
