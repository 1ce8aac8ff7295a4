"""The agent loop in a real sandbox, on both stores, against a scripted model of both APIs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.client.tools import INTERRUPTED, Tools
from ctxmgr.core.model import Usage
from ctxmgr.errors import AnswerLost, Denied, Incorrect
from ctxmgr.harness.loop import ANSWERS_MAX, LoopOutcome
from ctxmgr.harness.loop_events import AnswerRestarted, ToolRan, TurnEnded, TurnStarted
from tests.journeys.runs import Fifo, workplace
from tests.models.model_server import APIS, ModelServer, breaks, refuse, says
from tests.models.wire import Call, Text

WRITE = Call("bash", {"command": "seq -s: 3 > answer; ls"})
READ = Call("read", {"path": "answer"})
DONE = says(Text("It says 123."))
SECONDS = 60


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.mark.parametrize("api", APIS)
async def test_a_model_works_turn_by_turn(
    server: ModelServer, store_url: str, sid: str, project: Path, api: str
) -> None:
    """003-R001, 003-R180: tool results are in the next prompt, and every turn is stored."""
    server.script(says(Text("First."), WRITE), says(READ), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project, api=api) as place:
        worked = await place.work("What is the answer?")
        prompt = await place.client.prompt_as_of(sid, turn=3)

    assert (worked.outcome, worked.answer) == (LoopOutcome.DONE, "It says 123.")
    assert (project / "answer").read_text(encoding="utf-8") == "1:2:3\n"
    assert ["1:2:3" in request.text for request in server.requests] == [False, False, True]
    assert "path=/workspace/answer file_type= char_count=6" in prompt.text()
    assert worked.ledger.calls == 3


@pytest.mark.parametrize("api", APIS)
async def test_repeated_call_ids_are_distinct_calls(
    server: ModelServer, store_url: str, sid: str, project: Path, api: str
) -> None:
    """003-A20: small models reuse call ids in every answer."""
    server.script(says(WRITE, READ), says(READ), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project, api=api) as place:
        await place.work()
        ids = [turn.toolcall_ids for turn in place.session.chat.turns]

    assert ids == [(f"{sid}:1:call_0", f"{sid}:1:call_0.2"), (f"{sid}:2:call_0",), ()]


async def test_events_report_the_progress_of_a_run(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """The terminal, the demo and tests all use the same events."""
    server.script(says(WRITE), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        await place.work()

    began, *_ = place.events
    finished = [event for event in place.events if isinstance(event, TurnEnded)]
    assert began == TurnStarted(turn=1)
    assert [event.ok for event in place.events if isinstance(event, ToolRan)] == [True]
    assert [event.tools for event in finished] == [("bash",), ()]
    assert finished[0].levels == {"active": 1, "metadata": 2, "indexed": 0, "pinned": 0}
    assert finished[1].sections.keys() == {
        *("system_prompt", "metadata_pool", "chat", "active_content"),
    }
    assert finished[1].charge.usage == Usage(
        input_tokens=40, cache_read_tokens=60, cache_written_tokens=5, output_tokens=7
    )


async def test_a_truncated_answer_is_requested_again(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """None of it is stored, none of its tools run, and the user is informed."""
    server.script(breaks(says(Text("Hm"), WRITE), after=7, then="cut"), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        worked = await place.work()
        chat = place.session.chat

    assert worked.answer == "It says 123."
    assert [turn.assistant[0]["text"] for turn in chat.turns] == ["It says 123."]
    assert sum(isinstance(event, AnswerRestarted) for event in place.events) == 1
    assert not (project / "answer").exists()


async def test_a_connection_that_always_breaks_is_an_error(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """The run stops in the stored state; resuming loses nothing."""
    cut = breaks(DONE, after=4, then="end")
    server.script(says(WRITE), *[cut] * ANSWERS_MAX, DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        with pytest.raises(AnswerLost):
            await place.work()
    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        worked = await place.work("")

    assert (worked.turns[0].turn, worked.answer) == (2, "It says 123.")


async def test_the_number_of_turns_is_limited(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """A model that loops is stopped, and its turns are complete."""
    server.script(*[says(READ)] * 4)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        worked = await place.work(max_turns=3)
        with pytest.raises(Incorrect, match="max_turns must be at least 1"):
            await place.work(max_turns=0)

    assert worked.outcome is LoopOutcome.MAX_TURNS
    assert len(worked.turns) == len(place.session.chat.turns) == 3


@pytest.mark.parametrize("ending", [("max_tokens", "length"), ("refusal", "refused")])
async def test_an_answer_cut_by_the_provider_is_not_reported_as_done(
    server: ModelServer, store_url: str, sid: str, project: Path, ending: tuple[str, str]
) -> None:
    """A truncated answer must not look complete."""
    stop, outcome = ending
    server.script(says(Text("Well, I"), stop=stop))

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        worked = await place.work()

    assert (worked.outcome, worked.answer) == (outcome, "Well, I")


async def test_mistakes_of_a_model_are_reported_to_the_model(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """PG-10, X-C21: unknown tools and invalid arguments are outcomes, not exceptions."""
    server.script(says(Call("fly", {"to": "moon"}), Call("read", {"file": "answer"})), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        worked = await place.work()

    assert worked.outcome is LoopOutcome.DONE
    assert [event.ok for event in place.events if isinstance(event, ToolRan)] == [False, False]
    assert "there is no tool 'fly'" in server.requests[1].text


async def test_a_refused_key_stores_nothing(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """The task can be repeated with a valid key."""
    server.script(refuse(401))

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        with pytest.raises(Denied):
            await place.work()

        assert place.session.chat.turns == ()


async def test_an_interrupt_during_an_answer_stores_no_turn(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """Turns are complete or absent: a partial sentence is not an answer."""
    server.script(breaks(says(Text("Let me see"), WRITE), after=5, then="hang"), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        working = asyncio.create_task(place.work())
        await asyncio.wait_for(server.silent.wait(), SECONDS)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        before = place.session.chat.turns
        worked = await place.work()

    assert before == ()
    assert worked.outcome is LoopOutcome.DONE


@pytest.mark.parametrize("api", APIS)
async def test_an_interrupt_during_a_tool_call_stores_a_complete_turn(
    server: ModelServer, store_url: str, sid: str, project: Path, api: str
) -> None:
    """Executed calls are stored; the model learns which were interrupted or not run.

    Rows: 003-R180, PG-07.
    """
    fifo = Fifo(project)
    server.script(says(WRITE, Call("bash", {"command": fifo.command}), READ), DONE)

    async with workplace(server, store_url=store_url, sid=sid, project=project, api=api) as place:
        working = asyncio.create_task(place.work())
        await asyncio.wait_for(asyncio.to_thread(fifo.wait), SECONDS)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    async with workplace(server, store_url=store_url, sid=sid, project=project, api=api) as place:
        (turn,) = place.session.chat.turns
        worked = await place.work("")

    assert turn.toolcall_ids == (f"{sid}:1:call_0", f"{sid}:1:call_0.2")
    assert INTERRUPTED in server.requests[1].text
    assert "this tool call was not run" in server.requests[1].text
    assert worked.outcome is LoopOutcome.DONE


async def test_a_stored_call_of_an_unfinished_turn_keeps_its_id(
    server: ModelServer, store_url: str, sid: str, project: Path
) -> None:
    """003-A20: after a crash the turn is requested again, and its calls get the same numbers."""
    server.script(says(READ), DONE)
    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        await Tools(place.session).dispatch(f"{sid}:1:call_0", name=WRITE.tool, args=WRITE.args)

    async with workplace(server, store_url=store_url, sid=sid, project=project) as place:
        await place.work()
        ids = [turn.toolcall_ids for turn in place.session.chat.turns]

    assert ids == [(f"{sid}:1:call_0", f"{sid}:1:call_0.2"), ()]
    assert f"ACTIVE_CONTENT id={sid}:1:call_0\\nanswer" in server.requests[0].text
