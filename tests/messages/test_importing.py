"""Recorded sessions become sessions here."""

from pathlib import Path

import pytest

from ctxmgr import Incorrect, connect
from ctxmgr.messages.importing import NO_SYSTEM_PROMPT, import_recording
from ctxmgr.messages.recorded import RecordedCall, RecordedTurn, Recording
from ctxmgr.messages.recordings import read_recording

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.name for path in FIXTURES.iterdir())


@pytest.mark.parametrize("name", NAMES)
async def test_an_imported_session_can_be_resumed(name: str) -> None:
    """What another harness began goes on here, with its whole conversation."""
    recording = read_recording((FIXTURES / name).read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        imported = await import_recording(client, recording, session_id="s1")
        session = await client.resume("s1")

        text = await session.render("And which host?")

    assert (imported.turns, imported.tool_calls) == (2, 1)
    for said in ("What does the server listen on?", "I look.", "On port 8080.", "And which host?"):
        assert said in text
    assert "port = 8080" in text


async def test_each_prompt_of_it_can_be_made_again() -> None:
    """Turn records prove what the model would have been shown here, turn by turn."""
    recording = read_recording((FIXTURES / "pi.jsonl").read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")

        first = (await client.prompt_as_of("s1", turn=1)).text()
        second = (await client.prompt_as_of("s1", turn=2)).text()

    assert "port = 8080" not in first
    assert "port = 8080" in second
    assert NO_SYSTEM_PROMPT in first


async def test_usage_and_time_stay_with_their_turn() -> None:
    """What the cache did in the recorded session is asked for long after its import."""
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


async def test_one_recording_can_be_imported_under_two_names() -> None:
    """Two policies are compared on the same session; its call ids are the same twice."""
    recording = read_recording((FIXTURES / "pi.jsonl").read_bytes())
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="one")
        await import_recording(client, recording, session_id="two")

        assert (await client.resume("two")).chat.turn_count == 2
        with pytest.raises(Incorrect, match="one"):
            await import_recording(client, recording, session_id="one")


async def test_an_import_reads_no_file(tmp_path: Path) -> None:
    """What a path holds today is not what the call saw then."""
    (tmp_path / "server.toml").write_text("port = 9090\n", encoding="utf-8")
    recording = read_recording((FIXTURES / "pi.jsonl").read_bytes())
    async with connect("sqlite://:memory:", directory=str(tmp_path), tracking=False) as client:
        await import_recording(client, recording, session_id="s1")
        session = await client.resume("s1")

        assert list(session.sets.session_index) == ["s1:1:toolu_1"]


async def test_what_cannot_be_stored_is_imported_as_far_as_it_can() -> None:
    """Models write half characters and arguments that are no map; the rest is worth keeping."""
    call = RecordedCall(call_id="c", tool="read", args="{not json", output="a\ud800b")
    turn = RecordedTurn(user="half \udc00", said=(call,))
    recording = Recording(format="openai", recorded_id=None, system_prompt="", turns=(turn,))
    async with connect("sqlite://:memory:", tracking=False) as client:
        await import_recording(client, recording, session_id="s1")

        text = await (await client.resume("s1")).render()

    assert "a\ufffdb" in text
    assert "half \ufffd" in text
