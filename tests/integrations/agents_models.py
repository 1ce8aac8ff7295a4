"""A scripted model for the OpenAI Agents SDK that records its requests."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class ScriptedModel(Model):
    """Returns one scripted output for each request."""

    def __init__(self, outputs: Iterable[Any]) -> None:
        self._outputs = iter(outputs)
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        self.inputs.append(input)
        return ModelResponse(output=[next(self._outputs)], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def says(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m", content=[content], role="assistant", status="completed", type="message"
    )


def calls(tool: str, arguments: str, *, call_id: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        call_id=call_id, name=tool, arguments=arguments, type="function_call"
    )
