"""A session is exported to a file and continued in another store."""

import gzip
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.errors import BundleDamaged, Incorrect, NotFound


def mount(project: Path) -> list[dict[str, Any]]:
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(project)}]


async def work(client: Any, sid: str, project: Path) -> list[str]:
    session = await client.start(sid, system_prompt="Be careful.")
    sent = []
    for n in range(1, 4):
        sent.append(await session.render(f"turn {n}"))
        (project / "notes.md").write_text(f"# version {n}\n", encoding="utf-8")
        await session.read("/workspace/notes.md")
        await session.record(f"{sid}-{n}", tool="t", args={"n": n}, output=f"output {n}")
        await session.end_turn(f"done {n}")
    return sent


async def test_an_imported_session_continues_in_another_store(
    store_url: str, sid: str, project: Path, tmp_path: Path
) -> None:
    """The file is a complete session: prompts can be verified and turns added (003-R007, D4)."""
    path, here = tmp_path / "session.bundle", f"sqlite:///{tmp_path}/here.db"
    async with ctxmgr.connect(here, mounts=mount(project), tracking=False) as client:
        sent = await work(client, sid, project)
        await client.fork(sid, turn=2, new_session_id=f"{sid}-fork")
        await client.export_session(f"{sid}-fork", path=path)

    async with ctxmgr.connect(store_url, filesystem_id=f"away-{sid}") as client:
        imported = await client.import_session(path)
        again = [await client.prompt_as_of(sid, turn=n) for n in (1, 2, 3)]
        session = await client.resume(imported)
        prompt = await session.render("go on")
        await session.end_turn("gone on")
        forked = await client.fork(sid, turn=1, new_session_id=f"{sid}-third")

    assert imported == f"{sid}-fork"
    assert [version.text() for version in again] == sent
    assert "done 2" in prompt
    assert f"{sid}-3" not in prompt
    assert forked.turn == 2


async def test_a_second_import_changes_nothing_and_another_past_is_refused(
    store_url: str, sid: str, project: Path, tmp_path: Path
) -> None:
    """An interrupted import is simply repeated (003-R010)."""
    path = tmp_path / "session.bundle"
    async with ctxmgr.connect(store_url, mounts=mount(project), tracking=False) as client:
        await work(client, sid, project)
        root = await client.export_session(sid, path=path)
        before = (await client.store.status()).sequence

        await client.import_session(path)

        assert (await client.store.status()).sequence == before
        assert await client.export_session(sid, path=path, replace=True) == root

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/other.db") as client:
        await client.start(sid, system_prompt="someone else's")
        with pytest.raises(Incorrect, match="another"):
            await client.import_session(path)
        with pytest.raises(NotFound):
            await client.export_session("nobody", path=path, replace=True)


async def test_one_altered_byte_is_detected_before_anything_is_written(
    sid: str, project: Path, tmp_path: Path
) -> None:
    """A bundle is evidence only if it cannot be altered (003-R010)."""
    path = tmp_path / "session.bundle"
    here = f"sqlite:///{tmp_path}/here.db"
    async with ctxmgr.connect(here, mounts=mount(project), tracking=False) as client:
        await work(client, sid, project)
        await client.export_session(sid, path=path)
    lines = gzip.decompress(path.read_bytes())
    altered = lines.replace(b"output 2", b"output 9")
    damaged = path.read_bytes()[:-20]

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/other.db") as client:
        for data in (gzip.compress(altered), damaged):
            path.write_bytes(data)
            with pytest.raises(BundleDamaged):
                await client.import_session(path)
        for data in (b"no bundle", b"", gzip.compress(b"{}\n"), gzip.compress(b"[" * 99_999)):
            path.write_bytes(data)
            with pytest.raises(Incorrect, match="ctxmgr export"):
                await client.import_session(path)

        assert (await client.store.status()).sequence is None
