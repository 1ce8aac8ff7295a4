"""The OpenAI Agents SDK on ctxmgr sessions, with the real package and a scripted model."""

import asyncio
import threading
from pathlib import Path

import pytest
from agents import Agent, RunConfig, Runner, Session, SessionSettings, SQLiteSession, function_tool

import ctxmgr
from ctxmgr import Conflict, Corrupt, Incorrect
from ctxmgr.core.client.client import Client
from ctxmgr.integrations.openai_agents import AgentsSession, ThreadedAgentsSession
from tests.integrations.agents_models import ScriptedModel, calls, says

QUIET = RunConfig(tracing_disabled=True)


@function_tool
def capital(country: str) -> str:
    """Name the capital."""
    return f"the capital of {country} is Lima"


def agent(*outputs: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(outputs)
    return Agent(name="geographer", model=model, tools=[capital]), model


async def test_it_implements_the_sdks_session_protocol(client: Client, name: str) -> None:
    """The SDK checks the protocol at run time."""
    session = await AgentsSession.open(client, name)

    assert isinstance(session, Session)
    assert await session.get_items() == []
    assert await session.pop_item() is None


async def test_a_second_run_sees_the_first_one(client: Client, name: str) -> None:
    """The model sees the whole conversation, including tool calls."""
    session = await AgentsSession.open(client, name)
    first, _ = agent(calls("capital", '{"country": "Peru"}', call_id="c1"), says("Lima."))
    second, model = agent(says("Yes."))
    await Runner.run(first, "What is the capital of Peru?", session=session, run_config=QUIET)

    await Runner.run(second, "Are you sure?", session=session, run_config=QUIET)

    sent = [item.get("output") or item.get("content") for item in model.inputs[0]]
    assert sent[0] == "What is the capital of Peru?"
    assert "the capital of Peru is Lima" in sent
    assert sent[-1] == "Are you sure?"


async def test_items_are_the_same_as_from_the_sdks_own_session(client: Client, name: str) -> None:
    """A program can replace the SDK's SQLite session without changes."""
    ours, theirs = await AgentsSession.open(client, name), SQLiteSession(name)
    for session in (ours, theirs):
        script = calls("capital", '{"country": "Peru"}', call_id="c1"), says("Lima.")
        await Runner.run(agent(*script)[0], "Peru?", session=session, run_config=QUIET)

    assert await ours.get_items() == await theirs.get_items()
    assert await ours.get_items(2) == await theirs.get_items(2)
    assert await ours.pop_item() == await theirs.pop_item()
    assert await ours.get_items() == await theirs.get_items()
    theirs.close()


async def test_a_tool_call_is_an_object_of_the_session(client: Client, name: str) -> None:
    """Its output can be looked up, folded and activated like any other."""
    session = await AgentsSession.open(client, name)
    script = calls("capital", '{"country": "Peru"}', call_id="c1"), says("Lima.")

    await Runner.run(agent(*script)[0], "Peru?", session=session, run_config=QUIET)

    await client.pause(name)
    resumed = await client.resume(name)
    assert "the capital of Peru is Lima" in resumed.context().text()
    assert "Peru?" in resumed.context().text()


async def test_popped_and_cleared_items_are_not_erased(client: Client, name: str) -> None:
    """D9: hiding is state; the chat and the history of the state keep everything."""
    session = await AgentsSession.open(client, name)
    await session.add_items(
        [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    )

    popped = await session.pop_item()
    await session.clear_session()
    await session.add_items([{"role": "user", "content": "three"}])

    assert popped == {"role": "user", "content": "two"}
    assert await session.get_items() == [{"role": "user", "content": "three"}]
    chat = await client.store.get(f"chat:{name}")
    assert chat is not None
    assert "two" in str(chat.document["turns"])
    assert (
        len((await client.store.history(f"agents_history:{name}", corrections=True)).entries) == 2
    )


async def test_another_process_continues_the_session(client: Client, name: str) -> None:
    """Popped items stay hidden, and the limit counts visible items."""
    session = await AgentsSession.open(client, name)
    items = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    await session.add_items(items)
    await session.pop_item()
    await client.pause(name)

    again = await AgentsSession.open(client, name)
    again.session_settings = SessionSettings(limit=1)

    assert await again.get_items() == [{"role": "user", "content": "two"}]
    assert await again.get_items(0) == []


async def test_a_second_output_of_a_call_does_not_replace_the_first(
    client: Client, name: str
) -> None:
    """After a retry the SDK may answer a call twice; the object keeps the first output."""
    session = await AgentsSession.open(client, name)
    call = {"type": "function_call", "call_id": "c1", "name": "capital", "arguments": "{no json"}
    outputs = [
        {"type": "function_call_output", "call_id": "c1", "output": output}
        for output in ("one", [{"type": "input_text", "text": "two"}])
    ]

    await session.add_items([call, *outputs])

    assert await session.get_items() == [call, *outputs]


async def test_a_state_that_another_client_changed_is_a_conflict(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two concurrent pops must not return the same item."""
    session = await AgentsSession.open(client, name)
    await session.add_items([{"role": "user", "content": "one"}])
    stale = await session._state()
    await session.clear_session()

    with pytest.raises(Conflict):
        await session._save(stale)


async def test_items_are_read_as_they_are_stored_now(client: Client, name: str) -> None:
    """A program that only reads neither resumes the session nor misses what others add."""
    writer = await AgentsSession.open(client, name)
    await writer.add_items([{"role": "user", "content": "one"}])

    async with ctxmgr.connect(store=client.store, tracking=False) as other:
        reader = await AgentsSession.open(other, name)
        first = await reader.get_items()
        first[0]["content"] = "changed by the SDK"
        await writer.add_items([{"role": "user", "content": "two"}])

        assert [item["content"] for item in await reader.get_items()] == ["one", "two"]


async def test_a_session_that_was_only_read_is_continued(client: Client, name: str) -> None:
    """The first write resumes it, and answers a call that another client stored."""
    call = {"type": "function_call", "call_id": "c1", "name": "capital", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "Lima"}
    await (await AgentsSession.open(client, name)).add_items([call])

    async with ctxmgr.connect(store=client.store, tracking=False) as other:
        again = await AgentsSession.open(other, name)
        assert await again.get_items() == [call]
        await again.add_items([output])

        assert await again.get_items() == [call, output]


async def test_a_missing_output_is_reported(client: Client, name: str) -> None:
    """A damaged store is named as such, with the call."""
    call = {"type": "function_call", "call_id": "c1", "name": "capital", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "Lima"}
    session = await AgentsSession.open(client, name)
    await session.add_items([call, output])
    (part,) = [part for part in await session._parts() if "output" in part]
    await client.store.commit([ctxmgr.Delete(part["output"])])

    with pytest.raises(Corrupt, match="output of tool call"):
        await session.get_items()


async def test_items_of_another_client_are_seen_at_once(store_url: str, name: str) -> None:
    """``get_items`` of a session that had been written to gave the old list."""
    async with (
        ctxmgr.connect(store_url, tracking=False) as one,
        ctxmgr.connect(store_url, tracking=False) as two,
    ):
        ours = await AgentsSession.open(one, name)
        await ours.add_items([{"role": "user", "content": "one"}])
        theirs = await AgentsSession.open(two, name)
        await theirs.add_items([{"role": "user", "content": "two"}])

        assert [item["content"] for item in await ours.get_items()] == ["one", "two"]
        await ours.add_items([{"role": "user", "content": "three"}])
        assert await theirs.pop_item() == {"role": "user", "content": "three"}
        assert [item["content"] for item in await ours.get_items()] == ["one", "two"]


async def test_ten_writers_store_ten_items(store_url: str, name: str) -> None:
    """An append depends on nothing, so a collision is repeated here: nobody else could."""

    async def write(number: int) -> None:
        async with ctxmgr.connect(store_url, tracking=False) as client:
            session = await AgentsSession.open(client, name)
            await session.add_items([{"role": "user", "content": str(number)}])

    async with ctxmgr.connect(store_url, tracking=False) as client:
        await AgentsSession.open(client, name)
        await asyncio.gather(*map(write, range(10)))
        reader = AgentsSession(client, name)

        found = sorted(int(item["content"]) for item in await reader.get_items())

    assert found == list(range(10))


def test_run_sync_uses_a_session_in_a_thread(tmp_path: Path, name: str) -> None:
    """Most examples of the SDK begin with ``Runner.run_sync``."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    with ThreadedAgentsSession.open(url, name) as session:
        assert isinstance(session, Session)
        for question in ("Peru?", "Sure?"):
            assistant, model = agent(says("Lima."))
            Runner.run_sync(assistant, question, session=session, run_config=QUIET)
    asyncio.get_event_loop_policy().get_event_loop().close()  # the SDK leaves it open
    asyncio.set_event_loop(None)

    assert [item["content"] for item in model.inputs[0] if item.get("role") == "user"] == [
        "Peru?",
        "Sure?",
    ]
    with ThreadedAgentsSession.open(url, name) as again:
        session.close()  # twice
        assert len(asyncio.run(again.get_items())) == 4


def test_what_opening_a_session_raises_is_raised(tmp_path: Path, name: str) -> None:
    """And no thread is left behind."""
    with pytest.raises(Incorrect, match="no directory"):
        ThreadedAgentsSession.open(f"sqlite:///{tmp_path / 'missing' / 's.db'}", name)

    assert "ctxmgr" not in {thread.name for thread in threading.enumerate()}
