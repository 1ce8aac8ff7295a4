"""What a session shows of a file is what the file is: too large, binary, deleted, or unread."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr import Client, Denied, Incorrect, LiveSession, NotFound, Secrets, Store
from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.tracking.trackers import TrackerState
from tests.core.builders.whole_files import replace_file

WITHIN_SECONDS = 60
LARGE = "x" * (FILE_BYTES_MAX + 1)


class Counting:
    """A real store that counts the calls of each method."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await ctxmgr.open_store(f"sqlite:///{tmp_path}/s.db") as opened:
        yield opened


def connected(store: Store, folder: Path, **settings: Any) -> Any:
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": str(folder), "filesystemId": "host"}]
    return ctxmgr.connect(store=store, mounts=mounts, filesystem_id="own", **settings)


async def until(client: Client, session: LiveSession, shown: str) -> None:
    """Wait until a prompt would hold this."""
    assert client.tracking is not None
    async with asyncio.timeout(WITHIN_SECONDS):
        await client.tracking.wait_for(lambda: shown in session.context().text())


async def test_a_file_that_grows_too_large_is_unread_until_it_shrinks(
    store: Store, folder: Path
) -> None:
    """A log must not be shown as it was an hour ago (003-R172, 003-R186, 003-A40)."""
    log = folder / "log.txt"
    log.write_text("short\n", encoding="utf-8")
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        file = await session.read("/w/log.txt")

        log.write_text(LARGE, encoding="utf-8")
        await until(client, session, "path=/w/log.txt file_type=txt [unread]\n")
        grown = session.context().text()
        with pytest.raises(Denied, match="at most are read"):
            await session.activate(file.object_id)
        state = client.tracking.state(file.object_id)
        log.write_text("rotated\n", encoding="utf-8")
        await until(client, session, f"ACTIVE_CONTENT id={file.object_id}\nrotated\n")

    assert f"ACTIVE_CONTENT id={file.object_id}\n[unread]\n" in grown
    assert state is TrackerState.ATTACHED


async def test_a_resume_tells_too_large_from_out_of_reach(store: Store, folder: Path) -> None:
    """003-R116, 003-R117: only a file that this client cannot reach is orphaned."""
    (folder / "log.txt").write_text("short\n", encoding="utf-8")
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        file = await session.read("/w/log.txt")
        inside = await session.record(
            "c", tool="read", args={"path": "/etc/box"}, output="x", faithful=True
        )
    (folder / "log.txt").write_text(LARGE, encoding="utf-8")

    async with connected(store, folder) as client:
        session = await client.resume("s")
        reconciliation = client.reconciliation("s")
        prompt = await session.render("q")

    assert reconciliation.too_large == [file.object_id]
    assert reconciliation.orphaned == list(inside.file_refs or ())
    assert reconciliation.updated == [file.object_id]
    assert "short" not in prompt
    assert "log.txt file_type=txt [unread]\n" in prompt


@pytest.mark.parametrize("first", [b"text\n", b"\xff\x00"])
async def test_a_deleted_binary_is_shown_as_deleted(
    store: Store, folder: Path, first: bytes
) -> None:
    """003-R118, 003-R189, 003-A03: a binary, or a text that became one, can be deleted, too."""
    path = folder / "b.bin"
    path.write_bytes(first)
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        call = await session.record("r", tool="read", args={"path": "/w/b.bin"}, output="…")
        (object_id,) = call.file_refs
        replace_file(path, b"\xff\x01")
        await until(client, session, "path=/w/b.bin file_type=bin [binary]\n")
        binary = len((await store.history(object_id)).entries)

        path.unlink()
        await until(client, session, "path=/w/b.bin file_type=bin [deleted]\n")
        deleted = len((await store.history(object_id)).entries)
        replace_file(path, b"\xff\x01")
        await until(client, session, "path=/w/b.bin file_type=bin [binary]\n")

    assert deleted == binary + 1, "the deletion is a version"
    assert len((await store.history(object_id)).entries) == deleted + 1, "and so is its return"


async def test_a_binary_that_was_deleted_meanwhile_is_deleted_after_a_resume(
    store: Store, folder: Path
) -> None:
    """003-R118: stores of earlier versions hold binaries whose deletion was never noticed."""
    path = folder / "b.bin"
    path.write_bytes(b"\xff\x00")
    async with connected(store, folder, tracking=False) as client:
        session = await client.start("s", system_prompt="")
        await session.record("r", tool="read", args={"path": "/w/b.bin"}, output="…")
        assert "[binary]" in await session.render("q")
    path.unlink()

    async with connected(store, folder, tracking=False) as client:
        session = await client.resume("s")
        first = (await session.render("q"), client.reconciliation("s").updated)
    async with connected(store, folder, tracking=False) as client:
        session = await client.resume("s")
        again = (await session.render("q"), client.reconciliation("s").updated)

    assert "b.bin file_type=bin [deleted]\n" in first[0]
    assert first[0] == again[0]
    assert (len(first[1]), again[1]) == (1, [])


async def test_a_resume_asks_once_for_all_files_without_text(store: Store, folder: Path) -> None:
    """003-R115: on XTDB each question is a request; deleted and binary files must not cost one."""
    names = [f"{number}.txt" for number in range(30)]
    for name in names:
        (folder / name).write_bytes(b"\xff" if name < "2" else b"text\n")
    async with connected(store, folder, tracking=False) as client:
        session = await client.start("s", system_prompt="")
        await session.record("c", tool="x", args={}, output="", reads=[f"/w/{n}" for n in names])
        for name in names:
            if name >= "2":
                (folder / name).unlink()
    async with connected(store, folder, tracking=False) as client:
        await client.resume("s")

    counting = Counting(store)
    async with connected(counting, folder, tracking=False) as client:  # type: ignore[arg-type]
        counting.calls.clear()
        session = await client.resume("s")
        prompt = await session.render("q")

    shown = [prompt.count(f"file_type=txt {mark}") for mark in ("[deleted]", "[binary]")]
    assert shown == [18, 12]
    assert counting.calls["history"] == 0
    assert counting.calls["history_many"] == 1, "to show them; comparing them needs no other"


async def test_a_resume_knows_what_the_last_turn_showed(store: Store, folder: Path) -> None:
    """003-R115: a turn records which files were deleted, so their histories are not read."""
    (folder / "a.txt").write_bytes(b"text\n")
    (folder / "b.bin").write_bytes(b"\xff")
    async with connected(store, folder, tracking=False) as client:
        session = await client.start("s", system_prompt="")
        await session.record("c", tool="x", args={}, output="", reads=["/w/a.txt", "/w/b.bin"])
        await session.end_turn("read", user="q")
        (folder / "a.txt").unlink()
        with pytest.raises(NotFound):
            await session.read("/w/a.txt")
        await session.render("q")
        await session.end_turn("gone")

    counting = Counting(store)
    async with connected(counting, folder, tracking=False) as client:  # type: ignore[arg-type]
        prompt = await (await client.resume("s")).render("q")

    assert (prompt.count("txt [deleted]"), prompt.count("bin [binary]")) == (1, 1)
    assert (counting.calls["history"], counting.calls["history_many"]) == (0, 0)


async def test_activating_a_binary_stub_remembers_that_it_is_binary(
    store: Store, folder: Path
) -> None:
    """003-R104, 003-A13: an agent that is shown [unread] would ask again, for ever."""
    (folder / "b.bin").write_bytes(b"\xff\x00")
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        call = await session.record("c", tool="ls", args={}, output="b.bin\n")
        (object_id,) = call.file_refs
        before = session.sets

        for _ in range(2):
            with pytest.raises(Incorrect, match=r"/w/b\.bin is not UTF-8 text"):
                await session.activate(object_id)
        prompt = await session.render("q")

        assert session.sets == before
        assert "path=/w/b.bin file_type=bin [binary]\n" in prompt
        assert len((await store.history(object_id)).entries) == 2


async def test_activating_a_vanished_stub_shows_that_it_is_deleted(
    store: Store, folder: Path
) -> None:
    """003-R104, 003-R118: the call fails, no set changes, and the line says why."""
    (folder / "a.txt").write_text("a", encoding="utf-8")
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        call = await session.record("c", tool="ls", args={}, output="a.txt\n")
        before = session.sets
        (folder / "a.txt").unlink()

        with pytest.raises(NotFound, match="does not exist"):
            await session.activate(call.file_refs[0])

        assert session.sets == before
        assert "path=/w/a.txt file_type=txt [deleted]\n" in await session.render("q")


async def test_a_binary_is_never_shown_in_full(store: Store, folder: Path) -> None:
    """003-A13: reading it through the session and through a recorded tool are the same."""
    for name in ("one.bin", "two.bin"):
        (folder / name).write_bytes(b"\xff\x00")
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        with pytest.raises(Incorrect, match="is not UTF-8 text"):
            await session.read("/w/one.bin")
        await session.record("c", tool="read", args={"path": "/w/two.bin"}, output="binary file")

        assert list(session.sets.active_set) == ["c"]
        assert (await session.render("q")).count("[binary]\n") == 2


async def test_a_read_that_fails_does_not_leave_the_old_text(store: Store, folder: Path) -> None:
    """003-R116: without trackers, the failed read is what shows that a file has changed."""
    paths = {name: folder / name for name in ("gone.txt", "grown.txt")}
    for path in paths.values():
        path.write_text("old text\n", encoding="utf-8")
    async with connected(store, folder, tracking=False) as client:
        session = await client.start("s", system_prompt="")
        for name in paths:
            await session.read(f"/w/{name}")
        paths["gone.txt"].unlink()
        paths["grown.txt"].write_text(LARGE, encoding="utf-8")

        with pytest.raises(NotFound):
            await session.read("/w/gone.txt")
        with pytest.raises(Denied):
            await session.read("/w/grown.txt")
        prompt = await session.render("q")

    assert "old text" not in prompt
    assert "gone.txt file_type=txt [deleted]\n" in prompt
    assert "grown.txt file_type=txt [unread]\n" in prompt


async def test_clients_that_treat_secrets_differently_do_not_rewrite_a_file(
    store: Store, folder: Path
) -> None:
    """003-R171: an unchanged file has one version, or two if the first held a secret."""
    secret = "ghp_" + "a1B2" * 9
    (folder / "a.env").write_text(f"GITHUB_TOKEN={secret}\n", encoding="utf-8")
    object_ids = set()
    for round_number, secrets in enumerate([Secrets.SHOW, Secrets.DROP] * 3):
        async with connected(store, folder, secrets=secrets, tracking=False) as client:
            session = await client.start(f"s{round_number}", system_prompt="")
            file = await session.read("/w/a.env")
            object_ids.add(file.object_id)

    (object_id,) = object_ids
    assert len((await store.history(object_id)).entries) == 2
    assert secret not in (file.content or "")


async def test_a_file_of_the_sandbox_that_was_written_unseen_is_unread(
    store: Store, folder: Path
) -> None:
    """003-R172: its stored text is outdated, and only the sandbox could read the new one."""
    async with connected(store, folder) as client:
        session = await client.start("s", system_prompt="")
        args = {"path": "/etc/box.conf"}
        await session.record("1", tool="read", args=args, output="old\n", faithful=True)
        shown = await session.render("q")
        await session.record("2", tool="write", args={**args, "content": "new\n"}, output="ok")
        prompt = await session.render("q")

    assert "path=/etc/box.conf file_type=conf char_count=4\n" in shown
    assert "path=/etc/box.conf file_type=conf [unread]\n" in prompt


async def test_the_economy_layout_announces_what_the_agent_cannot_know(
    store: Store, folder: Path
) -> None:
    """What it showed stays in the prompt, so a later notice must say that it is outdated."""
    log = folder / "log.txt"
    log.write_text("short\n", encoding="utf-8")
    async with connected(store, folder, tracking=False) as client:
        session = await client.start("s", system_prompt="")
        await session.read("/w/log.txt")
        await session.render("one", policy="economy")
        await session.end_turn("ok")
        log.write_text(LARGE, encoding="utf-8")
        await session.record("1", tool="write", args={"path": "/w/log.txt"}, output="")
        grown = await session.render("two", policy="economy")
        await session.end_turn("ok")
        log.write_text("rotated\n", encoding="utf-8")
        await session.record("2", tool="rotate", args={}, output="", writes=["/w/log.txt"])
        rotated = await session.render("three", policy="economy")
        await session.end_turn("ok")

        assert "/w/log.txt changed]\n[unread]\n" in grown
        assert "/w/log.txt changed]\nrotated\n" in rotated
        assert (await client.prompt_as_of("s", turn=3)).text() == rotated
