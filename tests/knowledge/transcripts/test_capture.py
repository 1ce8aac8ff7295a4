"""Transcripts are written once, whatever happens, and never changed after."""

import asyncio
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ctxmgr import connect
from ctxmgr.core.events.listeners import ListenerFeed
from ctxmgr.core.events.origins import StoreEvents
from ctxmgr.core.model import Usage, to_value
from ctxmgr.core.objects.answers import native_part, text_part, toolcall_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.core.secrets.masking import mask
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Unavailable
from ctxmgr.knowledge.transcripts.capture import ConversationCapture
from ctxmgr.knowledge.transcripts.listener import TranscriptListener
from ctxmgr.knowledge.transcripts.open_transcripts import ClosedTranscript, verify_hashes
from ctxmgr.knowledge.transcripts.transcript import Role, SessionTranscript, parse_transcript
from ctxmgr.knowledge.transcripts.turns import captured_call

AT = 1_770_820_320_000
"""2026-02-11T14:32:00Z."""


def masked(text: str) -> str:
    return mask(text).text


async def opened(raw: Path) -> ConversationCapture:
    return await ConversationCapture.open(raw, mask=masked)


def files(raw: Path) -> list[Path]:
    return sorted((raw / "raw/conversations").rglob("*.md"))


def read(raw: Path) -> list[SessionTranscript]:
    return [parse_transcript(file.read_text(), path=file.name) for file in files(raw)]


async def test_the_four_calls_write_a_transcript(tmp_path: Path) -> None:
    """A harness needs no store to keep transcripts; the slug follows when it is closed.

    Rows: 002-R171, 002-R172, 002-R173, 002-R174, 002-R203, 002-R242, 002-A05.
    """
    async with await opened(tmp_path) as capture:
        path = await capture.on_session_start("s1", at=AT, model="m", channel="cli")
        first = parse_transcript((tmp_path / path).read_text())
        await capture.on_message("s1", "user", "Why does it fail? #export", at=AT + 1)
        await capture.on_tool_call("s1", "bash", "tail log", "504", at=AT + 2)
        await capture.on_message("s1", "agent", "A timeout.", {"type": "draft"}, at=AT + 3)
        closed = await capture.on_session_end("s1", at=AT + 60_000, tags=("incident",))

    assert path.endswith("-untitled.md")
    assert (first.head.model, first.head.channel, first.head.tags) == ("m", "cli", ())
    assert first.head.ended is None
    (transcript,) = read(tmp_path)
    assert closed is not None
    assert closed.path.endswith("-fail-export-timeout.md")
    assert transcript.head.ended == AT + 60_000
    assert transcript.head.tags == ("export", "incident")
    assert [(turn.role, turn.suffix) for turn in transcript.turns] == [
        (Role.USER, None),
        (Role.AGENT, None),
        (Role.AGENT, "draft"),
    ]
    assert "> [tool:bash] tail log → 504\n" in files(tmp_path)[0].read_text()


async def test_a_closed_transcript_is_read_only_and_its_hash_recorded(tmp_path: Path) -> None:
    """002-R003, 002-R004, 002-A06: what was said cannot be changed without anybody noticing."""
    async with await opened(tmp_path) as capture:
        await capture.on_message("s1", "user", "Hello there", at=AT)
        closed = await capture.on_session_end("s1", at=AT)
    assert closed is not None
    file = tmp_path / closed.path

    assert stat.S_IMODE(file.stat().st_mode) == 0o444
    assert closed.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text() == f"{closed.sha256}  {closed.path}\n"
    assert list(verify_hashes(tmp_path)) == []
    file.chmod(0o600)
    file.write_text(file.read_text().replace("Hello", "Hallo"))
    assert list(verify_hashes(tmp_path)) == [f"{closed.path} was altered after it was closed"]


async def test_appending_never_changes_what_is_there(tmp_path: Path) -> None:
    """002-R004: while a transcript is open, it only grows."""
    async with await opened(tmp_path) as capture:
        path = tmp_path / await capture.on_session_start("s1", at=AT)
        before = b""
        for number in range(5):
            await capture.on_message("s1", "user", f"message {number}", at=AT + number)
            now = path.read_bytes()
            assert now.startswith(before)
            assert len(now) > len(before)
            before = now


async def test_a_session_that_goes_on_continues_in_a_new_part(tmp_path: Path) -> None:
    """002-R004: a closed file is never opened again; the next part names it."""
    async with await opened(tmp_path) as capture:
        await capture.on_message("s1", "user", "First", at=AT)
        closed = await capture.on_session_end("s1", at=AT)
        bytes_then = (tmp_path / closed.path).read_bytes() if closed else b""
        await capture.on_message("s1", "user", "Second", at=AT + 90_000)
        await capture.on_session_end("s1", at=AT + 90_000)

    first, second = read(tmp_path)
    assert closed is not None
    assert (tmp_path / closed.path).read_bytes() == bytes_then
    assert (second.head.part, second.head.continues) == (2, closed.path)
    assert (first.turns[0].text, second.turns[0].text) == ("First", "Second")


async def test_two_sessions_of_one_minute_get_two_files(tmp_path: Path) -> None:
    """002-R022: one file per session, also if both begin alike."""
    async with await opened(tmp_path) as capture:
        for session in ("a", "b"):
            await capture.on_message(session, "user", "Hello", at=AT)
        for session in ("a", "b", "a"):
            await capture.on_session_end(session, at=AT)

    assert len(files(tmp_path)) == 2


async def test_an_abandoned_session_is_closed_with_what_is_known(tmp_path: Path) -> None:
    """002-A06: a harness that was killed never pauses its session."""
    async with await opened(tmp_path) as capture:
        await capture.on_message("s1", "user", "Hello", at=AT)

        assert await capture.end_idle(now=AT + 3_600_000) == []
        (closed,) = await capture.end_idle(now=AT + 25 * 3_600_000)

    assert closed.session == "s1"
    assert read(tmp_path)[0].head.ended == AT


async def test_an_unacknowledged_tail_is_cut_off(tmp_path: Path) -> None:
    """002-R004: a crash between writing and acknowledging must not leave a turn twice."""
    async with await opened(tmp_path) as capture:
        path = tmp_path / await capture.on_session_start("s1", at=AT)
        await capture.on_message("s1", "user", "Hello", at=AT)
        with path.open("a") as torn:
            torn.write("\n## 14:32 — user\n\nHel")

        await capture.on_message("s1", "user", "Again", at=AT)
        await capture.on_session_end("s1", at=AT)

    assert [turn.text for turn in read(tmp_path)[0].turns] == ["Hello", "Again"]


async def test_a_lost_file_loses_no_later_turn(tmp_path: Path) -> None:
    """A person who deletes an open transcript does not stop the recording."""
    async with await opened(tmp_path) as capture:
        path = tmp_path / await capture.on_session_start("s1", at=AT)
        await capture.on_message("s1", "user", "Hello", at=AT)
        path.unlink()

        await capture.on_message("s1", "user", "Again", at=AT)
        await capture.on_session_end("s1", at=AT)

    assert [turn.text for turn in read(tmp_path)[0].turns] == ["Again"]


async def test_what_follows_a_close_is_repeated_until_it_succeeds(tmp_path: Path) -> None:
    """002-R004, 002-R174: a transcript is committed, if not now, then by the next process."""
    done: list[str] = []

    async def fail(_: ClosedTranscript) -> None:
        raise Unavailable("git is missing")

    async def commit(closed: ClosedTranscript) -> None:
        done.append(closed.path)

    async with await ConversationCapture.open(tmp_path, mask=masked, on_closed=fail) as capture:
        await capture.on_message("s1", "user", "Hello", at=AT)
        with pytest.raises(Unavailable):
            await capture.on_session_end("s1", at=AT)
    async with await ConversationCapture.open(tmp_path, mask=masked, on_closed=commit) as capture:
        await capture.finish()
        await capture.finish()

    assert len(done) == 1


async def test_a_transcript_that_fails_does_not_hold_up_others(tmp_path: Path) -> None:
    """002-R174: such as one that somebody deleted; it is named, and tried again."""
    done: list[str] = []

    async def commit(closed: ClosedTranscript) -> None:
        if "first" in closed.path:
            raise OSError("deleted")
        done.append(closed.path)

    async with await ConversationCapture.open(tmp_path, mask=masked, on_closed=commit) as capture:
        await capture.on_message("s1", "user", "The first", at=AT)
        await capture.on_message("s2", "user", "The second", at=AT)
        with pytest.raises(Unavailable, match=r"first.* could not be finished: deleted"):
            await capture.on_session_end("s1", at=AT)
        ended = await capture.end_idle(now=AT + 1, idle_ms=0)

    assert done == [closed.path for closed in ended]
    assert len(done) == 1


async def listen(store: Store, raw: Path) -> None:
    async with await opened(raw) as capture:
        listener = TranscriptListener(capture, StoreEvents(store))
        async with ListenerFeed(store, listeners=(listener,)) as feed:
            await asyncio.wait_for(feed.heard(), 60)


async def worked(path: Path, raw: Path | None) -> None:
    async with connect(path, tracking=False) as client:
        live = await client.start("s1", system_prompt="You are secretive.")
        await live.record("call-1", tool="bash", args={"command": "ls"}, output="a.py\nb.py")
        await live.record(
            "call-2", tool="write", args={"path": "knowledge/memory/MEMORY.md"}, output="done"
        )
        await live.end_turn(
            [
                native_part("anthropic", block={"type": "thinking", "thinking": "hidden thought"}),
                text_part("I look."),
                toolcall_part("call-1", call_id="c1", tool="bash", args={"command": "ls"}),
                toolcall_part("call-2", call_id="c2", tool="write", args={}),
                text_part("Two files."),
            ],
            user="What is here? password=hunter2secret99 ghp_" + "a1B2" * 9,
            meta=AssistantMeta(model="m1", usage=to_value(Usage(input_tokens=7, output_tokens=3))),
        )
        await client.pause("s1")
        if raw is not None:
            await listen(client.store, raw)


async def test_a_store_becomes_a_transcript(tmp_path: Path) -> None:
    """In the order in which it was said.

    Rows: 002-R214, 002-R032, 002-R033, 002-R035, 002-R036, 002-A34, X-C07.
    """
    raw = tmp_path / "raw"
    await worked(tmp_path / "a.db", raw)

    (transcript,) = read(raw)
    text = files(raw)[0].read_text()
    user, agent, memory = transcript.turns
    assert "What is here?" in user.text
    assert "a1B2a1B2" not in text
    assert "hidden thought" not in text
    assert "secretive" not in text
    assert [str(block) for block in agent.blocks] == [
        "I look.",
        "> [tool:bash] command=ls → ok: a.py",
        "> [tool:write] path=knowledge/memory/MEMORY.md → ok: done",
        "Two files.",
    ]
    assert memory.suffix == "memory"
    assert transcript.head.model == "m1"
    assert (transcript.head.tokens_in, transcript.head.tokens_out) == (7, 3)
    assert [change.path for change in transcript.head.knowledge_changes] == [
        "knowledge/memory/MEMORY.md"
    ]
    assert transcript.head.session == "s1"


async def test_a_second_listener_writes_nothing_twice(tmp_path: Path) -> None:
    """002-R004: also if its own database was lost, or the files were cloned elsewhere."""
    raw = tmp_path / "raw"
    await worked(tmp_path / "a.db", raw)
    before = {file: file.read_bytes() for file in files(raw)}

    async with connect(tmp_path / "a.db", tracking=False) as client:
        await listen(client.store, raw)
        for file in (raw / ".ctxmgr").iterdir():
            file.unlink()
        await listen(client.store, raw)

    assert {file: file.read_bytes() for file in files(raw)} == before


async def test_an_open_transcript_is_not_written_twice(tmp_path: Path) -> None:
    """002-R022, 002-R231: its database was lost while the session was open."""
    raw = tmp_path / "raw"
    async with connect(tmp_path / "a.db", tracking=False) as client:
        live = await client.start("s1", system_prompt="Be brief.")
        await live.end_turn("First.", user="One?")
        await listen(client.store, raw)
        (opened,) = files(raw)
        for file in (raw / ".ctxmgr").iterdir():
            file.unlink()
        await live.end_turn("Second.", user="Two?")
        await listen(client.store, raw)

    (transcript,) = read(raw)
    assert [turn.text for turn in transcript.turns] == ["One?", "First.", "Two?", "Second."]
    assert "First." in (raw / ".ctxmgr/recovered" / opened.name).read_text()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.knowledge.transcripts.test_capture import listen
from ctxmgr.app import open_store

synced = os.fsync

def run(allowed):
    def fsync(descriptor):
        nonlocal allowed
        synced(descriptor)
        allowed -= 1
        if allowed < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        async with await open_store(Path(sys.argv[1])) as store:
            await listen(store, Path(sys.argv[2]))

    os.fsync = fsync
    asyncio.run(main())
    os._exit(0)

kills = 0
for allowed in (0, 1, 2, 0, 1, 3, 100):
    child = os.fork()
    if child == 0:
        run(allowed)
    kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
print(kills)
"""


async def test_a_killed_listener_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """002-R004: killed at points where a file is on disk and the database may not know."""
    await worked(tmp_path / "a.db", tmp_path / "whole")
    raw = tmp_path / "raw"

    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED, str(tmp_path / "a.db"), str(raw)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert int(ended.stdout) >= 3
    assert read(raw) == read(tmp_path / "whole")
    assert list(verify_hashes(raw)) == []


@pytest.mark.parametrize("length", [4_050, 4_090, 4_096])
def test_no_part_of_a_secret_is_left_where_a_value_is_cut(length: int) -> None:
    """002-A34: what is shortened before it is masked ends with half a secret."""
    secret = "sk-ant-api03-" + "Zq7" * 30
    key = f"-----BEGIN PRIVATE KEY-----\n{'MIIEvQIBADANBgkq' * (length // 16)}\n"
    value = f"{key}{'A' * 40}\n-----END PRIVATE KEY----- {secret}"
    args: tuple[object, ...] = ({"command": value}, value)
    for each in args:
        call = captured_call("run", each, status="ok", output=value, mask=masked)
        assert "Zq7" not in str(call)
        assert "MIIE" not in str(call)
        assert "AAAA" not in str(call)
