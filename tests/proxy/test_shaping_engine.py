"""Requests of clients as the engine of the proxy forwards them."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ctxmgr.app import open_store
from ctxmgr.bench.economy.replay import MarkedCache
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Unavailable
from ctxmgr.proxy.engine import Api, Incoming, Outgoing, PassThrough
from ctxmgr.proxy.modes import BINDING_BETA, Shaping
from ctxmgr.proxy.shaping_engine import ShapingEngine
from ctxmgr.proxy.wire.show_tool import SHOW_TOOL
from tests.proxy.claude_client import (
    BOUND_MODEL,
    ClaudeClient,
    call,
    check_legal,
    long_text,
    result,
    sent_messages,
)

PATIENT = 600.0


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("sqlite://:memory:")
    yield store
    await store.close()


@pytest.fixture
def engine(store: Store) -> ShapingEngine:
    return new_engine(store)


def new_engine(store: Store, shaping: Shaping | None = None, **more: object) -> ShapingEngine:
    return ShapingEngine(
        store,
        shaping=shaping,
        **({"deadline_s": PATIENT, "store_s": PATIENT, "now": lambda: 1_000.0} | more),  # type: ignore[arg-type]
    )


async def sent(engine: ShapingEngine, client: ClaudeClient) -> Outgoing:
    request = client.request()
    outgoing = await engine.prepare(request)
    check_legal(request, outgoing)
    if outgoing.conversation is not None:  # as the server does before it passes an answer on
        await engine.stored(outgoing.conversation)
    return outgoing


def output_of(outgoing: Outgoing, call_id: str) -> str:
    blocks = [
        block
        for message in json.loads(outgoing.body)["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    content = next(block for block in blocks if block.get("tool_use_id") == call_id)["content"]
    return str(content)


async def test_a_long_result_is_shortened_once_and_sent_again_as_it_was(
    engine: ShapingEngine,
) -> None:
    """Rules 1, 3, 6: the provider's cache and bound thinking need the same bytes again."""
    client = ClaudeClient()
    client.say("Build it.")
    first = await sent(engine, client)
    client.run("c1", long_text("alpha"))
    second = await sent(engine, client)
    client.run("c2", "done")
    third = await sent(engine, client)

    assert len(output_of(second, "c1")) < len(long_text("alpha")) / 2
    assert "[#1 +" in output_of(second, "c1")
    assert sent_messages(second)[:1] == sent_messages(first)
    assert sent_messages(third)[:3] == sent_messages(second)
    assert third.conversation == second.conversation == first.conversation
    assert third.sent_tokens < third.baseline_tokens
    assert [(text.handle, text.tool) for text in third.folds] == [("#1", "Bash")]


async def test_nothing_but_the_tool_is_added_to_short_requests(engine: ShapingEngine) -> None:
    """Rules 2, 13, 19, 23: what is not shaped is forwarded byte for byte."""
    client = ClaudeClient()
    client.more = {"unknown_field": {"b": 1.50, "a": "\\u00e9"}}
    client.say("Build it.")
    client.run("c1", "ok", command="make")
    request = client.request()

    outgoing = await engine.prepare(request)

    before, _, after = outgoing.body.partition(b',{"name":"ctxmgr_show"')
    assert request.body.startswith(before)
    assert request.body.endswith(after.split(b'"required":["handle"]}}', 1)[1])
    assert len(outgoing.body) - len(request.body) < 1_000


async def test_failures_and_excluded_tools_stay_whole(store: Store) -> None:
    """Rules 23, 24: a failure is why the agent acts, and some results must be exact."""
    engine = new_engine(store, excluded=["Precise"])
    client = ClaudeClient()
    client.say("Build it.")
    client.answer(call("c1"), call("c2", "Precise"))
    failed = result("c1", long_text("failure"), is_error=True)
    client.messages.append({"role": "user", "content": [failed, result("c2", long_text("exact"))]})

    outgoing = await sent(engine, client)

    assert output_of(outgoing, "c1") == long_text("failure")
    assert output_of(outgoing, "c2") == long_text("exact")


async def test_a_small_result_that_comes_again_stays_as_it_was_sent(store: Store) -> None:
    """Rules 1, 23: a reference one request later would break the prefix at every call."""
    engine = new_engine(store, Shaping.FOLDS)
    client = ClaudeClient()
    client.say("Build it.")
    small = long_text("usage", 12)
    before: list[Any] = []
    for n in range(8):
        client.run(f"c{n}", small)
        outgoing = await sent(engine, client)
        assert sent_messages(outgoing)[: len(before)] == before
        before = sent_messages(outgoing)

    assert output_of(outgoing, "c7") == small


async def test_only_a_very_long_file_is_shortened_where_nothing_is_folded_later(
    store: Store,
) -> None:
    """Rules 22, 24: exact lines, their numbers, and a way to the rest; a part is read whole."""
    engine = new_engine(store, Shaping.RESULTS)
    client = ClaudeClient()
    client.say("Read them.")
    long, short = long_text("long", 600), long_text("short", 100)
    client.run("c1", long, tool="Read", file_path="/long.py")
    client.run("c2", short, tool="Read", file_path="/short.py")

    outgoing = await sent(engine, client)

    shaped = output_of(outgoing, "c1")
    hole = re.search(r"^⋯ lines (\d+)–(\d+)$", shaped, re.MULTILINE)
    assert hole is not None
    assert len(shaped) < 0.75 * len(long)
    lines = [line for line in shaped.split("\n") if line.startswith("long line")]
    assert len(lines) > 300
    assert set(lines) <= set(long.split("\n"))
    assert output_of(outgoing, "c2") == short
    hidden = "\n".join(long.split("\n")[int(hole[1]) - 1 : int(hole[2])])
    client.run("c3", hidden, tool="Read", file_path="/long.py", offset=int(hole[1]))
    again = await sent(engine, client)
    assert output_of(again, "c3") == hidden
    assert output_of(again, "c1") == shaped


async def test_a_long_file_that_is_read_again_hides_nothing(store: Store) -> None:
    """Rules 22, 24: what was left out is what the model asks for, without knowing our tool."""
    engine = new_engine(store, Shaping.RESULTS)
    client = ClaudeClient()
    client.say("Read it.")
    long = long_text("long", 1200)
    client.run("c1", long, tool="Read", file_path="/long.py")
    first = output_of(await sent(engine, client), "c1").split("\n")
    client.run("c2", long, tool="Read", file_path="/long.py")

    outgoing = await sent(engine, client)

    again = output_of(outgoing, "c2").split("\n")
    assert "⋯ " not in "\n".join(again)
    assert {line for line in long.split("\n") if line not in first} <= set(again)
    assert len(again) < len(long.split("\n"))
    assert output_of(outgoing, "c1").split("\n") == first


async def test_reminders_at_the_end_of_a_result_stay(engine: ShapingEngine) -> None:
    """Rule 14: they are the client's words to the model, not output."""
    reminder = "\n\n<system-reminder>\nfive files were changed\n</system-reminder>"
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha") + reminder * 2)

    outgoing = await sent(engine, client)

    assert output_of(outgoing, "c1").endswith("returns what is left out.)" + reminder * 2)
    assert "[#1 +" in output_of(outgoing, "c1")


async def test_results_with_pictures_pass(engine: ShapingEngine) -> None:
    """Rule 15: pictures pass; the only text of a result is shortened beside one."""
    picture = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    client = ClaudeClient()
    client.say("Look.")
    two = [{"type": "text", "text": long_text("one")}, {"type": "text", "text": long_text("two")}]
    client.run("c1", [picture, {"type": "text", "text": long_text("alpha")}])
    client.run("c2", [picture, *two])

    outgoing = await sent(engine, client)

    messages = json.loads(outgoing.body)["messages"]
    first, second = (messages[index]["content"][0]["content"] for index in (2, 4))
    assert first[0] == picture
    assert len(first[1]["text"]) < len(long_text("alpha")) / 2
    assert second == [picture, *two]


async def test_the_model_gets_a_text_back_by_the_injected_tool(engine: ShapingEngine) -> None:
    """Rules 18, 21: the client's "no such tool" is replaced by the text, in all requests."""
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    await sent(engine, client)
    client.answer(
        call("c2", SHOW_TOOL, handle="#1"), call("c3", SHOW_TOOL, handle="#1", lines="5-6")
    )
    error = "<tool_use_error>Error: No such tool available: ctxmgr_show</tool_use_error>"
    client.messages.append(
        {"role": "user", "content": [result(n, error, is_error=True) for n in ("c2", "c3")]}
    )
    shown = await sent(engine, client)
    client.answer(call("c4", SHOW_TOOL, handle="#99"))
    client.messages.append({"role": "user", "content": [result("c4", error, is_error=True)]})
    unknown = await sent(engine, client)

    assert long_text("alpha") in output_of(shown, "c2")
    assert output_of(shown, "c3").split("\n")[1:] == long_text("alpha").split("\n")[4:6]
    assert shown.retrieved_tokens > 1_000
    assert b'"is_error": true' not in shown.body
    assert sent_messages(unknown)[: len(sent_messages(shown))] == sent_messages(shown)
    assert "Do not ask for it again" in output_of(unknown, "c4")


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("Grep", {"pattern": "line", "offset": 50}),
        ("Bash", {"command": "make && sed -n 50p log"}),
        ("Read", {"file_path": "/a.py", "offset": 50}),
    ],
)
async def test_the_numbers_of_a_hole_are_those_of_the_lines_behind_it(
    store: Store, tool: str, args: dict[str, Any]
) -> None:
    """Rules 21, 24: only of a file do lines have the numbers that they have there."""
    engine = new_engine(store, Shaping.RESULTS)
    client = ClaudeClient()
    client.say("Look.")
    text = long_text("alpha", 700)
    client.run("c1", text, tool=tool, **args)
    shaped = output_of(await sent(engine, client), "c1").split("\n")
    at = next(n for n, line in enumerate(shaped) if re.match(r"⋯ lines \d+–\d+$", line))
    client.answer(call("c2", SHOW_TOOL, handle="#1", lines=shaped[at].removeprefix("⋯ lines ")))
    client.messages.append({"role": "user", "content": [result("c2", "No such tool")]})

    found = output_of(await sent(engine, client), "c2").split("\n")

    lines = text.split("\n")
    start = lines.index(shaped[at - 1]) + 1 if at else 0
    assert found[1:3] == lines[start : start + 2]


async def test_a_restart_changes_nothing(store: Store) -> None:
    """Rules 9, 10: the state is in the store, also for an engine with other settings."""
    client, engine = ClaudeClient(), new_engine(store)
    client.say("Build it.")
    client.run("c1", long_text("alpha"), command=long_text("argument", 40))
    before = await sent(engine, client)
    client.run("c2", long_text("beta"))

    again = await sent(new_engine(store, fidelity=1.0), client)

    assert again.conversation == before.conversation
    assert sent_messages(again)[:3] == sent_messages(before)
    assert "[#2 +" in output_of(again, "c2")


async def test_a_rewind_keeps_what_was_sent_before_it(engine: ShapingEngine) -> None:
    """Rule 5: an edited message starts a conversation with the same shaped beginning."""
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    client.run("c2", long_text("beta"))
    before = await sent(engine, client)
    client.messages[-2:] = []
    client.run("c3", long_text("gamma"))

    outgoing = await sent(engine, client)

    assert outgoing.conversation != before.conversation
    assert sent_messages(outgoing)[:3] == sent_messages(before)[:3]
    assert outgoing.break_cause == "the client changed message 3"
    assert "[#2 +" in output_of(outgoing, "c3")
    assert [text.handle for text in outgoing.folds] == ["#1", "#2"]
    assert not any(text.planned for text in outgoing.folds)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_compaction_request_sees_what_was_sent(store: Store, *, restarted: bool) -> None:
    """Rule 27: text added to the last message does not change the results in it."""
    engine, client = new_engine(store), ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    before = await sent(engine, client)
    client.messages[-1]["content"].append({"type": "text", "text": "Summarise. TEXT ONLY."})
    summary = await sent(engine, client)
    client.messages = []
    engine = new_engine(store) if restarted else engine
    client.say("This session is being continued. #1 was the build.")
    client.run("c2", long_text("beta"))
    await sent(engine, client)
    client.run("c3", "no such tool", tool=SHOW_TOOL, handle="#1")

    after = await sent(engine, client)

    assert output_of(summary, "c1") == output_of(before, "c1")
    assert long_text("alpha") in output_of(after, "c3")
    assert "[#2 +" in output_of(after, "c2")


async def test_subagents_and_side_calls_are_conversations_of_their_own(
    engine: ShapingEngine,
) -> None:
    """Rules 4, 25: one session id is used for many conversations."""
    main, agent = ClaudeClient(), ClaudeClient(agent="a1")
    main.say("Build it.")
    agent.say("Build it.")
    title = ClaudeClient()
    title.tools = []
    title.say("Write a title.")

    ids = [(await sent(engine, client)).conversation for client in (main, agent, main)]
    side = await engine.prepare(title.request())

    assert ids[0] == ids[2] != ids[1]
    assert (side.body, side.conversation) == (title.body(), None)
    assert side.reason


@pytest.mark.parametrize("user", ["person-7", '{"device_id":"d"}'])
async def test_a_user_id_without_a_session_names_none(engine: ShapingEngine, user: str) -> None:
    """Rule 4: all conversations of a person are not one session."""
    conversations = set()
    for session in ("", "s1"):
        for task in ("Build it.", "Test it."):
            client = ClaudeClient(session=session)
            client.more = {"metadata": {"user_id": user}}
            client.say(task)
            client.run("c1", long_text(task))
            outgoing = await sent(engine, client)
            conversations.add(outgoing.conversation)
            handle = "#1" if not session or task == "Build it." else "#2"
            assert f"[{handle} +" in output_of(outgoing, "c1")
    assert len(conversations) == 4


async def test_count_tokens_counts_what_would_be_sent(engine: ShapingEngine) -> None:
    """Rule 26: a client that counts more than is sent compacts too early."""
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    path = "/v1/messages/count_tokens"
    unknown = await engine.prepare(client.request(path))
    before = await sent(engine, client)

    known = await engine.prepare(client.request(path))

    assert unknown.body == client.body()
    assert sent_messages(known) == sent_messages(before)


async def test_after_a_refusal_nothing_is_shaped(store: Store) -> None:
    """Rule 17: also after a restart, and the reason is given."""
    client, engine = ClaudeClient(), new_engine(store)
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    shaped = await sent(engine, client)
    assert shaped.conversation
    await engine.answered(shaped.conversation, status=200, usage=None)
    assert (await sent(engine, client)).shaped

    await engine.answered(shaped.conversation, status=400, usage=None)

    for again in (engine, new_engine(store)):
        outgoing = await again.prepare(client.request())
        assert outgoing.body == client.body()
        assert "400" in str(outgoing.reason)


async def test_a_refusal_that_cannot_be_stored_holds_until_a_restart(store: Store) -> None:
    """The client gets the answer to its own request, whatever the store does."""
    client, engine = ClaudeClient(), new_engine(store)
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    shaped = await sent(engine, client)
    assert shaped.conversation
    await store.close()

    await engine.answered(shaped.conversation, status=400, usage=None)

    assert (await engine.prepare(client.request())).body == client.body()


async def test_without_time_texts_are_sent_whole_and_stay_whole(store: Store) -> None:
    """Rule 35: the deadline is never missed for the sake of a shorter text."""
    times = iter([0.0, *[9.0] * 100])
    hasty = new_engine(store, deadline_s=0.05, clock=lambda: next(times))
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    late = await sent(hasty, client)
    client.run("c2", long_text("beta"))

    outgoing = await sent(new_engine(store, Shaping.RESULTS), client)

    assert output_of(late, "c1") == long_text("alpha")
    assert "deadline" in str(late.reason)
    assert output_of(outgoing, "c1") == long_text("alpha")
    assert "[#2 +" in output_of(outgoing, "c2")


async def test_arguments_are_left_alone_where_thinking_is_bound(engine: ShapingEngine) -> None:
    """Rules 8, 13: only results are shaped, and thinking is forwarded byte for byte."""
    for model, shaped in ((BOUND_MODEL, False), ("claude-opus-4-6", True)):
        client = ClaudeClient(model, model=model)
        client.say("Build it.")
        await sent(engine, client)
        thinking = {"type": "thinking", "thinking": "Hm. \u00e9", "signature": "EqQB=="}
        client.answer(thinking, call("c1", command=long_text("argument", 60)))
        client.messages.append({"role": "user", "content": [result("c1", long_text("alpha"))]})

        outgoing = await sent(engine, client)

        blocks = json.loads(outgoing.body)["messages"][1]["content"]
        assert json.dumps(thinking).encode() in outgoing.body
        assert (blocks[2]["input"]["command"] != long_text("argument", 60)) is shaped
        assert len(output_of(outgoing, "c1")) < len(long_text("alpha")) / 2


async def test_a_session_that_began_without_the_proxy_is_left_alone(
    engine: ShapingEngine,
) -> None:
    """Rule 10: an added tool would invalidate the thinking that is already there."""
    client = ClaudeClient(model=BOUND_MODEL)
    client.say("Build it.")
    client.answer({"type": "thinking", "thinking": "Hm.", "signature": "x"}, call("c1"))
    client.messages.append({"role": "user", "content": [result("c1", long_text("alpha"))]})

    for _ in range(2):
        outgoing = await engine.prepare(client.request())
        assert outgoing.body == client.body()
        assert "began without the proxy" in str(outgoing.reason)


async def test_idle_texts_are_folded_when_the_cache_is_cold(store: Store) -> None:
    """Rules 7, 11, 12: a planned fold is reported, marked, and keeps the client's lifetime."""
    now = [1_000.0]
    engine = new_engine(store, Shaping.FOLDS, now=lambda: now[0])
    client = ClaudeClient(mark={"type": "ephemeral", "ttl": "1h"})
    client.say("Build it.")
    client.run("c0", long_text("first", 100), tool="Read", file_path="/a.py")
    for n in range(1, 14):
        client.run(f"c{n}", f"done {n}")
        before = await sent(engine, client)
    assert output_of(before, "c0") == long_text("first", 100)
    client.run("c14", "done")
    now[0] += 3_000.0
    warm = await sent(engine, client)
    now[0] += 4_000.0
    client.run("c15", "done")

    cold = await sent(engine, client)

    assert output_of(warm, "c0") == long_text("first", 100)
    assert len(output_of(cold, "c0")) < len(long_text("first", 100))
    assert "expired" in str(cold.break_cause)
    assert [text.handle for text in cold.folds if text.planned] == ["#1"]
    marks = [
        block["cache_control"]
        for message in json.loads(cold.body)["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if "cache_control" in block
    ]
    assert marks == [{"type": "ephemeral", "ttl": "1h"}] * 2


@pytest.mark.parametrize("where", ["nowhere", "request", "result"])
async def test_marks_are_counted_wherever_the_client_sets_them(store: Store, where: str) -> None:
    """Rule 11: a fifth mark is refused. ``check_legal`` counts those of every request."""
    now = [1_000.0]
    engine, client = new_engine(store, Shaping.FOLDS, now=lambda: now[0]), ClaudeClient()
    mark: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
    client.more = mark if where == "request" else {}
    client.say("Build it.")
    inner = {"type": "text", "text": "ok", **(mark if where == "result" else {})}
    client.run("c", [inner])
    client.run("c0", long_text("first", 100), tool="Read", file_path="/a.py")
    for n in range(1, 14):
        client.run(f"c{n}", f"done {n}")
        await sent(engine, client)
    now[0] += 4_000.0
    client.run("c14", "done")

    cold = await sent(engine, client)

    assert cold.body.count(b'"cache_control"') == 4


async def test_folds_of_bound_models_wait_for_the_user_and_drop_thinking(store: Store) -> None:
    """Rule 8: never in a tool loop, and then the provider is asked to drop what does not fit."""
    now = [1_000.0]
    engine = new_engine(store, Shaping.FOLDS, now=lambda: now[0])
    client = ClaudeClient(model=BOUND_MODEL)
    client.more = {"thinking": {"type": "adaptive"}}
    client.say("Build it.")
    client.run("c0", long_text("first", 100), tool="Read", file_path="/a.py")
    for n in range(1, 14):
        client.run(f"c{n}", f"done {n}")
        await sent(engine, client)
    now[0] += 4_000.0
    in_loop = await sent(engine, client)
    now[0] += 4_000.0
    client.answer()
    client.say("And now?")
    request = client.request()

    outgoing = await engine.prepare(request)

    assert output_of(in_loop, "c0") == long_text("first", 100)
    assert not in_loop.added_headers
    assert output_of(outgoing, "c0") != long_text("first", 100)
    assert outgoing.added_headers == {"anthropic-beta": BINDING_BETA}
    assert json.loads(outgoing.body)["thinking"] == {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }


async def test_another_model_changes_what_may_be_shaped(engine: ShapingEngine) -> None:
    """Rules 8, 10, 12: what was sent stays; arguments next to bound thinking are left alone."""
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", "ok", command=long_text("first", 60))
    before = await sent(engine, client)
    client.model = BOUND_MODEL
    client.run("c2", "ok", command=long_text("second", 60))

    outgoing = await sent(engine, client)

    assert sent_messages(outgoing)[:3] == sent_messages(before)
    commands = [
        message["content"][1]["input"]["command"]
        for message in sent_messages(outgoing)
        if message["role"] == "assistant"
    ]
    assert len(commands[0]) < len(long_text("first", 60)) / 2
    assert commands[1] == long_text("second", 60)
    assert "changed the model" in str(outgoing.break_cause)


async def test_the_first_shortened_text_says_so_in_words(engine: ShapingEngine) -> None:
    """Rule 22: a model must not take a shortened text for a damaged file."""
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    client.run("c2", long_text("beta"))

    outgoing = await sent(engine, client)

    assert "source is intact; ctxmgr_show returns" in output_of(outgoing, "c1")
    assert "source is intact" not in output_of(outgoing, "c2")
    lines = output_of(outgoing, "c2").split("\n")
    whole = [line for line in lines if line.startswith("beta")]
    assert whole
    assert set(whole) <= set(long_text("beta").split("\n"))


@pytest.mark.parametrize("show", ["mcp__ctxmgr__show", "ctxmgr_show"])
async def test_an_own_show_tool_of_the_client_is_used(engine: ShapingEngine, show: str) -> None:
    """Rule 20: where the MCP server is registered, nothing is injected.

    In OpenCode its tool has the name of the injected one, and providers refuse two of a name.
    """
    client = ClaudeClient()
    client.tools.append({"name": show, "input_schema": {}})
    client.say("Build it.")

    assert (await sent(engine, client)).body == client.body()


@pytest.mark.parametrize("show", ["mcp__ctxmgr__show", "ctxmgr_show"])
async def test_the_clients_own_show_tool_returns_what_was_left_out(
    engine: ShapingEngine, show: str
) -> None:
    """Rules 18, 20, 21: the MCP server does not know the texts of the proxy, which answers."""
    client = ClaudeClient()
    client.tools.append({"name": show, "input_schema": {}})
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    shortened = await sent(engine, client)
    client.run("c2", "there is no object #1", tool=show, object_id="#1")
    client.run("c3", "what the server knows", tool=show, object_id="/src/a.py")
    client.run("c4", "of another session", tool=show, object_id="#1", session="s1")

    outgoing = await sent(engine, client)

    assert shortened.body.count(f'"{show}"'.encode()) == 1
    assert "`show` of the MCP server ctxmgr returns it" in output_of(shortened, "c1")
    assert long_text("alpha") in output_of(outgoing, "c2")
    assert output_of(outgoing, "c3") == "what the server knows"
    assert output_of(outgoing, "c4") == "of another session"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"messages": "x"}',
        b'{"messages": [], "tools": []}',
        b'{"messages": [1], "tools": [{"name": "a"}]}',
        b'{"messages": [{"role": "user"}], "tools": [{"name": "a"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "messages": []}',
        b'{"messages": [{"role": "user", "content": "x"}], "tools": 7}',
        b'{"messages": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
        b'\xff{"messages": []}',
    ],
)
@pytest.mark.parametrize("api", list(Api))
async def test_what_is_not_understood_passes(engine: ShapingEngine, body: bytes, api: Api) -> None:
    """Rules 16, 34: odd input never fails, and the reason is given."""
    outgoing = await engine.prepare(Incoming(api=api, path="/v1/x", headers={}, body=body))

    assert outgoing.body == body
    assert outgoing.reason


async def test_a_failing_store_does_not_fail_the_request(store: Store) -> None:
    """Rule 34: the client gets its answer, and learns why nothing was shaped."""
    client, engine = ClaudeClient(), new_engine(store)
    client.say("Build it.")
    await store.close()

    outgoing = await engine.prepare(client.request())

    assert outgoing.body == client.body()
    assert "shaping failed" in str(outgoing.reason)


async def test_a_store_that_fails_for_a_while_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 1: what was sent is sent again, and is stored when the store works again."""

    async def failing(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    client, engine = ClaudeClient(), new_engine(store)
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    before = await sent(engine, client)
    with monkeypatch.context() as context:
        context.setattr(type(store), "commit", failing)
        client.run("c2", long_text("beta"))
        during = await sent(engine, client)
    client.run("c3", "done")
    after = await sent(engine, client)
    client.run("c4", "done")
    restarted = await sent(new_engine(store), client)

    assert before.shaped
    assert "[#2 +" in output_of(during, "c2")
    assert sent_messages(during)[:3] == sent_messages(before)
    assert sent_messages(after)[:5] == sent_messages(during)
    assert sent_messages(restarted)[:7] == sent_messages(after)
    assert restarted.conversation == before.conversation


async def test_a_text_that_changes_twice_while_the_store_fails_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9: one transaction must not contain a document twice."""

    async def failing(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    now = [1_000.0]
    client = ClaudeClient()
    engine = new_engine(store, Shaping.FOLDS, now=lambda: now[0])
    client.say("Build it.")
    await sent(engine, client)
    with monkeypatch.context() as context:
        context.setattr(type(store), "commit", failing)
        more = {"file_path": "/a.py", "why": long_text("reason", 100)}
        client.run("c0", long_text("alpha", 100), tool="Read", **more)
        arrived = await sent(engine, client)
        for n in range(1, 14):
            client.run(f"c{n}", f"done {n}")
            await sent(engine, client)
        now[0] += 4_000.0
        client.run("c14", "done")
        folded = await sent(engine, client)
    client.run("c15", "done")
    after = await sent(engine, client)
    client.run("c16", "done")
    restarted = await sent(new_engine(store, Shaping.FOLDS, now=lambda: now[0]), client)

    assert [text.handle for text in arrived.folds] == ["#1"]
    assert [text.handle for text in folded.folds if text.planned] == ["#1"]
    assert await engine.stored(str(after.conversation))
    assert sent_messages(restarted)[: len(sent_messages(after))] == sent_messages(after)


async def test_a_store_that_hangs_holds_no_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules 34, 35: what has begun goes on from memory, and what begins passes as it came."""
    release, commit = asyncio.Event(), type(store).commit

    async def hanging(*args: Any, **named: Any) -> Any:
        await release.wait()
        return await commit(*args, **named)

    ticks = itertools.count()
    engine = new_engine(store, store_s=0.0, clock=lambda: float(next(ticks)))
    first = new_engine(store)
    client, other = ClaudeClient(), ClaudeClient("s2")
    client.say("Build it.")
    other.say("Test it.")
    begun = await sent(first, client)
    with monkeypatch.context() as context:
        engine._store_s = PATIENT
        client.run("c1", long_text("alpha"))
        before = await sent(engine, client)
        engine._store_s = 0.0
        context.setattr(type(store), "commit", hanging)
        client.run("c2", long_text("beta"))
        during = await sent(engine, client)
        refused = await engine.prepare(other.request())
        is_stored = await engine.stored(str(during.conversation))
        release.set()
        engine._store_s = PATIENT
        await engine.stored(str(during.conversation))
    client.run("c3", "done")
    restarted = await sent(new_engine(store), client)

    assert begun.conversation == before.conversation == during.conversation
    assert not is_stored
    assert "[#2 +" in output_of(during, "c2")
    assert refused.body == other.body()
    assert "did not answer" in str(refused.reason)
    assert sent_messages(restarted)[:5] == sent_messages(during)


async def test_a_conversation_that_cannot_be_stored_is_not_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9: nothing was sent yet that a restart could change."""

    async def failing(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    client, engine = ClaudeClient(), new_engine(store)
    client.say("Build it.")
    monkeypatch.setattr(type(store), "commit", failing)

    for _ in range(2):
        assert (await engine.prepare(client.request())).body == client.body()


async def test_a_commit_that_ends_late_drops_nothing_that_came_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9: a conversation counts as stored only if its own documents are."""
    release, commit = asyncio.Event(), type(store).commit
    now = [0.0]

    async def hanging(*args: Any, **named: Any) -> Any:
        now[0] += 1.0
        await release.wait()
        return await commit(*args, **named)

    engine = new_engine(store, clock=lambda: now[0])
    saved = engine._saved

    async def releasing(group: Any) -> bool:
        release.set()
        return await saved(group)

    client = ClaudeClient()
    client.say("Build it.")
    monkeypatch.setattr(type(store), "commit", hanging)
    with monkeypatch.context() as context:
        context.setattr(engine, "_load", engine._load_stored)  # has no deadline
        context.setattr(engine, "_store_s", 0.01)
        refused = await engine.prepare(client.request())
    with monkeypatch.context() as context:
        context.setattr(engine, "_saved", releasing)
        begun = await engine.prepare(client.request())
    client.run("c1", "done")
    restarted = await sent(new_engine(store), client)

    assert refused.conversation is None
    assert begun.conversation is not None
    assert restarted.conversation == begun.conversation


async def test_record_only_changes_nothing() -> None:
    """``PassThrough`` is the engine of ``--record-only``."""
    client = ClaudeClient()
    client.say("Build it.")
    request = client.request()

    outgoing = await PassThrough().prepare(request)

    assert (outgoing.body, outgoing.shaped) == (request.body, False)
    assert replace(outgoing, reason=None) == Outgoing(body=request.body)


async def test_what_a_fold_leaves_unchanged_is_read_from_the_cache(store: Store) -> None:
    """Rules 7, 11: only marked prefixes are cached, so a mark must be where one of them ends."""
    engine = new_engine(store, Shaping.FOLDS)
    client = ClaudeClient()
    client.say("Read them all.")
    cache, planned, before = MarkedCache(count=len), 0, list[str]()
    for n in range(70):
        client.run(f"c{n}", long_text(f"module_{n}", 12 + 40 * (n % 3)), tool="Read")
        outgoing = await sent(engine, client)
        request = json.loads(outgoing.body)
        for message in request["messages"]:
            if isinstance(message["content"], str):
                message["content"] = [{"type": "text", "text": message["content"]}]
        read, _ = cache.send(request)
        texts = [json.dumps(message) for message in sent_messages(outgoing)]
        pairs = zip(texts, before, strict=False)
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
        unchanged, before = sum(len(text) for text, _ in same), texts
        if "planned" in str(outgoing.break_cause) and unchanged > 10_000:
            planned += 1
            assert read > 0.8 * unchanged

    assert planned


async def test_a_file_that_is_read_again_refers_to_its_lines_while_nothing_is_folded(
    store: Store,
) -> None:
    """Rules 6, 22: no line is hidden, and a short session pays for each line once."""
    engine = new_engine(store, Shaping.FOLDS)
    client = ClaudeClient()
    client.say("Read it.")
    text = long_text("module", 100)
    client.run("c1", text, tool="Read", file_path="/a.py")
    await sent(engine, client)
    client.run("c2", text + "\nan added line", tool="Read", file_path="/a.py")

    outgoing = await sent(engine, client)

    assert output_of(outgoing, "c1") == text
    assert "[100 lines as in #1 Read a.py]" in output_of(outgoing, "c2")
    assert "an added line" in output_of(outgoing, "c2")


@pytest.mark.parametrize("handle", ["#1", "1", "[#1 +2790 tok: alpha]", "#1 Bash", "[#1]"])
async def test_a_handle_is_found_with_what_stands_beside_it(
    engine: ShapingEngine, handle: str
) -> None:
    """Rules 18, 21: models copy what they see, such as `#5 read a.py` from a reference."""
    client = ClaudeClient()
    client.say("Build it.")
    client.run("c1", long_text("alpha"))
    await sent(engine, client)
    client.run("c2", "no such tool", tool=SHOW_TOOL, handle=handle)

    outgoing = await sent(engine, client)

    assert long_text("alpha") in output_of(outgoing, "c2")
