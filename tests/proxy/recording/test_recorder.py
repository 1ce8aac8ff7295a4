"""What is stored of the exchanges that pass through the proxy."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import Client, Store, connect, open_store
from ctxmgr.core.history.reading import read_chat
from ctxmgr.core.objects.envelope import exchange_id
from ctxmgr.core.secrets.masking import Masker
from ctxmgr.core.sessions.retention import delete_session, plan_purge, purge
from ctxmgr.core.sessions.storage import exchange_count
from ctxmgr.core.store.contract import Put
from ctxmgr.errors import NotFound, Unavailable
from ctxmgr.proxy.engine import Outgoing, ShapedText
from ctxmgr.proxy.recording.exchange_records import exchange_document, rebuilt
from ctxmgr.proxy.recording.exchange_view import list_exchanges, show_exchange
from ctxmgr.proxy.recording.record_queue import RecordQueue
from ctxmgr.proxy.recording.recorder import ExchangeRecorder
from ctxmgr.proxy.server.accounting import CacheLoss, RequestAccount
from ctxmgr.proxy.server.exchange import ProxiedExchange
from tests.proxy.recording.exchanges import PICTURE, SESSION, conversation, exchange


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    async with connect(store=store, tracking=False) as opened:
        yield opened


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


async def test_a_request_is_shown_as_it_came_and_as_it_went_out(
    store: Store, client: Client
) -> None:
    """Proxy rules 36 to 38: both sides, the bill and the cause of a break; secrets are masked."""
    recorder = ExchangeRecorder(client, store)
    lost = CacheLoss(cause="the client changed it", tokens=2_000)
    account = RequestAccount(billed=100.0, baseline=90.0, baseline_prompt=50.0, lost=lost)
    for messages, answer in conversation():
        said = [*messages[:-1], {"role": "user", "content": "key sk-ant-api03-" + "x" * 40}]
        outgoing = Outgoing(body=exchange(said, []).received, shaped=True, conversation="c1")
        await recorder.record(exchange(messages, answer, outgoing=outgoing), account)

    listed = await list_exchanges(store, SESSION, mask=Masker().shown)
    shown = await show_exchange(store, SESSION, 3, mask=Masker().shown)

    assert (listed.requests, listed.saved, listed.breaks) == (3, -30.0, 3)
    assert listed.exchanges[0].lost_because == "the client changed it"
    assert [pair.changed for pair in shown.messages] == [False] * 4 + [True]
    assert "And this?" in (shown.messages[-1].received or "")
    assert "key " in (shown.messages[-1].sent or "")
    assert "x" * 40 not in (shown.messages[-1].sent or "")
    assert shown.answer == "A picture."
    with pytest.raises(NotFound):
        await show_exchange(store, SESSION, 4, mask=str)
    with pytest.raises(NotFound):
        await list_exchanges(store, "other", mask=str)


async def test_recording_goes_on_after_a_restart(store: Store, client: Client) -> None:
    """Proxy rule 39: a stop and a start lose nothing, and no turn is stored twice."""
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


async def test_an_exchange_that_cannot_be_stored_leaves_no_gap(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those after it can be shown, and none is overwritten after a restart."""

    async def failing(*_: object) -> None:
        raise Unavailable("the disk is full")

    (first, second, third) = conversation()
    recorder = ExchangeRecorder(client, store)
    await recorder.record(exchange(*first), None)
    await recorder.record(exchange(*second), None)
    with monkeypatch.context() as context:
        context.setattr(type(store), "commit", failing)
        with pytest.raises(Unavailable):
            await recorder.record(exchange(*third), None)
    await recorder.record(exchange(*third), None)
    await recorder.close()

    shown = await show_exchange(store, SESSION, 3, mask=str)
    assert await exchange_count(store, SESSION) == 3
    assert len(shown.messages) == len(third[0])
    assert "Read a.py." in (shown.messages[0].received or "")


@pytest.mark.parametrize("failing_commit", [1, 2, 3])
async def test_a_turn_that_could_not_be_stored_is_stored_with_the_next_exchange(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch, failing_commit: int
) -> None:
    """Wherever the store fails once, the turn before has its text and the output of its call."""
    commit, commits = type(store).commit, 0

    async def failing_once(self: Store, *args: Any, **more: Any) -> Any:
        nonlocal commits
        commits += 1
        if commits == failing_commit:
            raise Unavailable("the disk is full")
        return await commit(self, *args, **more)

    (first, second, third) = conversation()
    recorder = ExchangeRecorder(client, store)
    await recorder.record(exchange(*first), None)
    monkeypatch.setattr(type(store), "commit", failing_once)
    with pytest.raises(Unavailable):
        await recorder.record(exchange(*second), None)
    await recorder.record(exchange(*third), None)
    await recorder.close()

    chat = await read_chat(store, SESSION)
    assert [turn.user for turn in chat.turns] == ["Read a.py.", "[image]\nAnd this?"]
    (call_id,) = chat.turns[0].toolcall_ids
    call = await store.get(call_id)
    assert call is not None
    assert call.document["content"] == "def a(): ..."


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
    fold = ShapedText(handle="#7", tool="Read", message=2, tokens=900, sent_tokens=90)
    for messages, answer in conversation():
        sent = exchange(messages, answer)
        outgoing = replace(sent.outgoing, shaped=True, folds=(fold,))
        await recorder.record(replace(sent, outgoing=outgoing), None)
    await recorder.close()
    stored: list[dict[str, Any]] = [
        {"xt/id": "proxy_step:c1:0", "type": "proxy_step", "replaced": {"1": "secret"}},
        {"xt/id": "proxy_text:c1:7", "type": "proxy_text", "output": "secret"},
    ]
    await store.commit([Put(document) for document in stored])
    await delete_session(store, SESSION)

    await purge(store, await plan_purge(store, sessions=[SESSION]))

    record = await store.get(exchange_id(SESSION, number=2))
    assert record is not None
    assert "received" not in record.document
    left = await store.get_many(["proxy_step:c1:0", "proxy_text:c1:7"])
    assert [set(version.document) for version in left.values()] == [{"xt/id", "type"}] * 2


async def test_a_queue_that_is_full_reports_what_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow store must not hold answers back, nor fill the memory."""
    monkeypatch.setattr("ctxmgr.proxy.recording.record_queue.RECORDS_MAX", 2)

    async def record(_exchange: ProxiedExchange, _account: object) -> None:
        raise AssertionError("not started")

    queue = RecordQueue(record)
    for _ in range(3):
        queue.put(exchange([], []), None)

    assert (queue.waiting, queue.dropped) == (2, 1)


def test_a_planned_fold_is_listed_though_its_length_is_the_same() -> None:
    """Rule 37: what an exchange changed of the prefix is found in its record."""
    kept = ShapedText(handle="#1", tool="Read", message=1, tokens=900, sent_tokens=90)
    before = replace(kept, handle="#7", message=2)
    again = replace(before, planned=True)
    sent = exchange([], [])
    shaped = replace(sent, outgoing=replace(sent.outgoing, shaped=True, folds=(kept, again)))

    document = exchange_document(
        shaped,
        session_id=SESSION,
        number=2,
        turn=1,
        received={},
        sent=None,
        answer="",
        account=None,
        before=(kept, before),
    )

    assert [fold["handle"] for fold in document["folds"]] == ["#7"]
    assert document["folds_total"] == 2
