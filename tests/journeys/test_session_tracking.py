"""Files change on disk while a session is open."""

import asyncio
from pathlib import Path
from typing import Any

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.tracking.trackers import TrackerState
from tests.core.builders.whole_files import replace_file


def mount(project: Path) -> list[dict[str, Any]]:
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(project)}]


async def until(client: Client, session: LiveSession, shown: str) -> None:
    """Wait until the prompt would contain this text."""
    assert client.tracking is not None
    async with asyncio.timeout(60):
        await client.tracking.wait_for(lambda: shown in session.context().text())


async def test_an_external_edit_is_shown_and_a_folded_file_stays_folded(
    store_url: str, sid: str, project: Path
) -> None:
    """A tracker updates contents, never which objects are shown.

    Rows: 003-R004, 003-R147, 003-R166, 003-R174, 003-R183, 003-R186.
    """
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        version = await session.read("/workspace/src/main.py")
        folded = await session.read("/workspace/notes.md")
        await session.deactivate(folded.object_id)
        before = session.sets

        (project / "src" / "main.py").write_text("print('three')\n", encoding="utf-8")
        (project / "notes.md").write_text("# longer notes\n", encoding="utf-8")
        await until(client, session, f"ACTIVE_CONTENT id={version.object_id}\nprint('three')\n")
        await until(client, session, "path=/workspace/notes.md file_type=md char_count=15\n")

        assert session.sets == before
        assert "# longer notes" not in session.context().text()


async def test_a_deleted_file_is_marked_until_it_returns(
    store_url: str, sid: str, project: Path
) -> None:
    """Its history stays, and its return is detected (003-R189, 003-A01, 003-A02, 003-A03)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        file = await session.read("/workspace/notes.md")

        (project / "notes.md").unlink()
        await until(client, session, f"ACTIVE_CONTENT id={file.object_id}\n[deleted]\n")
        replace_file(project / "notes.md", "# notes\n")
        await until(client, session, f"ACTIVE_CONTENT id={file.object_id}\n# notes\n")

        assert client.tracking is not None
        assert client.tracking.state(file.object_id) is TrackerState.ATTACHED
        assert len((await client.store.history(file.object_id)).entries) == 3


async def test_the_files_of_a_resumed_session_are_tracked_again(
    store_url: str, sid: str, project: Path
) -> None:
    """The next client watches too (003-R121, 003-R185, 003-R188)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        await session.read("/workspace/notes.md")

    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.resume(sid)
        (project / "notes.md").write_text("# after the resume\n", encoding="utf-8")
        await until(client, session, "# after the resume\n")
