"""``record``: a harness says what its tools did, and learns what became of the files."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr import (
    Client,
    FileAccess,
    FileResult,
    FileState,
    Incorrect,
    IndexedToolCall,
    LiveSession,
    ToolCall,
)
from ctxmgr.core.client.tool_calls import OUTPUT_CUT, TOUCHED_MAX
from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.objects.codec import from_document

SAID_OF_A_CALL = ("tool", "args", "args_display", "status", "chat_ref", "file_refs", "content")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("text a\n", encoding="utf-8")
    (made / "b.txt").write_text("text b\n", encoding="utf-8")
    (made / "c.bin").write_bytes(b"\xff\x00")
    return made


@pytest.fixture
async def client(tmp_path: Path, folder: Path) -> AsyncIterator[Client]:
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": str(folder), "filesystemId": "host"}]
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, mounts=mounts, filesystem_id="own", tracking=False) as opened:
        yield opened


@pytest.fixture
async def session(client: Client) -> LiveSession:
    return await client.start("s", system_prompt="")


def results(call: IndexedToolCall) -> dict[str, str]:
    return {outcome.path: str(outcome.result) for outcome in call.outcomes}


async def test_a_stored_call_has_all_that_the_harness_said_of_it(
    client: Client, session: LiveSession
) -> None:
    """003-R072 to R077: whoever looks for a mistake needs what was called, not what it printed."""
    args = {"command": "cat a.txt", "options": {"timeout": [1, 2.5, None]}}

    await session.record(
        "1", tool="Bash", args=args, args_display="cat", output="text a\n", reads=["a.txt"]
    )

    stored = await client.store.get("1")
    assert stored is not None
    file_id = next(found for found in session.sets.session_index if found != "1")
    assert {name: stored.document[name] for name in SAID_OF_A_CALL} == {
        "tool": "Bash",
        "args": args,
        "args_display": "cat",
        "status": "ok",
        "chat_ref": "chat:s",
        "file_refs": [file_id],
        "content": "text a\n",
    }


async def test_every_version_of_a_session_has_the_same_id_chat_and_system_prompt(
    client: Client, session: LiveSession
) -> None:
    """003-R086 to R088: a session that changed hands could not be resumed from its document."""
    await session.record("1", tool="ls", args={}, output="a.txt\n", reads=["a.txt"])
    await session.end_turn("One.", user="")
    await session.deactivate("1")
    await session.change_system_prompt("Be brief.")
    await session.record("2", tool="ls", args={}, output="b.txt\n")
    await session.end_turn("Two.", user="")

    entries = (await client.store.history("session:s", corrections=True)).entries
    documents = [entry.document for entry in entries if entry.document is not None]
    references = [
        (document["session_id"], document["chat_ref"], document["system_prompt_ref"])
        for document in documents
    ]
    assert len(documents) > 3
    assert set(references) == {("s", "chat:s", "system_prompt:s")}
    chat, prompt = (await client.store.get_many(references[0][1:])).values()
    assert (chat.document["turn_count"], prompt.document["content"]) == (2, "Be brief.")


async def test_a_harness_says_which_files_any_tool_read_and_wrote(
    session: LiveSession, folder: Path
) -> None:
    """003-R108, 003-R145: the client cannot know the tools of every harness by name."""
    first = await session.record(
        "1",
        tool="inspect",
        args={},
        output="…",
        reads=["a.txt", Path("/w/c.bin")],
        writes=["b.txt"],
    )
    (folder / "b.txt").write_text("changed\n", encoding="utf-8")
    second = await session.record(
        "2", tool="inspect", args={}, output="…", reads=("/w/a.txt",), writes=("/w/b.txt",)
    )

    assert results(first) == {"/w/a.txt": "created", "/w/c.bin": "created", "/w/b.txt": "created"}
    assert results(second) == {"/w/a.txt": "unchanged", "/w/b.txt": "updated"}
    by_path = {outcome.path: outcome for outcome in first.outcomes}
    assert by_path["/w/c.bin"].state is FileState.NONTEXT
    assert by_path["/w/b.txt"].access is FileAccess.WRITTEN
    assert list(first.file_refs or ()) == [outcome.object_id for outcome in first.outcomes]
    shown = [by_path["/w/a.txt"].object_id, "1", "2"]
    assert list(session.sets.active_set) == shown, "text that was read, and no other file"


async def test_every_path_has_an_outcome_with_its_reason(
    session: LiveSession, folder: Path
) -> None:
    """§5.6: created, updated, unchanged, or why nothing is stored; never an exception."""
    (folder / "large.txt").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    call = await session.record(
        "1",
        tool="x",
        args={},
        output="",
        reads=["/w/gone.txt", "/w", "/w/large.txt", "/w/nul\0"],
    )

    outcomes = {outcome.path: outcome for outcome in call.outcomes}
    assert outcomes["/w/gone.txt"].result is FileResult.REFUSED
    assert outcomes["/w"].reason == "a folder"
    assert outcomes["/w/large.txt"].state is FileState.STUB
    assert "at most are read" in (outcomes["/w/large.txt"].reason or "")
    assert "NUL" in (outcomes["/w/nul\0"].reason or "")
    assert call.file_refs == (outcomes["/w/large.txt"].object_id,)


async def test_files_that_an_output_names_have_outcomes_too(session: LiveSession) -> None:
    """003-R177, 003-R178: discovery says what it created, and that it changed nothing."""
    await session.read("/w/a.txt")

    call = await session.record("1", tool="bash", args={"command": "ls"}, output="a.txt\nb.txt\n")

    assert {outcome.path: (outcome.access, outcome.result) for outcome in call.outcomes} == {
        "/w/a.txt": (FileAccess.NAMED, FileResult.UNCHANGED),
        "/w/b.txt": (FileAccess.NAMED, FileResult.CREATED),
    }


async def test_a_file_may_be_written_and_named_by_one_call(session: LiveSession) -> None:
    """One transaction writes an object once: the content, not the stub."""
    call = await session.record(
        "1", tool="bash", args={"command": "ls"}, output="a.txt\nb.txt\n", writes=["/w/a.txt"]
    )

    a, b = call.outcomes
    assert (a.path, a.access, a.state) == ("/w/a.txt", FileAccess.WRITTEN, FileState.LIVE)
    assert (b.path, b.access, b.state) == ("/w/b.txt", FileAccess.NAMED, FileState.STUB)


async def test_what_is_given_replaces_what_the_names_say(session: LiveSession) -> None:
    """The harness knows better: a tool called read that read something else."""
    call = await session.record(
        "1", tool="read", args={"path": "/w/a.txt"}, output="", reads=["/w/b.txt"]
    )
    none = await session.record("2", tool="read", args={"path": "/w/a.txt"}, output="", reads=[])

    assert results(call) == {"/w/b.txt": "created"}
    assert none.outcomes == ()


async def test_a_failed_call_may_have_written(session: LiveSession) -> None:
    """A build that failed has changed files, and only the harness knows which."""
    call = await session.record(
        "1", tool="build", args={}, output="error", status="fail", writes=["/w/a.txt"]
    )

    assert results(call) == {"/w/a.txt": "created"}


async def test_many_large_files_are_more_than_one_transaction(
    session: LiveSession, folder: Path
) -> None:
    """All of them are stored, and all belong to the call."""
    names = [f"/w/{number}.txt" for number in range(4)]
    for name in names:
        (folder / Path(name).name).write_bytes(b"x" * (FILE_BYTES_MAX - 1))

    call = await session.record("1", tool="x", args={}, output="", reads=names)

    assert results(call) == dict.fromkeys(names, "created")
    assert len(call.file_refs or ()) == len(names)
    assert len(session.sets.active_set) == len(names) + 1
    with pytest.raises(Incorrect, match="at most 100"):
        await session.record(
            "2", tool="x", args={}, output="", reads=[f"/w/{n}" for n in range(TOUCHED_MAX + 1)]
        )


async def test_a_file_that_only_the_sandbox_can_read_leaves_a_trace(
    session: LiveSession,
) -> None:
    """003-R173, 003-R145: the agent read it, so the session knows that it exists."""
    call = await session.record(
        "1", tool="read", args={"path": "/etc/os-release"}, output="NAME=x\n"
    )

    (outcome,) = call.outcomes
    assert (outcome.result, outcome.state) == (FileResult.CREATED, FileState.STUB)
    assert "path=/etc/os-release file_type= [unread]\n" in await session.render("q")


async def test_a_call_is_not_lost_because_of_its_form(client: Client, session: LiveSession) -> None:
    """Harnesses hold paths and tuples, and decode with surrogateescape."""
    args = {"path": Path("/w/a.txt"), "range": (1, 2), "name": "caf\udce9", "ratio": float("nan")}

    call = await session.record("1", tool="x", args=args, output="caf\udce9\n")

    stored = await client.store.get("1")
    assert stored is not None
    expected = {"path": "/w/a.txt", "range": [1, 2], "name": "caf\ufffd", "ratio": None}
    assert stored.document["args"] == expected
    assert stored.document["content"] == "caf\ufffd\n"
    again = await session.record("1", tool="x", args=args, output="caf\udce9\n")
    assert again == call, "recording it again changes nothing"


async def test_an_output_that_no_document_can_hold_keeps_its_ends(
    client: Client, session: LiveSession
) -> None:
    """3 MiB of control characters are 18 MiB in a document; the call happened all the same."""
    output = "begin" + "\x01" * (3 << 20) + "end"

    await session.record("1", tool="bash", args={"command": "noise"}, output=output)

    stored = await client.store.get("1")
    assert stored is not None
    content = stored.document["content"]
    assert content.startswith("begin\x01")
    assert content.endswith("\x01end")
    head, marker, tail = content.partition("\n[… ")
    count = int(tail.partition(" characters")[0].replace(",", ""))
    kept = len(content) - len(OUTPUT_CUT.format(count=count))
    assert marker
    assert head
    assert kept + count == len(output)
    assert kept > len(output) * 0.8, "no more is left out than necessary"


async def test_arguments_that_no_document_can_hold_are_refused(session: LiveSession) -> None:
    """Half an argument would be another call: the harness is told instead."""
    with pytest.raises(Incorrect, match="the arguments have"):
        await session.record("1", tool="x", args={"text": "x" * (17 << 20)}, output="y" * 9_000_000)


async def test_the_returned_call_is_the_stored_one(client: Client, session: LiveSession) -> None:
    """What callers did with the returned tool call before, they can still do."""
    call = await session.record("1", tool="x", args={}, output="y")
    version = await client.store.get("1")
    assert version is not None

    stored = from_document(version.document)

    assert isinstance(call, ToolCall)
    assert call == stored
    assert stored == call
    assert len({call, call}) == 1
    assert call != "1"


async def test_paths_are_a_list_of_absolute_paths(session: LiveSession) -> None:
    """A string is a list of letters, and each would be looked for."""
    with pytest.raises(Incorrect, match="must be a list"):
        await session.record("1", tool="x", args={}, output="", reads="/w/a.txt")
    with pytest.raises(Incorrect, match="one file"):
        await session.record(
            "1", tool="x", args={}, output="", reads=["/w/a.txt", "/w/b.txt"], faithful=True
        )
    assert "1" not in session.sets.session_index
