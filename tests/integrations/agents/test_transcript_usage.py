"""What is read of a client's transcript, and how long that may take."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from ctxmgr.integrations.agents.events import AgentEvent
from ctxmgr.integrations.agents.spool import SpooledEvent
from ctxmgr.integrations.agents.transcript_usage import turn_usage

NOON: Final = 1_767_268_800_000
"""Long ago: the client has written all it is going to write."""


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    return path


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
    transcript.write_text(
        answer(NOON + 1_000, tokens=10) + answer(NOON + 3_000, tokens=7), encoding="utf-8"
    )

    first = await turn_usage(event(NOON + 2_000, transcript), since=NOON, read_to=0)
    second = await turn_usage(
        event(NOON + 4_000, transcript), since=NOON + 2_000, read_to=first.read_to
    )

    costs = [turn.usage and turn.usage.input_tokens for turn in (first, second)]
    assert costs == [10, 7]
    assert second.read_to == transcript.stat().st_size
