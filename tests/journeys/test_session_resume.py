"""A session is paused by one client and later resumed by another."""

from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.client import reconcile
from ctxmgr.core.objects.envelope import session_object_id
from ctxmgr.errors import Incorrect, NotFound

FOREIGN = "another-machine"


def mount(project: Path, *, at: str = "/workspace", of: str | None = None) -> list[dict[str, Any]]:
    declared = {"filesystemId": of} if of else {}
    return [{"agentPrefix": at, "canonicalPrefix": str(project), **declared}]


async def worked(url: str, sid: str, project: Path) -> dict[str, str]:
    """Work for a turn and pause; return the ids of the files by name."""
    async with ctxmgr.connect(url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        await session.render("go")
        names = ("src/main.py", "src/extra.py", "notes.md")
        files = {name: (await session.read(f"/workspace/{name}")).object_id for name in names}
        await session.record(f"{sid}-1", tool="bash", args={"command": "make"}, output="made")
        await session.pin(f"{sid}-1")
        await session.deactivate(files["notes.md"])
        await session.end_turn("done")
        await client.pause(sid)
    return files


async def versions(client: Any, object_id: str) -> int:
    return len((await client.store.history(object_id)).entries)


@pytest.mark.parametrize("eager", [True, False])
async def test_files_are_reconciled_and_sets_stay(
    store_url: str, sid: str, project: Path, *, eager: bool
) -> None:
    """Another process continues where the first one stopped.

    Rows: 003-R007, 003-R113 to R120, 003-R133, 003-R166, 003-R175, 003-R188.
    """
    files = await worked(store_url, sid, project)
    (project / "src" / "main.py").write_text("print('two')\n", encoding="utf-8")
    (project / "src" / "extra.py").unlink()

    async with ctxmgr.connect(store_url, mounts=mount(project, at="/other")) as client:
        before = await client.stored_sets(sid)
        session = await client.resume(sid, eager=eager)
        prompt = await session.render("again")
        await client.reconciliation(sid).wait()

        assert session.sets == before
        assert f"ACTIVE_CONTENT id={files['src/main.py']}\nprint('two')\n" in prompt
        assert f"ACTIVE_CONTENT id={files['src/extra.py']}\n[deleted]\n" in prompt
        assert "path=/other/notes.md file_type=md char_count=8\n" in prompt
        assert [await versions(client, file) for file in files.values()] == [2, 2, 1]
        assert await versions(client, f"{sid}-1") == 1
        assert client.reconciliation(sid).done


async def test_unreachable_files_are_orphaned_and_kept(
    store_url: str, sid: str, project: Path
) -> None:
    """The same path on another machine is another file, unless it is mounted in its place.

    Rows: 003-R117, 003-R187, 003-A12, 003-A29, 003-A33.
    """
    files = await worked(store_url, sid, project)
    (project / "src" / "main.py").write_text("another machine's\n", encoding="utf-8")
    elsewhere = [{**mount(project, of=FOREIGN)[0], "agentPrefix": "/elsewhere"}]

    async with ctxmgr.connect(store_url, mounts=elsewhere) as client:
        session = await client.resume(sid)
        prompt = await session.render("again")

        assert f"ACTIVE_CONTENT id={files['src/main.py']}\nprint('one')\n" in prompt
        assert set(client.reconciliation(sid).orphaned) == set(files.values())
        assert [await versions(client, file) for file in files.values()] == [1, 1, 1]


async def test_stubs_stay_unread_when_a_session_is_resumed(
    store_url: str, sid: str, project: Path
) -> None:
    """Unread files are marked as such, and resuming is cheap (003-A11)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        await session.record(f"{sid}-1", tool="ls", args={"path": "."}, output="notes.md\n")

    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        prompt = await (await client.resume(sid)).render()

    assert "path=/workspace/notes.md file_type=md [unread]\n" in prompt


@pytest.mark.parametrize("eager", [True, False])
async def test_stubs_are_read_on_resume_if_requested(
    store_url: str, sid: str, project: Path, *, eager: bool
) -> None:
    """The alternative behaviour of 003-A11; it activates nothing."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        await session.record(f"{sid}-1", tool="ls", args={"path": "."}, output="notes.md\n")

    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.resume(sid, eager=eager, upgrade_stubs=True)
        await client.reconciliation(sid).wait()
        prompt = await session.render()

    assert "[unread]" not in prompt
    assert list(session.sets.active_set) == [f"{sid}-1"]


async def test_a_call_of_an_unfinished_turn_is_in_the_next_one(store_url: str, sid: str) -> None:
    """A crash loses nothing that was acknowledged (003-R112, PG-06, PG-07)."""
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="")
        await session.render("go")
        await session.record(f"{sid}-1", tool="t", args={}, output="precious")

    async with ctxmgr.connect(store_url) as client:
        session = await client.resume(sid)
        assert "precious" in await session.render("go on")
        await session.end_turn("gone on")

    assert session.chat.toolcall_refs == (f"{sid}-1",)


async def test_the_window_continues_after_a_resume(store_url: str, sid: str) -> None:
    """Activated objects age as if there had been no pause (003-A05, 003-R139)."""
    window = ctxmgr.Window(per_turn=1, turns_back=2)
    async with ctxmgr.connect(store_url, window=window) as client:
        session = await client.start(sid, system_prompt="")
        for n in range(1, 4):
            await session.record(f"{sid}-{n}", tool="t", args={}, output="out")
            await session.end_turn("done", user="")
        await session.activate(f"{sid}-1")
        await session.render("4")
        await session.end_turn("done")

    async with ctxmgr.connect(store_url, window=window) as client:
        session = await client.resume(sid)
        kept = f"{sid}-1" in session.sets.active_set
        await session.end_turn("5", user="")
        await session.end_turn("6", user="")

    assert kept
    assert list(session.sets.active_set) == []


async def test_only_an_existing_session_that_is_not_open_is_resumed(
    store_url: str, sid: str
) -> None:
    """Mistakes are reported at once (003-R113)."""
    async with ctxmgr.connect(store_url) as client:
        with pytest.raises(NotFound):
            await client.resume(sid)
        await client.start(sid, system_prompt="")
        with pytest.raises(Incorrect, match="open in this client"):
            await client.resume(sid)
        with pytest.raises(Incorrect, match="exists already"):
            await client.start(sid, system_prompt="")

        assert await versions(client, session_object_id(sid)) == 1


async def test_a_session_of_many_batches_is_resumed_completely(
    store_url: str, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are read while others are verified, and all keep their order (003-R115, 003-R120)."""
    monkeypatch.setattr(reconcile, "READ_BATCH", 2)
    async with ctxmgr.connect(store_url) as client:
        session = await client.start(sid, system_prompt="")
        for number in range(9):
            await session.record(f"{sid}-{number}", tool="t", args={}, output=f"output {number}")
        await session.end_turn("done", user="")
        before = session.context().text()

    async with ctxmgr.connect(store_url) as client:
        session = await client.resume(sid)

        assert session.context().text() == before


async def test_a_paused_session_cannot_be_changed(store_url: str, sid: str) -> None:
    """Only the client that resumes it may write; the old handle is refused (003-R113)."""
    async with ctxmgr.connect(store_url) as client:
        left = await client.start(sid, system_prompt="")
        await left.end_turn("one", user="")
        await client.pause(sid)

        with pytest.raises(Incorrect, match="was paused"):
            await left.end_turn("two", user="")
        session = await client.resume(sid)

        assert await session.end_turn("two", user="") == 2


async def test_turns_continue_while_the_rest_is_reconciled(
    store_url: str, sid: str, project: Path
) -> None:
    """The first prompt waits only for active objects; progress on others is shown (003-R116)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        notes = await session.read("/workspace/notes.md")
        await session.deactivate(notes.object_id)
    (project / "notes.md").write_text("# changed\n", encoding="utf-8")

    async with ctxmgr.connect(store_url, mounts=mount(project), tracking=False) as client:
        session = await client.resume(sid, eager=False)
        reconciliation = client.reconciliation(sid)
        seen_first = reconciliation.seen
        await session.render("at once")
        await session.end_turn("answered")
        await reconciliation.wait()
        late = await session.render("later")

    assert seen_first == 0
    assert reconciliation.done
    assert "char_count=10\n" in late
    assert reconciliation.updated == [notes.object_id]
