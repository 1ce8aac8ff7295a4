"""What a prompt shows of a session's objects, and what changes that."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr import Client, LiveSession
from ctxmgr.core.client.tools import Tools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("text of a\n", encoding="utf-8")
    (made / "b.txt").write_text("text of b\n", encoding="utf-8")
    return made


@pytest.fixture
async def client(tmp_path: Path, folder: Path) -> AsyncIterator[Client]:
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": str(folder), "filesystemId": "host"}]
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, mounts=mounts, filesystem_id="own", tracking=False) as opened:
        yield opened


@pytest.fixture
async def session(client: Client) -> LiveSession:
    return await client.start("s", system_prompt="Be careful.")


async def test_the_first_prompt_has_the_system_prompt(session: LiveSession) -> None:
    """003-R001, 003-R127: an agent is told who it is before it is asked anything."""
    assert await session.render("Hello?") == "Be careful.\n\nuser: Hello?\n"


async def test_what_was_read_at_once_and_folded_is_one_line_each(session: LiveSession) -> None:
    """Text is shown only while its object is active; the chat only refers to a call.

    Rows: 003-R003, 003-R008, 003-R013, 003-R128, 003-R134, 003-R135.
    """
    await session.render("Read both.")
    call = await session.record(
        "1", tool="cat", args={}, output="printed", reads=["a.txt", "b.txt"]
    )
    await session.end_turn("Read.")
    assert all(text in session.context().text() for text in ("text of a", "text of b", "printed"))

    for object_id in session.sets.metadata_pool:
        await session.deactivate(object_id)
    folded = await session.render("What now?")
    await session.activate("1")

    a, b = call.file_refs or ()
    assert folded == (
        "Be careful.\n\n"
        f"id={a} type=file path=/w/a.txt file_type=txt char_count=10\n"
        f"id={b} type=file path=/w/b.txt file_type=txt char_count=10\n"
        "id=1 type=toolcall tool=cat status=ok\n\n"
        "user: Read both.\nassistant: Read.\ntoolcall_ref id=1 tool=cat status=ok\n"
        "user: What now?\n"
    )
    assert (await session.render("And now?")).endswith("\n\nACTIVE_CONTENT id=1\nprinted\n")


async def test_every_prompt_has_the_whole_chat(session: LiveSession) -> None:
    """003-R001, 003-R012: an agent that forgets its first turns repeats them."""
    for name in ("one", "two", "three"):
        await session.render(f"Question {name}.")
        await session.end_turn(f"Answer {name}.")

    assert (await session.render("Question four.")).endswith(
        "user: Question one.\nassistant: Answer one.\n"
        "user: Question two.\nassistant: Answer two.\n"
        "user: Question three.\nassistant: Answer three.\n"
        "user: Question four.\n"
    )


async def test_the_line_of_a_file_follows_what_a_tool_wrote(
    session: LiveSession, folder: Path
) -> None:
    """003-R094, 003-R150: a length of the time before would tell the agent that its edit failed."""
    file = await session.read("a.txt")
    before = await session.render("Shorten it.")
    (folder / "a.txt").write_text("a\n", encoding="utf-8")
    await session.record("1", tool="shorten", args={}, output="", writes=["a.txt"])

    line = f"id={file.object_id} type=file path=/w/a.txt file_type=txt char_count="
    assert f"{line}10\n" in before
    assert f"{line}2\n" in await session.render("Shorten it.")


async def test_a_file_is_one_object_however_often_it_changes(
    client: Client, session: LiveSession, folder: Path
) -> None:
    """003-R010, 003-R011: whoever looks at a file's past finds all of it in one place."""
    file = await session.read("a.txt")
    (folder / "a.txt").write_text("again\n", encoding="utf-8")
    await session.record("1", tool="inspect", args={}, output="", reads=["/w/../w/a.txt"])
    (folder / "a.txt").unlink()
    await session.record("2", tool="inspect", args={}, output="", reads=["a.txt"])

    entries = (await client.store.history(file.object_id)).entries
    contents = [entry.document["content"] for entry in entries if entry.document is not None]
    assert contents == ["text of a\n", "again\n", None]
    assert [found for found in session.sets.session_index if found not in {"1", "2"}] == [
        file.object_id
    ]


@pytest.mark.parametrize("name", ["activate", "deactivate", "pin", "unpin"])
async def test_an_agent_cannot_add_an_object_of_another_session(
    client: Client, session: LiveSession, name: str
) -> None:
    """003-R101, 003-R111: knowing an id is not being allowed to see what it stands for."""
    other = await client.start("other", system_prompt="")
    secret = await other.read("b.txt")
    before, theirs = session.sets, other.sets

    result = await Tools(session).dispatch("1", name=name, args={"id": secret.object_id})

    assert not result.ok
    assert secret.object_id in result.message
    assert session.sets == before
    assert other.sets == theirs
    assert "text of b" not in session.context().text()
