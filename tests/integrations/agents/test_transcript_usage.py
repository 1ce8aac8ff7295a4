"""What is read of a client's transcript, and how long that may take."""

import asyncio
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from ctxmgr.integrations.agents import transcript_usage
from ctxmgr.integrations.agents.events import AgentEvent
from ctxmgr.integrations.agents.spool import SpooledEvent
from ctxmgr.integrations.agents.transcript_usage import exit_code, turn_usage

NOON: Final = 1_767_268_800_000
"""Long ago: the client has written all it is going to write."""


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return tmp_path / "projects" / "p" / "s.jsonl"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


def answer(at: int, *, tokens: int, stop: str = "end_turn") -> str:
    said = {"id": f"m{at}", "usage": {"input_tokens": tokens}, "stop_reason": stop}
    when = datetime.fromtimestamp(at / 1000, UTC).isoformat()
    return json.dumps({"type": "assistant", "timestamp": when, "message": said}) + "\n"


def event(at: int, path: Path, **fields: Any) -> AgentEvent:
    common = {"hook_event_name": "Stop", "session_id": "s", "cwd": "/p"}
    data = json.dumps({**common, "transcript_path": str(path), **fields}).encode()
    folder = str(path.parents[2])
    return AgentEvent.read(
        SpooledEvent(at=at, project="", client_folder=folder, codex_folder="", data=data)
    )


async def test_turns_that_are_stored_late_have_their_own_costs(transcript: Path) -> None:
    """The store was not available: the transcript has the second turn when the first is stored."""
    text = answer(NOON + 1_000, tokens=10) + answer(NOON + 3_000, tokens=7)
    write(transcript, text)

    first = await turn_usage(event(NOON + 2_000, transcript), since=NOON, read_to=0)
    second = await turn_usage(
        event(NOON + 4_000, transcript), since=NOON + 2_000, read_to=first.read_to
    )

    costs = [turn.usage and turn.usage.input_tokens for turn in (first, second)]
    assert costs == [10, 7]
    assert second.read_to == len(text)


async def test_events_that_waited_do_not_wait_for_their_client(transcript: Path) -> None:
    """A hundred calls of Codex without an exit code would hold the next command for two minutes."""
    codex = transcript.parents[2] / "sessions" / "2026" / "11" / "18" / "rollout-x-s.jsonl"
    write(codex, "{}\n")
    write(transcript, answer(NOON, tokens=10, stop="tool_use"))
    call = replace(event(NOON, codex), codex_folder=str(transcript.parents[2]))

    async with asyncio.timeout(20):
        for _ in range(10):
            interrupted = await turn_usage(event(NOON, transcript), since=NOON, read_to=0)
            code = await exit_code(call, "c1")
            assert (interrupted.usage and interrupted.usage.input_tokens, code) == (10, None)


async def test_a_transcript_that_cannot_be_read_delays_nothing(
    transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk counts as one of the store, for which all events wait."""

    def unreadable(*_path: object) -> int:
        return os.open("/proc/self/mem", os.O_RDONLY)  # a read at 0 is an I/O error

    monkeypatch.setattr(transcript_usage, "_open", unreadable)
    codex = transcript.parents[2] / "sessions" / "2026" / "11" / "18" / "rollout-x-s.jsonl"
    call = replace(event(NOON, codex), codex_folder=str(transcript.parents[2]))

    cost = await turn_usage(event(NOON, transcript), since=NOON, read_to=0)

    assert (cost.usage, cost.read_to, await exit_code(call, "c1")) == (None, 0, None)
