"""Where ``connect`` lets a store lie, and what an agent can see of it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

import ctxmgr
from ctxmgr import (
    Bind,
    Bubblewrap,
    Denied,
    Host,
    Incorrect,
    MountMapping,
    NotFound,
    host_filesystem_id,
)
from ctxmgr.core.store.contract import Query
from ctxmgr.sandboxes.start import start_sandbox
from tests.components import ROOT, need

QUIET_SECONDS: Final = 1.5
"""Longer than a tracker takes to store a change: many times its debounce time."""


def mounted(folder: Path) -> list[dict[str, str]]:
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(folder), "filesystemId": "h"}]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder on which ctxmgr was never used."""
    folder = tmp_path / "home"
    (folder / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    return folder


@pytest.fixture
async def bubblewrap(home: Path) -> AsyncIterator[Bubblewrap]:
    """A sandbox with the whole home folder at /workspace."""
    need("bubblewrap")
    mapping = MountMapping(
        agent_prefix="/workspace", canonical_prefix=str(home), filesystem_id=host_filesystem_id()
    )
    sandbox = await Bubblewrap.start([Bind(mapping=mapping, writable=True)])
    yield sandbox
    await sandbox.close()


@pytest.mark.parametrize("name", ["agent.db", "sub/agent.db", "link.db", "folder/agent.db"])
async def test_a_store_that_the_agent_could_change_is_refused(home: Path, name: str) -> None:
    """003-R151: an agent that can write to the store can rewrite every session."""
    (home / "project" / "sub").mkdir()
    (home / "elsewhere").mkdir()
    (home / "project" / "link.db").symlink_to(home / "elsewhere" / "agent.db")
    (home / "project" / "folder").symlink_to(home / "elsewhere")

    with pytest.raises(Incorrect, match="the agent could read and change it at '/workspace/"):
        async with ctxmgr.connect(
            f"sqlite:///{home}/project/{name}", mounts=mounted(home / "project")
        ):
            pass


@pytest.mark.parametrize("argument", ["search", "fingerprints"])
async def test_so_are_its_other_files(home: Path, argument: str) -> None:
    """An index contains the text of what it finds."""
    others: dict[str, Any] = {argument: home / "project" / "file"}

    with pytest.raises(Incorrect, match="belongs to ctxmgr"):
        async with ctxmgr.connect(
            f"sqlite:///{home}/agent.db", mounts=mounted(home / "project"), **others
        ):
            pass


async def test_a_store_in_the_workspace_of_a_sandbox_is_refused(
    home: Path, bubblewrap: Bubblewrap
) -> None:
    """The message says where the store can be instead, and there it can."""
    with pytest.raises(Incorrect, match="put it into a folder that is not mounted") as raised:
        async with ctxmgr.connect(f"sqlite:///{home}/project/agent.db", sandbox=bubblewrap):
            pass

    advised = str(raised.value).split("such as '")[1].rstrip("'")
    async with ctxmgr.connect(f"sqlite:///{advised}/agent.db", sandbox=bubblewrap) as client:
        session = await client.start("s", system_prompt="")
        await session.record("c", tool="bash", args={}, output=f"{advised}/agent.db")
        ran = await bubblewrap.run(
            "find /workspace/.local -name '*.db*'; cat .local/share/ctxmgr/agent.db",
            cwd="/workspace",
            timeout_s=20,
        )
    assert ran.text == "cat: .local/share/ctxmgr/agent.db: No such file or directory\n"


async def test_the_default_layout_works_in_a_home_folder(home: Path) -> None:
    """``ctxmgr run --workspace ~``: what is hidden is all that the agent does not see."""
    need("bubblewrap")
    sandbox, directory = await start_sandbox(None, folder=home)
    (home / "project" / "file").write_text("text", encoding="utf-8")
    async with AsyncExitStack() as closing:
        closing.push_async_callback(sandbox.close)
        client = await closing.enter_async_context(ctxmgr.connect(sandbox=sandbox))
        session = await client.start("s", system_prompt="")

        read = await session.read(f"{directory}/project/file")

        assert read.content == "text"
        with pytest.raises((Denied, NotFound)):
            await session.read(f"{directory}/.local/share/ctxmgr/ctxmgr.db")


@pytest.mark.parametrize("sandboxed", [True, False])
async def test_the_store_of_an_agent_on_the_host_is_never_indexed(
    home: Path, *, sandboxed: bool
) -> None:
    """003-R151, 003-R186: its log changes with each commit, so following it would never end."""
    folder = home / "project"
    (folder / "notes").write_text("text", encoding="utf-8")
    sandbox = await Host.start() if sandboxed else None
    async with AsyncExitStack() as closing:
        if sandbox is not None:
            closing.push_async_callback(sandbox.close)
        client = await closing.enter_async_context(
            ctxmgr.connect(f"sqlite:///{folder}/agent.db", sandbox=sandbox, directory=str(folder))
        )
        session = await client.start("s", system_prompt="")
        os.link(folder / "agent.db-wal", folder / "twin")
        (folder / "link").symlink_to("agent.db-wal")
        names = ("agent.db", "agent.db-wal", "agent.db-shm", "link", "twin")

        listing = "\n".join([*names, "notes"])
        await session.record("c0", tool="ls", args={"path": str(folder)}, output=listing)
        for number, name in enumerate(names, start=1):
            path = str(folder / name)
            await session.record(f"c{number}", tool="read", args={"path": path}, output="x")
            with pytest.raises(Denied, match="a file of ctxmgr itself"):
                await session.read(path)
        before = (await client.store.status()).sequence
        await asyncio.sleep(QUIET_SECONDS)

        assert (await client.store.status()).sequence == before
        page = await client.store.find(Query(kind="file"))
        assert [Path(file.document["source"]["path"]).name for file in page.versions] == ["notes"]


async def test_a_stored_file_that_turns_out_to_be_the_stores_is_not_followed(home: Path) -> None:
    """003-R186: an earlier version indexed it, or the store was moved to where it lies now."""
    folder = home / "project"
    copy = folder / "moved.db"
    copy.write_text("it was a text", encoding="utf-8")
    async with ctxmgr.connect(f"sqlite:///{folder}/agent.db", directory=str(folder)) as client:
        session = await client.start("s", system_prompt="")
        await session.read(str(copy))
        await session.end_turn("done", user="go")
        await client.pause("s")
    for suffix in ("", "-wal", "-shm"):
        if (folder / f"agent.db{suffix}").exists():
            (folder / f"agent.db{suffix}").rename(folder / f"moved.db{suffix}")

    async with ctxmgr.connect(f"sqlite:///{copy}", directory=str(folder)) as client:
        session = await client.resume("s")
        await session.record("c", tool="bash", args={}, output="a commit")
        before = (await client.store.status()).sequence
        await asyncio.sleep(QUIET_SECONDS)

        assert (await client.store.status()).sequence == before
        assert "it was a text" in await session.render("q")


WITHOUT_A_MACHINE_ID: Final = """
import asyncio, ctxmgr, sys
async def main():
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": sys.argv[1], "filesystemId": "X"}]
    async with ctxmgr.connect("sqlite://:memory:", filesystem_id="Y", mounts=mounts) as client:
        session = await client.start("s", system_prompt="")
        print((await session.read("/w/file")).content)
    async with ctxmgr.connect("sqlite://:memory:", filesystem_id="Y") as client:
        print((await client.start("s", system_prompt="")).session_id)
    try:
        async with ctxmgr.connect("sqlite://:memory:"):
            pass
    except ctxmgr.Unavailable as error:
        print(error)
asyncio.run(main())
"""


def test_a_machine_without_an_id_can_use_filesystems_that_have_one(tmp_path: Path) -> None:
    """003-R161: container images have an empty file, or none."""
    need("bubblewrap")
    (tmp_path / "empty").touch()
    (tmp_path / "file").write_text("text", encoding="utf-8")
    covers = [
        word
        for file in ("/etc/machine-id", "/var/lib/dbus/machine-id")
        if Path(file).exists()
        for word in ("--bind", str(tmp_path / "empty"), file)
    ]

    ran = subprocess.run(
        [
            *("bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", *covers),
            *(sys.executable, "-c", WITHOUT_A_MACHINE_ID, str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    lines = ran.stdout.splitlines()
    assert lines[:2] == ["text", "s"], ran.stderr
    assert "random/uuid >/etc/machine-id" in lines[2]
