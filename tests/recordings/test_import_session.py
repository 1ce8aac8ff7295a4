"""Importing a recording as a session."""

from pathlib import Path

import pytest

from ctxmgr import Incorrect, connect
from ctxmgr.recordings.formats import read_recording
from ctxmgr.recordings.import_session import NO_SYSTEM_PROMPT, import_recording
from ctxmgr.recordings.recorder import RecordedCall, RecordedTurn, Recording

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
        with pytest.raises(Incorrect, match="one"):
            await import_recording(client, recording, session_id="one")


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
