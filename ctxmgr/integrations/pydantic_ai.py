"""A history processor for pydantic-ai: the model sees what a session shows. Commits.

    messages ─► what is new in them is stored ─► the session's prompt, as messages

The framework puts the processed messages in the place of its own. So each of ours carries a mark in
its ``metadata``, which is kept and never sent: whatever has none is new.
"""

from collections.abc import Mapping
from typing import Any, Final

from ctxmgr.core.live_session import LiveSession
from ctxmgr.errors import ExtraMissing
from ctxmgr.integrations import pydantic_ai_messages as read
from ctxmgr.messages.conversation import ToolCallIds

try:
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
except ImportError as error:
    raise ExtraMissing("pydantic-ai", extra="pydantic-ai") from error

MARK: Final = "ctxmgr"


class History:
    """Give ``ProcessHistory(history)`` to an agent as a capability."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._user = ""
        """What is new and unanswered."""
        self._rendered: str | None = None
        """What the user said in the prompt of this turn; None: none was rendered."""
        self._answer: tuple[dict[str, Any], ...] = ()
        self._answered: list[ModelMessage] = []

    async def __call__(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Store what is new, and return the prompt of the next turn."""
        await self._take(messages)
        prompt = await self._session.render(self._user, form="openai")
        self._rendered = self._user
        shown = read.prompt_messages(prompt["messages"])
        for message in shown:
            self._mark(message, user=self._user)
        last, given = shown[-1], messages[-1]
        assert isinstance(last, ModelRequest)
        if isinstance(given, ModelRequest) and (media := read.media(given)):
            last.parts = [*last.parts, UserPromptPart(media)]
        return shown

    async def keep(self, messages: list[ModelMessage]) -> None:
        """Store the end of a run: its last answer, which no prompt has followed yet."""
        await self._take(messages)
        await self._end_turn()

    async def _take(self, messages: list[ModelMessage]) -> None:
        self._user, self._answer, self._answered = "", (), []
        for message in messages:
            known = self._known(message)
            if known is not None:
                self._user = known["user"] if known["turn"] == self._session.turn else ""
            elif isinstance(message, ModelResponse):
                await self._end_turn()
                self._answer = tuple(read.answer_parts(message, self._ids()))
                self._answered = [message]
            else:
                await self._request(message)

    async def _request(self, request: ModelRequest) -> None:
        calls = {part["call_id"]: part for part in self._answer if part["type"] == "toolcall"}
        for result in read.returned(request):
            call = calls.get(result.call_id)
            if call is not None:
                await self._session.record(
                    call["toolcall_id"],
                    tool=call["tool"],
                    args=call["args"],
                    output=result.text,
                    status="ok" if result.ok else "fail",
                )
        if self._answered:
            self._answered.append(request)
            await self._end_turn()
        if system := read.system_text(request):
            await self._session.change_system_prompt(system)
        said = read.user_text(request)
        self._user = "\n\n".join(each for each in (self._user, said) if each)

    async def _end_turn(self) -> None:
        if not self._answered:
            return
        if self._rendered not in (None, self._user):
            await self._session.render(self._user, form="openai")
        await self._session.end_turn(self._answer, user=self._user)
        for message in self._answered:
            self._mark(message, user="")
        self._user, self._rendered, self._answer, self._answered = "", None, (), []

    def _ids(self) -> ToolCallIds:
        turn, taken = self._session.turn, self._session.sets.session_index
        return ToolCallIds(self._session.session_id, turn=turn, unique=False, taken=taken)

    def _known(self, message: ModelMessage) -> Mapping[str, Any] | None:
        mark: Mapping[str, Any] | None = (message.metadata or {}).get(MARK)
        ours = mark is not None and mark["session"] == self._session.session_id
        return mark if ours else None

    def _mark(self, message: ModelMessage, *, user: str) -> None:
        about = {"session": self._session.session_id, "turn": self._session.turn, "user": user}
        message.metadata = {**(message.metadata or {}), MARK: about}
