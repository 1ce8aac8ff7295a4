"""pydantic-ai with the history processor: the real package, with a function as model."""

import re
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessagesTypeAdapter, ModelRetry
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.integrations.pydantic_ai import OUTPUT_CHARS_MAX, History

LOOK = ToolCallPart("look", {"at": "sky"}, "c1")


@pytest.fixture
async def session(client: Client, name: str) -> LiveSession:
    return await client.start(name, system_prompt="You are careful.")


class Scripted:
    """An agent whose model returns these answers and records its requests."""

    def __init__(self, session: LiveSession, *answers: list[Any], **agent: Any) -> None:
        self.requests: list[list[ModelMessage]] = []
        self._answers = iter(answers)
        self.history = History(session)
        model = FunctionModel(self._answer)
        capabilities = [ProcessHistory(self.history)]
        self.agent: Any = Agent(model, capabilities=capabilities, **agent)
        self.agent.tool_plain(_look)

    def text(self, request: int) -> str:
        return "\n".join(str(part) for message in self.requests[request] for part in message.parts)

    def _answer(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        self.requests.append(messages)
        return ModelResponse(parts=next(self._answers))


def _look(at: str) -> str:
    """Look at something."""
    return f"the {at} is blue"


_look.__name__ = "look"


async def test_the_model_sees_the_prompt_of_the_session(session: LiveSession) -> None:
    """The system prompt, the reference to the call and its active output come from the session."""
    scripted = Scripted(session, [LOOK], [TextPart("Blue.")])

    result = await scripted.agent.run("What colour is the sky?")

    assert result.output == "Blue."
    assert "You are careful." in scripted.text(0)
    assert "the sky is blue" in scripted.text(1)
    assert f"id={session.session_id}:1:c1 type=toolcall tool=look status=ok" in scripted.text(1)
    assert isinstance(scripted.requests[1][-1], ModelRequest)


async def test_a_run_is_stored_as_turns(client: Client, session: LiveSession) -> None:
    """After a run any client can resume the session, including its last answer."""
    scripted = Scripted(session, [ThinkingPart("hm"), LOOK], [TextPart("Blue.")])
    result = await scripted.agent.run("What colour is the sky?")

    await scripted.history.keep(result.all_messages())

    first, second = session.chat.turns
    assert first.user == "What colour is the sky?"
    assert first.toolcall_ids == (f"{session.session_id}:1:c1",)
    assert [part["type"] for part in first.assistant] == ["native", "toolcall"]
    assert [part["text"] for part in second.assistant] == ["Blue."]
    assert "the sky is blue" in (await client.prompt_as_of(session.session_id, turn=2)).text()


@pytest.mark.parametrize("kept", [True, False])
async def test_a_second_run_continues_the_first(session: LiveSession, *, kept: bool) -> None:
    """Nothing is repeated, whether or not the end of the first run was stored at once."""
    first = Scripted(session, [TextPart("Hello Anna.")])
    result = await first.agent.run("I am Anna.")
    if kept:
        await first.history.keep(result.all_messages())
    second = Scripted(session, [TextPart("Anna.")])

    await second.agent.run("Who am I?", message_history=result.all_messages())

    assert [turn.user for turn in session.chat.turns] == ["I am Anna."]
    assert second.text(0).count("I am Anna.") == 1
    assert second.text(0).count("Hello Anna.") == 1
    assert "Who am I?" in second.text(0)


async def test_messages_restored_from_json_are_recognised(
    client: Client, session: LiveSession
) -> None:
    """The question is in the messages and in the store, and must appear once."""
    first = Scripted(session, [TextPart("Hello.")])
    result = await first.agent.run("I am Anna.")
    await client.pause(session.session_id)
    messages = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    again = await client.resume(session.session_id)
    second = Scripted(again, [TextPart("Anna.")])

    await second.agent.run("Who am I?", message_history=messages)

    assert [turn.user for turn in again.chat.turns] == ["I am Anna."]


async def test_messages_of_another_history_are_stored(session: LiveSession) -> None:
    """A program can start to use ctxmgr in the middle of a conversation."""
    past = [
        ModelRequest(parts=[UserPromptPart("I am Anna.")]),
        ModelResponse(parts=[TextPart("Hello Anna.")]),
    ]
    scripted = Scripted(session, [TextPart("Anna.")])

    await scripted.agent.run("Who am I?", message_history=past)

    assert [turn.user for turn in session.chat.turns] == ["I am Anna."]
    assert "Hello Anna." in scripted.text(0)


async def test_the_agents_own_system_prompt_becomes_the_sessions(session: LiveSession) -> None:
    """The prompt that the agent was built with must not be lost."""
    scripted = Scripted(session, [TextPart("Yes.")], system_prompt="You are bold.")

    await scripted.agent.run("Are you?")

    assert "You are bold." in scripted.text(0)
    assert "You are careful." not in scripted.text(0)


async def test_media_are_sent_in_their_own_turn(session: LiveSession) -> None:
    """The session stores text; later turns contain only the kind of a medium."""
    scripted = Scripted(session, [LOOK], [TextPart("A bird.")])

    await scripted.agent.run(["What is it?", ImageUrl("https://example.org/bird.png")])

    assert "bird.png" in scripted.text(0)
    assert "bird.png" not in scripted.text(1)
    assert "[image-url]" in scripted.text(1)


async def test_a_folded_output_can_be_fetched_back(session: LiveSession) -> None:
    """It was shown as ``toolcall_ref id=…``, which nothing explained and nothing could open."""
    requests: list[str] = []
    told: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told.append(str(info.instructions))
        requests.append("\n".join(str(part) for message in messages for part in message.parts))
        if len(requests) == 1:
            return ModelResponse(parts=[LOOK])
        folded = re.search(r"toolcall_ref id=(\S+) tool=look", requests[-1])
        if folded is None or "the sky is blue" in requests[-1]:
            return ModelResponse(parts=[TextPart("go on")])
        return ModelResponse(parts=[ToolCallPart("show_output", {"id": folded[1]}, "c2")])

    history = History(session)
    agent: Any = Agent(
        FunctionModel(answer),
        capabilities=[ProcessHistory(history)],
        toolsets=[history.toolset],
    )
    agent.tool_plain(_look)
    messages: list[ModelMessage] = []
    while not any("the sky is blue" not in request for request in requests[1:]):
        assert len(requests) < 20, "the output is never folded"
        messages = (await agent.run("and now?", message_history=messages)).all_messages()

    folded_at = next(n for n, text in enumerate(requests) if n and "the sky is blue" not in text)
    assert "the sky is blue" in requests[folded_at + 1]
    assert "show_output" in told[0]


async def test_an_unknown_output_is_an_answer_for_the_model(session: LiveSession) -> None:
    """Models invent ids; the run goes on."""
    with pytest.raises(ModelRetry, match="nothing"):
        await History(session).show_output("nothing")


async def test_a_long_output_is_returned_in_parts(session: LiveSession) -> None:
    """An output of a megabyte would not fit into any prompt."""
    text = "x" * OUTPUT_CHARS_MAX + "end"
    await session.record("c9", tool="look", args={}, output=text, discover=False)
    history = History(session)

    assert (await history.show_output("c9")).endswith(f"call again with start={OUTPUT_CHARS_MAX}]")
    assert await history.show_output("c9", start=OUTPUT_CHARS_MAX) == "end"
