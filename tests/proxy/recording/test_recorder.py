"""What is stored of the exchanges that pass through the proxy."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import Client, Store, connect, open_store
from ctxmgr.core.history.reading import read_chat
from ctxmgr.core.model import Usage
from ctxmgr.core.objects.envelope import exchange_id
from ctxmgr.core.sessions.retention import delete_session, plan_purge, purge
from ctxmgr.core.sessions.storage import exchange_count
from ctxmgr.proxy.engine import Api, Outgoing
from ctxmgr.proxy.recording.exchange_records import rebuilt
from ctxmgr.proxy.recording.record_queue import RecordQueue
from ctxmgr.proxy.recording.recorder import ExchangeRecorder
from ctxmgr.proxy.server.exchange import ProxiedExchange
from ctxmgr.proxy.server.providers import Provider
from tests.proxy.server.events import anthropic_stream

SESSION = "proxy-c1"
PICTURE = "A" * 5_000
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    async with connect(store=store, tracking=False) as opened:
        yield opened


def exchange(messages: list[Any], answer: list[bytes], **more: Any) -> ProxiedExchange:
    body = {"model": "m", "system": "Be brief.", "tools": [{"name": "Read"}], "messages": messages}
    received = json.dumps(body).encode()
    values: dict[str, Any] = {
        "provider": Provider.ANTHROPIC,
        "api": Api.ANTHROPIC_MESSAGES,
        "path": "/v1/messages",
        "headers": {},
        "received": received,
        "outgoing": Outgoing(body=received, conversation="c1"),
        "refused": None,
        "status": 200,
        "answer": b"".join(answer),
        "streamed": True,
        "whole": True,
        "model": "claude-sonnet-5-5",
        "usage": Usage(input_tokens=5, output_tokens=7),
        "began_ms": 1_000,
        "ended_ms": 2_000,
        "prepare_seconds": 0.001,
        "first_byte_seconds": 0.01,
    }
    return ProxiedExchange(**{**values, **more})


def conversation() -> list[tuple[list[Any], list[bytes]]]:
    """Three requests, as Claude Code sends them: the mark moves, and a string becomes a list."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a.py"}}
    image = {"type": "image", "source": {"type": "base64", "data": PICTURE}}
    first = {"role": "user", "content": "Read a.py."}
    said = {"role": "assistant", "content": [{"type": "text", "text": "I read."}, call]}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "def a(): ...", **MARK}
    done = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    marked = {"role": "user", "content": [{"type": "text", "text": "Read a.py.", **MARK}]}
    unmarked = {key: value for key, value in result.items() if key != "cache_control"}
    last = {"role": "user", "content": [image, {"type": "text", "text": "And this?"}]}
    return [
        (
            [marked],
            anthropic_stream("I read.", calls=(("toolu_1", "Read", {"file_path": "/a.py"}),)),
        ),
        ([first, said, {"role": "user", "content": [result]}], anthropic_stream("Done.")),
        (
            [first, said, {"role": "user", "content": [unmarked]}, done, last],
            anthropic_stream("A picture."),
        ),
    ]


async def test_a_conversation_becomes_the_turns_of_a_session(store: Store, client: Client) -> None:
    """So inspector, timeline and costs show what ran through the proxy like any other session."""
    recorder = ExchangeRecorder(client, store)
    for messages, answer in conversation():
        await recorder.record(exchange(messages, answer), None)
    await recorder.close()

    chat = await read_chat(store, SESSION)
    assert [turn.user for turn in chat.turns] == ["Read a.py.", "", "[image]\nAnd this?"]
    assert chat.turns[0].assistant_meta.model == "claude-sonnet-5-5"
    assert chat.turns[0].assistant_meta.usage == {
        "input_tokens": 5, "cache_read_tokens": 0, "cache_written_tokens": 0, "output_tokens": 7,
    }  # fmt: skip
    (call_id,) = chat.turns[0].toolcall_ids
    call = await store.get(call_id)
    assert call is not None
    assert call.document["content"] == "def a(): ..."
    prompt = await store.get(f"system_prompt:{SESSION}")
    assert prompt is not None
    assert prompt.document["content"] == "Be brief."


async def test_requests_are_rebuilt_from_what_was_new_in_each(store: Store, client: Client) -> None:
    """Proxy rule 38: both sides of every request can be shown; nothing is stored twice."""
    recorder = ExchangeRecorder(client, store)
    requests = [messages for messages, _ in conversation()]
    for messages, answer in conversation():
        shaped = exchange([*messages[:-1], {"role": "user", "content": "short"}], []).received
        outgoing = Outgoing(body=shaped, shaped=True, conversation="c1", sent_tokens=1)
        await recorder.record(exchange(messages, answer, outgoing=outgoing), None)

    ids = [exchange_id(SESSION, number=number) for number in (1, 2, 3)]
    documents = [version.document for version in (await store.get_many(ids)).values()]
    sides = list(rebuilt(documents))
    assert await exchange_count(store, SESSION) == 3
    for messages, (received, sent) in zip(requests[:2], sides, strict=False):
        assert [json.loads(text) for text in received.messages] == messages
        assert json.loads(sent.messages[-1]) == {"role": "user", "content": "short"}
    assert documents[2]["received"]["frame"] is None
    assert documents[2]["received"]["kept"] == 2
    assert PICTURE not in json.dumps(documents)


async def test_recording_goes_on_after_a_restart(store: Store, client: Client) -> None:
    """Proxy rule 39: a restart loses nothing, and no turn is stored twice."""
    (first, second, third) = conversation()
    before = ExchangeRecorder(client, store)
    await before.record(exchange(*first), None)
    await before.record(exchange(*second), None)
    await before.close()
    after = ExchangeRecorder(client, store)
    await after.record(exchange(*third), None)
    await after.close()

    chat = await read_chat(store, SESSION)
    assert [turn.user for turn in chat.turns] == ["Read a.py.", "", "[image]\nAnd this?"]
    assert await exchange_count(store, SESSION) == 3


async def test_side_calls_are_not_recorded(store: Store, client: Client) -> None:
    """Titles and token counts belong to no conversation."""
    recorder = ExchangeRecorder(client, store)
    messages = [{"role": "user", "content": "Name this."}]
    title = json.dumps({"model": "m", "tools": [], "messages": messages}).encode()
    plain = Outgoing(body=title)

    await recorder.record(exchange(messages, [], received=title, outgoing=plain), None)
    await recorder.record(exchange(messages, [], path="/v1/messages/count_tokens"), None)
    await recorder.record(exchange(messages, [], received=b"[", outgoing=plain), None)

    assert await exchange_count(store, SESSION) == 0


async def test_without_an_engine_the_clients_session_names_the_conversation(
    store: Store, client: Client
) -> None:
    """With --record-only nothing is shaped, and everything is recorded."""
    recorder = ExchangeRecorder(client, store)
    headers = {"x-claude-code-session-id": "u1", "x-claude-code-agent-id": "a1"}
    for messages, answer in conversation():
        outgoing = Outgoing(body=b"")
        await recorder.record(exchange(messages, answer, outgoing=outgoing, headers=headers), None)

    assert await exchange_count(store, "proxy-u1-a1") == 3


async def test_a_purge_removes_the_requests(store: Store, client: Client) -> None:
    """What a person purges must not stay readable in another document."""
    recorder = ExchangeRecorder(client, store)
    for messages, answer in conversation():
        await recorder.record(exchange(messages, answer), None)
    await recorder.close()
    await delete_session(store, SESSION)

    await purge(store, await plan_purge(store, sessions=[SESSION]))

    record = await store.get(exchange_id(SESSION, number=2))
    assert record is not None
    assert "received" not in record.document


async def test_a_queue_that_is_full_reports_what_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow store must not hold answers back, nor fill the memory."""
    monkeypatch.setattr("ctxmgr.proxy.recording.record_queue.RECORDS_MAX", 2)

    async def record(_exchange: ProxiedExchange, _account: object) -> None:
        raise AssertionError("not started")

    queue = RecordQueue(record)
    for _ in range(3):
        queue.put(exchange([], []), None)

    assert (queue.waiting, queue.dropped) == (2, 1)
