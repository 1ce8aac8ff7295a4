"""A history processor for pydantic-ai: the model sees the prompt of a session. Commits.

    messages ─► the new ones are stored as turns ─► the session's prompt, as messages

    ModelResponse   the parts of an answer: text and tool calls; thinking is stored but not shown
    ModelRequest    the user's text, and the results of tools
    prompt          requests and responses, divided as in the openai form

Older outputs are shown as one line; ``History.toolset`` gives the model a tool that returns them.

pydantic-ai replaces its messages with the processed ones. Ours therefore carry a mark in their
``metadata``, which is kept and never sent: a message without the mark is new.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from ctxmgr import ExtraMissing, Incorrect, LiveSession, NotFound
from ctxmgr.core.store.documents import Document, storable
from ctxmgr.messages.answers import ToolCallIds, read_call

try:
    from pydantic_ai import FunctionToolset, ModelRetry
    from pydantic_ai import messages as ai
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
except ImportError as error:
    raise ExtraMissing(extra="pydantic-ai") from error

API: Final = "pydantic-ai"
MARK: Final = "ctxmgr"

OUTPUT_CHARS_MAX: Final = 50_000
"""Of an earlier output that one call returns; some 12,000 tokens."""

INSTRUCTIONS: Final = (
    "Outputs of earlier tool calls may be shortened to one line such as `toolcall_ref id=… "
    "status=ok`. Nothing is lost: `show_output` with that id returns the output."
)

_PART: Final = TypeAdapter[Any](ai.ModelResponsePart)


class History:
    """A history processor for one session: give ``ProcessHistory(history)`` to an agent."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._user = ""
        """User text that is new and unanswered."""
        self._rendered: str | None = None
        """The user text in this turn's prompt; None if no prompt was rendered."""
        self._answer: tuple[dict[str, Any], ...] = ()
        self._answered: list[ModelMessage] = []
        """The new messages of the answer, to be marked when the turn is stored."""

    @property
    def toolset(self) -> FunctionToolset[Any]:
        """The tool that returns outputs which the prompt shows as one line, for ``toolsets=``."""
        return FunctionToolset([self.show_output], instructions=INSTRUCTIONS)

    async def show_output(self, id: str, start: int = 0) -> str:  # noqa: A002 (as the line has it)
        """Return the output of an earlier tool call.

        Args:
            id: The id of the tool call, as in `toolcall_ref id=…`.
            start: The first character, if the output is long.
        """
        try:
            call = await self._session.call_with_handle(id)
        except (Incorrect, NotFound) as error:
            raise ModelRetry(str(error)) from error
        content, first = call.content or "", max(0, start)
        shown = content[first : first + OUTPUT_CHARS_MAX]
        rest = len(content) - first - len(shown)
        if rest <= 0:
            return shown
        return f"{shown}\n[{rest} more characters: call again with start={first + len(shown)}]"

    async def __call__(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Store the new messages and return the prompt of the next turn."""
        await self._store_new(messages)
        payload = await self._session.render(self._user, form="openai")
        self._rendered = self._user
        prompt = _prompt_messages(payload["messages"])
        for message in prompt:
            self._set_mark(message, user=self._user)
        last, latest = prompt[-1], messages[-1]
        assert isinstance(last, ModelRequest)
        if isinstance(latest, ModelRequest):
            texts_and_media = (
                content
                for part in latest.parts
                if isinstance(part, UserPromptPart)
                for content in _contents(part)
            )
            media = [content for content in texts_and_media if not isinstance(content, str)]
            if media:
                last.parts = [*last.parts, UserPromptPart(media)]
        return prompt

    async def keep(self, messages: list[ModelMessage]) -> None:
        """Store the end of a run: its last answer, which no prompt followed."""
        await self._store_new(messages)
        await self._end_turn()

    async def _store_new(self, messages: list[ModelMessage]) -> None:
        self._user, self._answer, self._answered = "", (), []
        for message in messages:
            mark = (message.metadata or {}).get(MARK)
            if mark is not None and mark["session"] == self._session.session_id:
                self._user = mark["user"] if mark["turn"] == self._session.turn else ""
            elif isinstance(message, ModelResponse):
                await self._end_turn()
                turn, taken = self._session.turn, self._session.sets.session_index
                session_id = self._session.session_id
                ids = ToolCallIds(session_id, turn=turn, unique=False, taken=taken)
                self._answer = tuple(_answer_parts(message, ids))
                self._answered = [message]
            else:
                await self._store_request(message)

    async def _store_request(self, request: ModelRequest) -> None:
        calls = {part["call_id"]: part for part in self._answer if part["type"] == "toolcall"}
        for part in request.parts:
            if isinstance(part, ai.ToolReturnPart) and part.tool_call_id in calls:
                call = calls[part.tool_call_id]
                await self._session.record(
                    call["toolcall_id"],
                    tool=call["tool"],
                    args=call["args"],
                    output=storable(part.model_response_str()),
                    status="ok" if part.outcome == "success" else "fail",
                )
        if self._answered:
            self._answered.append(request)
            await self._end_turn()
        systems = (part.content for part in request.parts if isinstance(part, ai.SystemPromptPart))
        if system := "\n\n".join(systems):
            await self._session.change_system_prompt(system)
        self._user = "\n\n".join(text for text in (self._user, _user_text(request)) if text)

    async def _end_turn(self) -> None:
        if not self._answered:
            return
        if self._rendered not in (None, self._user):
            await self._session.render(self._user, form="openai")
        await self._session.end_turn(self._answer, user=self._user)
        for message in self._answered:
            self._set_mark(message, user="")
        self._user, self._rendered, self._answer, self._answered = "", None, (), []

    def _set_mark(self, message: ModelMessage, *, user: str) -> None:
        mark = {"session": self._session.session_id, "turn": self._session.turn, "user": user}
        message.metadata = {**(message.metadata or {}), MARK: mark}


def _answer_parts(response: ModelResponse, ids: ToolCallIds) -> Iterator[Document]:
    for part in response.parts:
        if isinstance(part, ai.TextPart):
            yield {"type": "text", "text": storable(part.content)}
        elif isinstance(part, ai.ToolCallPart):
            args = storable(part.args_as_dict())
            yield read_call(part.tool_call_id, name=part.tool_name, args=args, ids=ids)
        else:
            block = storable(_PART.dump_python(part, mode="json"))
            yield {"type": "native", "api": API, "block": block}


def _user_text(request: ModelRequest) -> str:
    """Return the text for the model that no tool returned. Media are replaced by their kind."""
    texts: list[str] = []
    for part in request.parts:
        if isinstance(part, UserPromptPart):
            for content in _contents(part):
                kind = getattr(content, "kind", type(content).__name__)
                texts.append(content if isinstance(content, str) else f"[{kind}]")
        elif isinstance(part, ai.RetryFeedbackPart):
            texts.append(part.model_response())
    text: str = storable("\n".join(texts))
    return text


def _contents(part: UserPromptPart) -> Iterable[ai.UserContent]:
    return [part.content] if isinstance(part.content, str) else part.content


def _prompt_messages(messages: Iterable[Mapping[str, Any]]) -> list[ModelMessage]:
    """Convert a prompt in the openai form; the last message is a request."""
    prompt: list[ModelMessage] = []
    tools: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            parts: list[ai.ModelResponsePart] = []
            if message["content"]:
                parts.append(ai.TextPart(message["content"]))
            for call in message.get("tool_calls", ()):
                function = call["function"]
                args = json.loads(function["arguments"])
                parts.append(ai.ToolCallPart(function["name"], args, call["id"]))
            response = ModelResponse(parts=parts)
            tools |= {call.tool_call_id: call.tool_name for call in response.tool_calls}
            prompt.append(response)
        elif prompt and isinstance(prompt[-1], ModelRequest):
            prompt[-1].parts = [*prompt[-1].parts, _request_part(message, tools)]
        else:
            prompt.append(ModelRequest(parts=[_request_part(message, tools)]))
    return prompt


def _request_part(message: Mapping[str, Any], tools: Mapping[str, str]) -> ai.ModelRequestPart:
    content = message["content"]
    match message["role"]:
        case "tool":
            call_id = message["tool_call_id"]
            return ai.ToolReturnPart(tools[call_id], content, call_id)
        case "system":
            return ai.SystemPromptPart(content)
        case _:
            return UserPromptPart(content)
