"""Recordings of sessions that hooks have captured."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import AssistantMeta, Client, Incorrect, connect
from ctxmgr.core.history.recorded_usage import recorded_usage
from ctxmgr.core.prices import PriceList
from ctxmgr.core.sessions.retention import delete_session
from ctxmgr.integrations.agents.capture import OpenTurn, capture_events
from ctxmgr.integrations.agents.events import AgentEvent
from ctxmgr.integrations.agents.spool import SpooledEvent
from ctxmgr.recordings.folders import import_file, import_folder
from ctxmgr.recordings.import_session import ImportedRecording
from ctxmgr.surfaces.views.sessions import overview
from ctxmgr.surfaces.views.timeline import read_timeline
from ctxmgr.surfaces.views.usage import session_usage

BEGAN = 1_772_359_200_000
MODEL = "claude-sonnet-4-5"
PRICES = PriceList({})
Exchanges = list[tuple[str, list[str], str]]
"""Prompt, ids of calls, answer."""

WORK: Exchanges = [
    ("Which port?", ["toolu_1", "toolu_2"], "It is 8080."),
    ("And the host?", [], "localhost."),
    ("Change it", ["toolu_3"], "Done."),
]


def _event(name: str, at: int, project: Path, session: str, **fields: Any) -> AgentEvent:
    common = {"hook_event_name": name, "session_id": session, "cwd": str(project)}
    data = json.dumps({**common, **fields}).encode()
    return AgentEvent.read(
        SpooledEvent(at=at, data=data, project=str(project), client_folder=str(project))
    )


async def _capture(
    client: Client, exchanges: Exchanges, project: Path, *, session: str = "s1", ends: bool = True
) -> None:
    """Store what the hooks report of these exchanges."""
    events = []
    at = BEGAN
    for prompt, calls, answer in exchanges:
        events.append(_event("UserPromptSubmit", at, project, session, prompt=prompt))
        for call in calls:
            ran = {"tool_name": "Bash", "tool_input": {"command": call}, "tool_response": call}
            events.append(_event("PostToolUse", at, project, session, **ran, tool_use_id=call))
        at += 10_000
        events.append(_event("Stop", at, project, session, last_assistant_message=answer))
    refused: list[str] = []
    await capture_events(
        client.store,
        events if ends else events[:-1],
        project=project,
        turn=OpenTurn(),
        refuse=lambda _event, reason: refused.append(reason),
    )
    assert refused == []


def _recorded(path: Path, exchanges: Exchanges, *, session: str = "s1", ends: bool = True) -> Path:
    """Write the client's own recording: each call is an answer of its own, with its tokens."""
    entries: list[dict[str, Any]] = []

    def add(kind: str, content: object, **more: Any) -> None:
        n = len(entries)
        message = {"role": kind, "content": content, **more}
        linked = {"uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None}
        moment = {"timestamp": BEGAN + n * 1_000, "sessionId": session}
        entries.append({"type": kind, **linked, **moment, "message": message})

    for prompt, calls, answer in exchanges:
        add("user", f"{prompt}\n<reminder>be brief</reminder>")
        usage = {"input_tokens": 100, "output_tokens": 10}
        for call in calls:
            block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": call}}
            add("assistant", [block], id=f"m-{call}", model=MODEL, usage=usage)
            add("user", [{"type": "tool_result", "tool_use_id": call, "content": call}])
        text = [{"type": "text", "text": answer}]
        add("assistant", text, id=f"m-{prompt}", model=MODEL, usage=usage)
    system = [{"type": "text", "text": "Be careful."}]
    shape = {"type": "api-request-shape", "sessionId": session, "shape": {"system": system}}
    lines = [shape, *entries[: None if ends else -1]]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def _added(result: ImportedRecording) -> tuple[str, int, int, int, int]:
    return (
        result.outcome,
        result.turns,
        result.tool_calls,
        result.captured_turns,
        result.left_out,
    )


async def _users(client: Client, session: str = "s1") -> list[str]:
    return [turn.user for turn in (await client.visit(session)).chat.turns]


async def test_a_captured_session_gets_what_hooks_do_not_know(tmp_path: Path) -> None:
    """Tokens, model, costs: its turns stay as they are, and every prompt can be proven."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK, tmp_path)
        before = (await client.visit("s1")).chat
        assert (await session_usage(client.store, "s1", prices=PRICES)).usd is None

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert _added(result) == ("completed", 0, 0, 3, 0)
        assert result.system_prompt_added
        after = await client.visit("s1")
        assert after.chat == before
        assert after.context().system_prompt == "Be careful."
        for turn in (1, 2, 3):
            await client.prompt_as_of("s1", turn=turn)
        usage = await session_usage(client.store, "s1", prices=PRICES)
        assert (usage.models, usage.counted_turns, usage.prompt_tokens) == ((MODEL,), 3, 600)
        assert usage.output_tokens == 60
        assert usage.usd is not None
        assert usage.usd > 0
        timeline = await read_timeline(client.store, "s1", before=None, limit=10, prices=PRICES)
        assert timeline.usd == pytest.approx(usage.usd)
        shown = await overview(client.store, after.sets, prices=PRICES)
        assert (shown.usd, shown.unpriced_turns) == (pytest.approx(usage.usd), 0)


async def test_turns_after_the_capture_are_added(tmp_path: Path) -> None:
    """The hooks were removed, or their store was full, and the client went on."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK[:1], tmp_path)

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert _added(result) == ("completed", 3, 1, 1, 0)
        users = await _users(client)
        assert users[0] == "Which port?"
        assert [user[:13] for user in users[1:]] == ["And the host?", "Change it\n<re", ""]
        again = await import_file(client, _recorded(tmp_path / "r.jsonl", [*WORK, ("x", [], "y")]))
        assert _added(again) == ("completed", 1, 0, 0, 0)
        assert not again.system_prompt_added
        same = await import_file(client, tmp_path / "r.jsonl")
        assert same.outcome == "unchanged"
        assert len(await _users(client)) == 5


async def test_a_turn_that_has_its_tokens_is_left_alone(tmp_path: Path) -> None:
    """Hooks that read them from the transcript have nothing to gain."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        meta = AssistantMeta(api="hook", model=MODEL, usage={"input_tokens": 7})
        await session.end_turn("It is 8080.", user="Which port?", meta=meta)
        await client.pause("s1")

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK[:1]))

        assert _added(result) == ("unchanged", 0, 0, 0, 0)
        usage = await session_usage(client.store, "s1", prices=PRICES)
        assert usage.prompt_tokens == 7


async def test_hooks_go_on_after_an_import(tmp_path: Path) -> None:
    """Then the next import completes what they have added."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK[:2], tmp_path)
        await import_file(client, _recorded(tmp_path / "r.jsonl", WORK[:2]))
        await _capture(client, WORK, tmp_path)  # the first two are known: events come twice

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert _added(result) == ("completed", 0, 0, 1, 0)
        assert await _users(client) == ["Which port?", "And the host?", "Change it"]


async def test_an_exchange_that_is_not_complete_is_left_to_the_hooks(tmp_path: Path) -> None:
    """The agent is at work: its turn would be stored a second time when it ends."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK, tmp_path, ends=False)

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK, ends=False))

        assert _added(result) == ("completed", 0, 0, 2, 1)
        assert len(await _users(client)) == 2


async def test_a_turn_whose_end_was_not_reported_has_its_calls_once(tmp_path: Path) -> None:
    """The client was killed; its recording is whole."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK, tmp_path, ends=False)

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert _added(result) == ("completed", 2, 0, 2, 0)
        session = await client.visit("s1")
        assert session.chat.turns[2].toolcall_ids == ("toolu_3",)
        assert sorted(session.sets.session_index) == ["toolu_1", "toolu_2", "toolu_3"]


async def test_calls_with_the_same_ids_are_told_apart_by_their_prompts(tmp_path: Path) -> None:
    """Some models count their calls from one in every answer."""
    work: Exchanges = [
        ("Which port?", ["call_1"], "It is 8080."),
        ("And the host?", ["call_1", "call_2"], "localhost."),
        ("Change it", ["call_1"], "Done."),
    ]
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, work[:2], tmp_path)

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", work))

        assert (result.turns, result.captured_turns, result.left_out) == (2, 2, 0)
        captured = await recorded_usage(client.store, "s1")
        assert [captured[number]["answers"] for number in ("1", "2")] == [2, 3]


async def test_a_turn_with_the_calls_of_two_exchanges_is_the_last_one(tmp_path: Path) -> None:
    """The hooks have missed an end and a prompt; the last exchange must not be stored twice."""
    merged: Exchanges = [("Which port?", ["toolu_1", "toolu_2", "toolu_3"], "Done.")]
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, merged, tmp_path)

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert _added(result) == ("completed", 0, 0, 1, 2)


async def test_what_hooks_have_missed_between_others_is_counted(tmp_path: Path) -> None:
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, [WORK[0], WORK[2]], tmp_path)

        result = await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert _added(result) == ("completed", 0, 0, 2, 1)


async def test_another_session_is_not_completed(tmp_path: Path) -> None:
    """A session that a harness of ctxmgr made, or of which the recording has no turn."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK[:1], tmp_path)
        with pytest.raises(Incorrect, match="none of its turns"):
            await import_file(client, _recorded(tmp_path / "r.jsonl", [("Else?", [], "No.")]))
        own = await client.start("own", system_prompt="mine")
        await own.end_turn("It is 8080.", user="Which port?")
        with pytest.raises(Incorrect, match="exists already"):
            await import_file(client, _recorded(tmp_path / "r.jsonl", WORK, session="own"))


async def test_a_prompt_that_is_recorded_in_another_form_is_not_stored_twice(
    tmp_path: Path,
) -> None:
    """Some clients expand commands in what they record; what came later is new."""
    other = ("Run the command host", [], "localhost.")
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, [WORK[0], ("/host now", [], "localhost.")], tmp_path)

        path = _recorded(tmp_path / "r.jsonl", [WORK[0], other])
        assert _added(await import_file(client, path)) == ("completed", 0, 0, 1, 1)

        whole = _recorded(path, [WORK[0], other, ("Why?", [], "So.")])
        *before, asked, answered = whole.read_text(encoding="utf-8").splitlines(keepends=True)
        later = [json.loads(line) | {"timestamp": BEGAN + 60_000} for line in (asked, answered)]
        lines = [*before, *(json.dumps(line) + "\n" for line in later)]
        path.write_text("".join(lines), encoding="utf-8")
        assert _added(await import_file(client, path)) == ("completed", 1, 0, 0, 1)


async def test_nothing_is_added_to_a_deleted_session(tmp_path: Path) -> None:
    """What a person has deleted or purged must not come back with the next import."""
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK[:1], tmp_path)
        await delete_session(client.store, "s1")
        with pytest.raises(Incorrect, match="s1 is deleted"):
            await import_file(client, _recorded(tmp_path / "r.jsonl", WORK))

        assert len(await _users(client)) == 1


async def test_a_captured_subagent_is_the_recorded_one(tmp_path: Path) -> None:
    """Hooks name it after both agents; its recording must not become another session."""
    path = _recorded(tmp_path / "agent-a1.jsonl", WORK)
    marked = {"isSidechain": True, "agentId": "a1"}
    lines = [json.loads(line) | marked for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    async with connect("sqlite://:memory:", tracking=False) as client:
        await _capture(client, WORK, tmp_path, session="s1/a1")

        result = await import_folder(client, tmp_path)

        assert (result.completed, result.captured_turns, result.imported) == (1, 3, 0)
        assert len(await _users(client, "s1/a1")) == 3
