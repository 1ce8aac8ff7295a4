"""Importing a recording as a session."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from ctxmgr import AsOf, Client, Incorrect, Query, connect
from ctxmgr.app import open_store
from ctxmgr.core.store.batched import in_batches
from ctxmgr.core.store.contract import Write
from ctxmgr.recordings.folders import import_folder
from ctxmgr.recordings.formats import read_recording
from ctxmgr.recordings.import_session import NO_SYSTEM_PROMPT, import_recording
from ctxmgr.recordings.recorder import INSTANT_MAX, RecordedCall, RecordedTurn, Recording

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.name for path in FIXTURES.iterdir())


@pytest.mark.parametrize("name", NAMES)
async def test_an_imported_session_can_be_resumed(name: str) -> None:
    """A session of another harness continues with its whole conversation."""
    recording = read_recording((FIXTURES / name).read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        imported = await import_recording(client, recording, session_id="s1")
        session = await client.resume("s1")

        text = await session.render("And which host?")

    assert (imported.turns, imported.tool_calls) == (2, 1)
    for line in ("What does the server listen on?", "I look.", "On port 8080.", "And which host?"):
        assert line in text
    assert "port = 8080" in text


async def test_every_imported_prompt_can_be_rebuilt() -> None:
    """The import writes a turn record for every turn."""
    recording = read_recording((FIXTURES / "pi.jsonl").read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")

        first = (await client.prompt_as_of("s1", turn=1)).text()
        second = (await client.prompt_as_of("s1", turn=2)).text()

    assert "port = 8080" not in first
    assert "port = 8080" in second
    assert NO_SYSTEM_PROMPT in first


async def test_usage_and_time_are_stored_with_the_turn() -> None:
    """Cache reports are computed from them after the import."""
    recording = read_recording((FIXTURES / "claude-code.jsonl").read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")
        session = await client.resume("s1")
        meta = session.chat.turns[1].assistant_meta

    assert meta.usage == {
        "input_tokens": 5,
        "cache_read_tokens": 1200,
        "cache_written_tokens": 60,
        "output_tokens": 8,
    }
    assert meta.timestamp == 1_772_359_205_000


async def test_a_recording_can_be_imported_under_two_names() -> None:
    """Two policies are compared on one recording, whose call ids are then used twice."""
    recording = read_recording((FIXTURES / "pi.jsonl").read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="one")
        await import_recording(client, recording, session_id="two")

        assert (await client.resume("two")).chat.turn_count == 2


async def test_an_import_reads_no_file(tmp_path: Path) -> None:
    """The content of a file today is not what the recorded call saw."""
    (tmp_path / "server.toml").write_text("port = 9090\n", encoding="utf-8")
    recording = read_recording((FIXTURES / "pi.jsonl").read_bytes())
    async with connect("sqlite://:memory:", directory=str(tmp_path), tracking=False) as client:
        await import_recording(client, recording, session_id="s1")
        session = await client.resume("s1")

        assert list(session.sets.session_index) == ["s1:1:toolu_1"]


async def test_values_that_cannot_be_stored_are_replaced() -> None:
    """Lone surrogates and malformed arguments must not prevent an import."""
    call = RecordedCall(call_id="c", tool="read", args="{not json", output="a\ud800b")
    turn = RecordedTurn(user="half \udc00", parts=(call,))
    recording = Recording(format="openai", recorded_id=None, system_prompt="", turns=(turn,))
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")

        text = await (await client.resume("s1")).render()

    assert "a\ufffdb" in text
    assert "half \ufffd" in text


RECORDED = Path(__file__).parent / "recorded"
CODEX = RECORDED / "codex-0.169.0.jsonl"
CODEX_ID = "01a1eeb6-7bf0-7733-bbeb-b24ebe8f7cda"


async def test_what_is_imported_is_valid_from_the_recorded_times() -> None:
    """003-R013: ``as-of`` a moment after a recorded call finds it; the store learnt it now."""
    recording = read_recording(CODEX.read_bytes())
    second, third = (recording.turns[n].calls[0].timestamp for n in (1, 2))
    assert second is not None
    assert third is not None
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")
        before = await client.state_as_of("s1", valid_time=second - 1)
        after = await client.state_as_of("s1", valid_time=third - 1)
        then = await client.store.get("s1:2:call_0008", as_of=AsOf(valid_time=second))
        history = await client.store.history("chat:s1", documents=False)

    assert "s1:2:call_0008" not in before.objects
    assert "s1:2:call_0008" in after.objects
    assert then is not None
    assert then.document["status"] == "fail"
    times = [entry.valid_time for entry in history.entries]
    assert times == sorted(times)
    assert times[-1] == recording.turns[-1].timestamp
    assert all(entry.valid_time < entry.system_time for entry in history.entries)


async def test_times_that_go_back_or_lie_ahead_hide_nothing() -> None:
    """A recording may say anything of its times; the latest version must be the current one."""
    times = [1_000_000, 500_000, INSTANT_MAX, 600_000]
    turns = tuple(
        RecordedTurn(user=f"u{n}", parts=(f"a{n}",), timestamp=time) for n, time in enumerate(times)
    )
    recording = Recording(format="openai", recorded_id=None, system_prompt="", turns=turns)
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")
        session = await client.resume("s1")

        assert [turn.user for turn in session.chat.turns] == ["u0", "u1", "u2", "u3"]
        await session.render("more")
        await session.end_turn("yes", at=700_000)
        assert (await client.store.get("chat:s1")).document["turn_count"] == 5  # type: ignore[union-attr]


MOMENTS = {
    "a text, not yet its call": 9,
    "a call without its output": 10,
    "one of two parallel outputs": 21,
    "all outputs": 23,
    "an answered question": 30,
    "a summary": 35,
}
"""Moments of the session as the lines that its file had then."""


@pytest.mark.parametrize("lines", MOMENTS.values(), ids=MOMENTS)
async def test_of_a_session_that_went_on_only_the_new_part_is_added(lines: int) -> None:
    """Sessions are imported every evening, and continued every day."""
    whole = read_recording(CODEX.read_bytes())
    early = read_recording(b"\n".join(CODEX.read_bytes().splitlines()[:lines]))
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, early, session_id="s1")
        again = await import_recording(client, whole, session_id="s1")
        last = await import_recording(client, whole, session_id="s1")
        chat = (await client.resume("s1")).chat
        parts = [part for turn in chat.turns for part in turn.assistant]
        ids = [part["toolcall_id"] for part in parts if part["type"] == "toolcall"]
        calls = await client.store.get_many(ids)

    users = [turn.user for turn in chat.turns if turn.user]
    assert users == ["What does the server listen on?", "And after that?"]
    expected = [part for turn in whole.turns for part in turn.parts]
    assert [part["text"] for part in parts if "text" in part] == [
        part for part in expected if isinstance(part, str)
    ]
    assert [calls[object_id].document["content"] for object_id in ids] == [
        call.output for turn in whole.turns for call in turn.calls
    ]
    assert again.outcome == "continued"
    assert (last.outcome, last.turns) == ("unchanged", 0)


async def test_an_interrupted_import_goes_on_when_it_is_repeated() -> None:
    """A person stops the import of a large folder, or the machine does."""
    whole = read_recording(CODEX.read_bytes())

    def interrupt(done: int, _total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    async with connect("sqlite://:memory:", tracking=False) as client:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                await import_recording(client, whole, session_id="s1", progress=interrupt)
        await import_recording(client, whole, session_id="s1")
        await import_recording(client, whole, session_id="s2")
        first, second = [(await client.resume(name)).chat.turns for name in ("s1", "s2")]

    assert len(whole.turns) > 3
    assert [turn.user for turn in first] == [turn.user for turn in second]
    assert [len(turn.assistant) for turn in first] == [len(turn.assistant) for turn in second]


async def test_an_import_goes_on_that_ended_when_its_session_was_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Session and mark are one transaction: without a mark the name would be taken for ever."""

    async def end(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    whole = read_recording(CODEX.read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Client, "_opened", end)
            with pytest.raises(KeyboardInterrupt):
                await import_recording(client, whole, session_id="s1")
        result = await import_recording(client, whole, session_id="s1")

    assert (result.outcome, result.turns) == ("continued", len(whole.turns))


async def test_another_recording_is_not_added_to_a_session() -> None:
    """Two conversations under one name would be mixed."""
    codex = read_recording(CODEX.read_bytes())
    other = replace(codex, turns=(replace(codex.turns[0], user="Something else"), *codex.turns[1:]))
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, codex, session_id="s1")
        with pytest.raises(Incorrect, match="does not begin like the recording"):
            await import_recording(client, other, session_id="s1")

        session = await client.resume("s1")
        await session.render("and now?")
        await session.end_turn("done")
        await client.pause("s1")
        with pytest.raises(Incorrect, match="continued after its import"):
            await import_recording(client, codex, session_id="s1")
        await client.start("own", system_prompt="")
        with pytest.raises(Incorrect, match="own exists already"):
            await import_recording(client, codex, session_id="own")


async def test_a_folder_is_imported_and_what_cannot_be_is_listed(tmp_path: Path) -> None:
    """One damaged file among hundreds must not prevent the others from being imported."""
    projects = tmp_path / "projects"
    shutil.copytree(RECORDED, projects / "recorded")
    conversation = projects / "conversations" / "c0ffee"
    conversation.joinpath("events").mkdir(parents=True)
    events = (FIXTURES / "openhands-sdk.jsonl").read_text(encoding="utf-8").splitlines()
    for number, event in enumerate(events):
        path = conversation / "events" / f"event-{number:05}-x.json"
        path.write_text(event, encoding="utf-8")
    (projects / "broken.jsonl").write_bytes(CODEX.read_bytes() + b"{half")
    (projects / "outside.jsonl").symlink_to(CODEX)
    last = conversation / "events" / f"event-{len(events):05}-x.json"
    last.symlink_to(CODEX)
    projects.joinpath("linked").mkdir()
    projects.joinpath("linked", "events").symlink_to(conversation / "events")
    progress: list[tuple[int, int]] = []
    async with connect("sqlite://:memory:", tracking=False) as client:
        first = await import_folder(
            client, projects, progress=lambda done, total: progress.append((done, total))
        )
        growing = projects / "recorded" / CODEX.name
        item = {"role": "assistant", "content": "More.", "type": "message"}
        with growing.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"type": "response_item", "payload": item}) + "\n")
        second = await import_folder(client, projects)
        subagents = await client.store.find(
            Query("recorded", {"parent": "bba2a21f-d438-42b1-88a5-8b06e0b3919a"})
        )
        openhands = await client.resume("c0ffee")

    assert (first.files, first.imported, first.continued, first.unchanged) == (8, 7, 0, 0)
    assert [failed.path for failed in first.not_imported] == ["broken.jsonl"]
    assert first.not_imported[0].reason.startswith("line 48: invalid JSON")
    assert progress[-1] == (8, 8)
    assert (second.imported, second.continued, second.unchanged, second.turns) == (0, 1, 6, 1)
    assert len(subagents.versions) == 1
    assert openhands.chat.turn_count == 2


@pytest.mark.parametrize("path", sorted(RECORDED.iterdir()), ids=lambda path: path.name)
async def test_an_import_in_batches_stores_the_same_transactions(
    path: Path, tmp_path: Path
) -> None:
    """Documents, hashes, valid times and events do not depend on how they are made durable."""
    (tmp_path / "folder").mkdir()
    shutil.copy(path, tmp_path / "folder")

    async def imported(name: str, *, grouped: bool) -> list[object]:
        async with (
            await open_store(tmp_path / name) as opened,
            in_batches(opened) if grouped else nullcontext(opened) as store,
        ):
            async with connect(store=store, tracking=False) as client:
                result = await import_folder(client, tmp_path / "folder")
            assert (result.imported, result.not_imported) == (1, ())
            return [
                (transaction.sequence, [_described(write) for write in transaction.writes])
                for transaction in await store.feed()
            ]

    one_by_one = await imported("a.db", grouped=False)
    assert await imported("b.db", grouped=True) == one_by_one
    assert len(one_by_one) > 5


def _described(write: Write) -> object:
    """Return a write without what is random or the time of the import."""
    assert write.document is not None
    if write.object_id.startswith(("lease:", "lifecycle:", "policy:", "recorded:")):
        return write.object_id
    return write.document, write.valid_from
