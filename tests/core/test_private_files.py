"""What agents saw can be read by their user only, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctxmgr import connect, open_store, text_part
from ctxmgr.core.private_files import make_private_file, make_private_folder
from ctxmgr.core.sessions.bundle_files import write_bundle_file
from ctxmgr.proxy.server.running import RunningProxy, announce
from ctxmgr.stores.fts5 import Fts5Index
from ctxmgr.trust import trust


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        each.relative_to(folder).as_posix(): stat.S_IMODE(each.stat().st_mode)
        for each in folder.rglob("*")
    }


async def test_a_store_and_what_is_written_from_it_are_private(tmp_path: Path) -> None:
    """A store has every output that an agent saw, secrets included."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with connect(url) as client:
        session = await client.start("s", system_prompt="")
        await session.record("c", tool="bash", args={}, output="DB_PASSWORD=correct7horse")
        await session.end_turn([text_part("done")], user="go")
        running = modes(tmp_path)
        await client.export_session("s", path=tmp_path / "s.bundle")
    async with await open_store(url) as store:
        await store.backup(tmp_path / "copy.db")
    write_bundle_file(tmp_path / "memory.json", b"{}", replace=False)
    index = await Fts5Index.open(tmp_path / "index")
    written = modes(tmp_path)
    await index.close()

    assert set(running) >= {"s.db", "s.db-wal", "s.db-shm"}
    assert set(running.values()) == {0o600}
    assert set(written) >= {"s.db", "s.bundle", "copy.db", "memory.json", "index"}
    assert set(written.values()) == {0o600}


def test_folders_above_are_private_as_well(tmp_path: Path) -> None:
    """``Path.mkdir(mode=0o700, parents=True)`` lets others list the folders above."""
    announce(tmp_path / "a" / "ctxmgr", RunningProxy(url="u", pid=1, store="s", upstreams={}))
    trust(tmp_path / "b" / "ctxmgr", Path("/ctxmgr.toml"), b"")
    folders = [each for each in tmp_path.rglob("*") if each.is_dir()]

    assert len(folders) == 5
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}


def test_what_exists_keeps_its_permissions(tmp_path: Path) -> None:
    """A person may share a folder, or a store, with a group."""
    folder, file = tmp_path / "shared", tmp_path / "shared" / "s.db"
    folder.mkdir()
    file.write_text("x")
    file.chmod(0o664)

    make_private_folder(folder)
    make_private_file(file)

    assert (stat.S_IMODE(folder.stat().st_mode), file.read_text()) == (0o755, "x")
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
    with pytest.raises(FileExistsError):
        make_private_folder(file)
