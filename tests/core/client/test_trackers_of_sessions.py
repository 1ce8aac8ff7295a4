"""Trackers end with the last open session that has their file."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr import Client
from ctxmgr.core.tracking.trackers import TrackerState
from tests.core.builders.whole_files import replace_file

WITHIN_SECONDS = 60
SESSIONS = 20
FILES = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    for number in range(FILES):
        (made / f"{number}.txt").write_text("old\n", encoding="utf-8")
    return made


@pytest.fixture
async def client(tmp_path: Path, folder: Path) -> AsyncIterator[Client]:
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": str(folder), "filesystemId": "host"}]
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, mounts=mounts, filesystem_id="own") as opened:
        yield opened


def followed(client: Client) -> dict[str, Any]:
    assert client.tracking is not None
    return dict(client.tracking.states)


async def test_a_paused_session_follows_nothing(client: Client, folder: Path) -> None:
    """003-R113, 003-R187: it exists only in the store, and edits wait for a resume."""
    session = await client.start("s", system_prompt="")
    files = [await session.read(f"/w/{number}.txt") for number in range(FILES)]
    other = await client.start("other", system_prompt="")
    kept = await other.read("/w/0.txt")

    await client.pause("s")
    assert list(followed(client)) == [kept.object_id]
    (folder / "1.txt").write_text("edited\n", encoding="utf-8")
    replace_file(folder / "0.txt", "edited, too\n")
    assert client.tracking is not None
    async with asyncio.timeout(WITHIN_SECONDS):
        await client.tracking.wait_for(lambda: "edited, too" in other.context().text())

    assert client.tracking.state(files[1].object_id) is TrackerState.ORPHANED
    assert len((await client.store.history(files[1].object_id)).entries) == 1
    assert len((await client.store.history(kept.object_id)).entries) == 2


async def test_a_session_that_is_resumed_is_followed_again(client: Client, folder: Path) -> None:
    """003-R121, 003-R188: pausing takes nothing away for good."""
    session = await client.start("s", system_prompt="")
    await session.read("/w/0.txt")
    await client.pause("s")

    session = await client.resume("s")
    (folder / "0.txt").write_text("after the resume\n", encoding="utf-8")

    assert client.tracking is not None
    async with asyncio.timeout(WITHIN_SECONDS):
        await client.tracking.wait_for(lambda: "after the resume" in session.context().text())


async def test_a_client_of_many_sessions_does_not_fill_up(client: Client, folder: Path) -> None:
    """003-R147: a client that runs for weeks has a limit of files, not of sessions."""
    for number in range(SESSIONS):
        below = folder / f"task-{number}"
        below.mkdir()
        (below / "a.txt").write_text("a\n", encoding="utf-8")
        session = await client.start(f"s{number}", system_prompt="")
        await session.read(f"/w/task-{number}/a.txt")
        assert len(followed(client)) == 1
        await client.pause(f"s{number}")

    assert followed(client) == {}


async def test_a_session_whose_index_is_unread_can_be_paused(client: Client) -> None:
    """003-R113: a lazy resume may be paused before its index was read."""
    session = await client.start("s", system_prompt="")
    await session.read("/w/0.txt")
    await session.end_turn("done", user="")
    await client.pause("s")

    await client.resume("s", eager=False)
    await client.pause("s")

    assert followed(client) == {}
