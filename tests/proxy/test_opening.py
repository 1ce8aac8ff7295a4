"""A conversation begins with what earlier sessions have learnt."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.app import App, open_store
from ctxmgr.core.store.contract import Store
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import MemoryKind
from ctxmgr.proxy.engine import Api, Incoming
from ctxmgr.proxy.opening import HEADING
from ctxmgr.proxy.shaping_engine import ShapingEngine
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.operations.agents.proxy_opening import opening_of
from tests.proxy.claude_client import ClaudeClient, long_text, sent_messages

LEARNT = "## Memory\n- The tests need a running database.\n- Releases are cut on Fridays."


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("sqlite://:memory:")
    yield store
    await store.close()


def new_engine(store: Store, asked: list[str], text: str = LEARNT) -> ShapingEngine:
    async def opening(question: str) -> str:
        asked.append(question)
        return text

    return ShapingEngine(
        store, opening=opening, deadline_s=600.0, store_s=600.0, now=lambda: 1_000.0
    )


def system_of(body: bytes) -> list[Any]:
    return list(json.loads(body)["system"])


async def test_it_is_added_once_and_sent_again_as_it_was(store: Store) -> None:
    """Rule 1: memory that changes later must not change what was sent, nor after a restart."""
    asked: list[str] = []
    client, engine = ClaudeClient(), new_engine(store, asked)
    client.say("Fix the tests.")
    first = await engine.prepare(client.request())
    client.run("c1", long_text("alpha"))
    second = await engine.prepare(client.request())
    await engine.stored(str(second.conversation))
    client.run("c2", "done")
    restarted = await new_engine(store, asked, "- Something else entirely.").prepare(
        client.request()
    )

    added = [system_of(outgoing.body)[-1] for outgoing in (first, second, restarted)]
    assert added[0] == {"type": "text", "text": f"{HEADING}\n\n{LEARNT}"}
    assert added == [added[0]] * 3
    assert asked == ["Fix the tests."]
    assert sent_messages(restarted)[:3] == sent_messages(second)
    assert system_of(first.body)[:-1] == json.loads(client.body())["system"]
    assert first.sent_tokens > first.baseline_tokens  # it is debited


async def test_the_question_is_the_users(store: Store) -> None:
    """Notes that fit a client's instructions would take the place of those that fit the task."""
    asked: list[str] = []
    client = ClaudeClient()
    reminder = "<system-reminder>\nRelease notes are in CHANGES.\n</system-reminder>"
    texts = [{"type": "text", "text": text} for text in (reminder, "Fix the tests.")]
    client.messages.append({"role": "user", "content": texts})

    await new_engine(store, asked).prepare(client.request())

    assert asked == ["Fix the tests."]


async def test_after_a_compaction_it_is_the_same(store: Store) -> None:
    """The client's summary does not know of it."""
    asked: list[str] = []
    client, engine = ClaudeClient(), new_engine(store, asked)
    client.say("Fix the tests.")
    client.run("c1", "done")
    before = await engine.prepare(client.request())
    assert HEADING not in before.body.decode()  # it began without the proxy

    client, engine = ClaudeClient("s2"), new_engine(store, asked)
    client.say("Fix the tests.")
    first = await engine.prepare(client.request())
    client.messages = []
    client.say("This session is being continued from another one.")
    after = await engine.prepare(client.request())

    assert after.conversation != first.conversation
    assert system_of(after.body)[-1] == system_of(first.body)[-1]
    assert len(asked) == 1


async def test_side_calls_and_what_a_request_contains_get_nothing(store: Store) -> None:
    """Rule 25; a hook may have said the same already."""
    asked: list[str] = []
    engine = new_engine(store, asked)
    title = ClaudeClient()
    title.tools = []
    title.say("Write a title.")
    told = ClaudeClient("s2")
    told.say(f"Fix it. {LEARNT}")
    half = ClaudeClient("s3")
    half.say("Note: The tests need a running database.")

    passed = await engine.prepare(title.request())
    knowing = await engine.prepare(told.request())
    partly = await engine.prepare(half.request())

    assert passed.body == title.body()
    assert HEADING not in knowing.body.decode()
    assert system_of(partly.body)[-1]["text"].endswith("## Memory\n- Releases are cut on Fridays.")


async def test_a_failure_does_not_hold_the_request(store: Store) -> None:
    """Rule 34: the conversation begins without it."""

    async def failing(_question: str) -> str:
        raise OSError("the notes are gone")

    client = ClaudeClient()
    client.say("Fix the tests.")
    engine = ShapingEngine(store, opening=failing, deadline_s=600.0, store_s=600.0)

    outgoing = await engine.prepare(client.request())

    assert outgoing.shaped
    assert HEADING not in outgoing.body.decode()


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Be careful.", [{"type": "text", "text": "Be careful."}]),
        ("", []),
        ([], []),
        (None, []),
    ],
)
async def test_every_form_of_a_system_prompt_is_kept(
    store: Store, system: Any, expected: list[Any]
) -> None:
    """A text becomes the first block, byte for byte."""
    value = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    value["tools"] = [{"name": "Bash"}]
    if system is not None:
        value["system"] = system
    request = Incoming(
        api=Api.ANTHROPIC_MESSAGES, path="/v1/messages", headers={}, body=json.dumps(value).encode()
    )

    outgoing = await new_engine(store, []).prepare(request)

    assert system_of(outgoing.body)[:-1] == expected
    assert system_of(outgoing.body)[-1]["text"].startswith(HEADING)


async def test_a_system_prompt_in_an_unknown_form_passes(store: Store) -> None:
    """Rule 19: what is not known is not replaced; the provider says whether it takes it."""
    client = ClaudeClient()
    client.more = {"system": {"template": "Be careful."}}
    client.say("Fix the tests.")

    outgoing = await new_engine(store, []).prepare(client.request())

    assert json.loads(outgoing.body)["system"] == {"template": "Be careful."}


@pytest.mark.parametrize("api", [Api.OPENAI_CHAT, Api.OPENAI_RESPONSES])
async def test_openai_gets_a_message_before_the_users_first(store: Store, api: Api) -> None:
    """It is the same in the next request."""
    name = "messages" if api is Api.OPENAI_CHAT else "input"
    path = "/v1/chat/completions" if api is Api.OPENAI_CHAT else "/v1/responses"
    items = [
        {"role": "developer", "content": "Be careful."},
        {"role": "user", "content": "Fix the tests."},
    ]
    if api is Api.OPENAI_RESPONSES:
        items = [{"type": "message", **item} for item in items]
    asked: list[str] = []
    engine = new_engine(store, asked)

    async def ask(messages: list[Any]) -> list[Any]:
        tools = [{"type": "function", "name": "sh", "function": {"name": "sh"}}]
        value = {"model": "gpt-5", name: messages, "tools": tools}
        request = Incoming(
            api=api,
            path=path,
            headers={"session-id": "s1"},
            body=json.dumps(value).encode(),
        )
        return list(json.loads((await engine.prepare(request)).body)[name])

    first = await ask(items)
    answer = {"role": "assistant", "content": "Which?"}
    more = [{**answer, "type": "message"} if api is Api.OPENAI_RESPONSES else answer, items[1]]
    second = await ask([*items, *more])

    assert asked == ["Fix the tests."]
    assert first[0] == items[0]
    assert HEADING in json.dumps(first[1])
    assert first[2:] == items[1:]
    assert second[:3] == first
    assert second[3:] == more


async def test_other_white_space_between_messages_moves_nothing(store: Store) -> None:
    """Rule 19: the same messages, spaced differently, are still forwarded whole."""
    engine = new_engine(store, [])
    items = [
        b'{"role":"developer","content":"Be careful."}',
        b'{"role":"user","content":"Fix the tests."}',
        b'{"role":"user","content":"All of them."}',
    ]
    tools = b'[{"type":"function","function":{"name":"sh"}}]'
    sent: list[Any] = []
    for gaps in ((b",", b" , "), (b" , ", b",")):
        written = items[0] + gaps[0] + items[1] + gaps[1] + items[2]
        body = b'{"model":"gpt-5","messages":[' + written + b'],"tools":' + tools + b"}"
        request = Incoming(
            api=Api.OPENAI_CHAT,
            path="/v1/chat/completions",
            headers={"session-id": "s1"},
            body=body,
        )
        sent.append(json.loads((await engine.prepare(request)).body))

    assert sent[1] == sent[0]
    assert [message["role"] for message in sent[0]["messages"]] == [
        "developer",
        "system",
        "user",
        "user",
    ]


async def test_memories_and_notes_are_assembled_within_budgets(tmp_path: Path) -> None:
    """``ctxmgr proxy --memory DIR --knowledge DIR``: real memory and real notes, masked."""
    notes = tmp_path / "notes" / "knowledge" / "reference" / "ports.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("The gateway listens on port 8443.\n", encoding="utf-8")
    async with App(load_settings(store=f"sqlite:///{tmp_path}/a.db")) as app:
        memory = await app.memory(tmp_path)
        await memory.add(Fact(key="test runner", value="pytest"), kind=MemoryKind.INSTRUCTION)

        opening = await opening_of(app, memory=tmp_path, knowledge=tmp_path / "notes")
        nothing = await opening_of(app, memory=None, knowledge=None)
        assert opening is not None
        text = await opening("Which port has the gateway?")

    assert nothing is None
    assert "pytest" in text
    assert "8443" in text
