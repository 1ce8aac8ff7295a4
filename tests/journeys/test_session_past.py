"""Past prompts, what was known and what was true, and forks from there."""

import os
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.objects.file import File
from ctxmgr.core.store.contract import Put
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Corrupt, NotFound


def mount(project: Path) -> list[dict[str, Any]]:
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(project)}]


async def work(client: Any, sid: str, project: Path, *, turns: int) -> list[str]:
    """Work on a file that changes every turn; return the prompts as they were sent."""
    session = await client.start(sid, system_prompt="Be careful.")
    sent = []
    for n in range(1, turns + 1):
        sent.append(await session.render(f"turn {n}"))
        (project / "notes.md").write_text(f"# version {n}\n", encoding="utf-8")
        await session.read("/workspace/notes.md")
        await session.record(f"{sid}-{n}", tool="t", args={"n": n}, output=f"output {n}")
        if n == 2:
            await session.change_system_prompt("Be quick.")
        await session.end_turn(f"done {n}")
    return sent


async def test_every_prompt_can_be_rebuilt_elsewhere(
    store_url: str, sid: str, project: Path
) -> None:
    """Days later, on a machine without the files, it can be verified (003-R005, 003-R010, D4)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        sent = await work(client, sid, project, turns=6)

    async with ctxmgr.connect(store_url, filesystem_id="elsewhere") as client:
        again = [await client.prompt_as_of(sid, turn=n) for n in range(1, 7)]
        with pytest.raises(NotFound):
            await client.prompt_as_of(sid, turn=7)

    assert [version.text() for version in again] == sent


async def test_an_altered_record_fails_verification(
    store_url: str, sid: str, project: Path
) -> None:
    """A check that cannot fail proves nothing."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        await work(client, sid, project, turns=2)
        version = await client.store.get(f"turn:{sid}:2")
        assert version is not None
        await client.store.commit([Put(_altered(version.document))])

        with pytest.raises(Corrupt):
            await client.prompt_as_of(sid, turn=2)


def _altered(record: Document) -> Document:
    return {**record, "active": record["active"][1:]}


async def test_what_was_known_differs_from_what_was_true(
    store_url: str, sid: str, project: Path
) -> None:
    """The file had changed on disk before it was indexed again (003-R005, D3)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        file = await session.read("/workspace/notes.md")
        read_at = (await client.store.status()).system_time
        assert read_at is not None
        changed_at = read_at + 5
        (project / "notes.md").write_text("changed\n", encoding="utf-8")
        os.utime(project / "notes.md", ns=(changed_at * 10**6,) * 2)
        noticed_at = await _after(session, sid, client, changed_at + 5)
        await session.read("/workspace/notes.md")

        believed = await client.believed_at(file.object_id, instant=changed_at + 1)
        true = await client.true_at(file.object_id, instant=changed_at + 1)
        before = await client.true_at(file.object_id, instant=read_at)
        state = await client.state_as_of(sid, system_time=noticed_at)

    assert isinstance(believed, File)
    assert isinstance(true, File)
    assert (believed.content, true.content) == ("# notes\n", "changed\n")
    assert before == believed
    assert state.objects[file.object_id] == believed


async def _after(session: Any, sid: str, client: Any, instant: int) -> int:
    """Write until the store's time has passed that instant; return its time."""
    now, n = 0, 0
    while now <= instant:
        n += 1
        await session.record(f"{sid}-w{n}", tool="t", args={}, output="")
        now = (await client.store.status()).system_time
    return now


async def test_a_session_is_forked_from_an_earlier_turn(
    store_url: str, sid: str, project: Path
) -> None:
    """A wrong turn can be tried again, and the first attempt is kept (003-R005, 003-R122)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        sent = await work(client, sid, project, turns=4)
        fork = await client.fork(sid, turn=2, new_session_id=f"{sid}-fork")
        prompt = await fork.render("another third")
        await fork.end_turn("done otherwise")

        parent = await client.stored_sets(sid)
        first = await client.prompt_as_of(f"{sid}-fork", turn=1)
        third = await client.prompt_as_of(f"{sid}-fork", turn=3)

    assert "done 2" in prompt
    assert "done 3" not in prompt
    assert f"{sid}-3" in parent.session_index
    assert f"{sid}-3" not in fork.sets.session_index
    assert first.text() == sent[0]
    assert third.text() == prompt
