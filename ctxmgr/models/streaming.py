"""What both model APIs share in reading a streamed answer event by event. Touches nothing.

``StreamedAnswer`` is implemented once per API. An event that cannot be read, or a stream that ends
early, raises ``AnswerLost``: a partial answer is never returned as a complete one.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ctxmgr.core.model import AnswerDone, AnswerPart, TextDelta, ToolUse
from ctxmgr.errors import AnswerLost

M = TypeVar("M", bound="WireEvent")


class WireEvent(BaseModel):
    """An event from a server, or part of one. Unknown fields are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class StreamedAnswer(Protocol):
    """An answer that is assembled from the events of a stream."""

    @property
    def complete(self) -> bool:
        """Whether the rest of the stream can be ignored."""
        ...

    def feed(self, data: str) -> Iterator[TextDelta | ToolUse]:
        """Add an event and yield its parts.

        ``AnswerLost`` if the server reports an error or the event cannot be read.
        """
        ...

    def result(self) -> AnswerDone:
        """Return the complete answer; ``AnswerLost`` if events are missing."""
        ...


async def stream_answer(
    events: AsyncGenerator[str, None], answer: StreamedAnswer
) -> AsyncGenerator[AnswerPart, None]:
    """Yield the parts of an answer as they arrive, and the complete answer last."""
    async with aclosing(events):
        async for data in events:
            for part in answer.feed(data):
                yield part
            if answer.complete:
                break
    yield answer.result()


def parse_event(data: str) -> dict[str, Any]:
    """Parse the data of an event; ``AnswerLost`` unless it is a JSON object."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AnswerLost(f"the model's server sent invalid JSON: {data!r:.200}") from error
    if not isinstance(value, dict):
        raise AnswerLost(f"the model's server sent JSON that is not an object: {data!r:.200}")
    return value


def validate(kind: type[M], value: dict[str, Any]) -> M:
    """Validate an event against its model; ``AnswerLost`` names the field that is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        message = f"the model's server sent an invalid event: {field}: {first['msg']}"
        raise AnswerLost(message) from error


def parse_arguments(text: str) -> dict[str, Any] | str:
    """Parse a tool call's arguments; text that is not a JSON object is returned unchanged."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
