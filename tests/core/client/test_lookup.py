"""The names by which an agent, a person or a program means an object of a session."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr import Client, Incorrect, NotFound, Tools
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.objects.answers import toolcall_part
from ctxmgr.core.sessions.sets import Level
from ctxmgr.surfaces.views.changes import change_sets
from ctxmgr.surfaces.views.lookup import require_session, resolve_member

LOG = "".join(f"step {n} of the build has finished\n" for n in range(400))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "a.py").write_text("A = 1\n", encoding="utf-8")
    (project / "b.md").write_text("b\n", encoding="utf-8")
    mounts = [{"agentPrefix": "/work", "canonicalPrefix": str(project)}]
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, mounts=mounts, tracking=False, policy="economy") as client:
        yield client


async def take_turns(client: Client) -> tuple[LiveSession, str, str]:
    """Read a file, list another and print a long log; return the session and both files' ids."""
    session = await client.start("s1", system_prompt="")
    await session.render("Go.")
    calls = [
        ("call-log", "bash", {"command": "make"}, LOG),
        ("call-find", "bash", {"command": "find ."}, "./src/a.py\n./b.md\n"),
    ]
    for call, tool, args, output in calls:
        await session.record(call, tool=tool, args=args, output=output)
    await session.end_turn(
        [toolcall_part(call, call_id=call, tool=tool, args=args) for call, tool, args, _ in calls]
    )
    files = [item for item in session.sets.session_index if not item.startswith("call-")]
    return session, files[0], files[1]


@pytest.mark.parametrize("tool", ["activate", "deactivate", "pin", "unpin"])
async def test_every_context_tool_takes_every_name(client: Client, tool: str) -> None:
    """003-R101, 003-R105: models write what they see, and that is rarely 64 hex digits."""
    session, first, second = await take_turns(client)
    await session.render("Next.")
    names = ["call-log", "#1", "call-l", first, first[:6], "/work/src/a.py", "src/a.py", "b.md"]

    results = [
        await Tools(session).dispatch(f"{tool}-{n}", name=tool, args={"id": name})
        for n, name in enumerate(names)
    ]

    assert [result.message for result in results if not result.ok] == []
    shown = {"call-log", first, second}
    levels = {object_id for object_id in shown if session.sets.level(object_id) is Level.ACTIVE}
    match tool:
        case "activate":
            assert levels == shown
        case "pin":
            assert set(session.sets.pinned_set) == shown
        case _:
            assert not levels & {"call-log"} or tool == "unpin"
            assert not set(session.sets.pinned_set)


async def test_a_handle_is_known_before_the_first_prompt_after_a_resume(client: Client) -> None:
    """The agent names what the last prompt showed it, and sees all of it in the next one."""
    await take_turns(client)
    await client.pause("s1")
    session = await client.resume("s1")

    await session.activate("#1")

    assert LOG in await session.render("Next.")


async def test_a_person_names_objects_as_the_agent_does(client: Client) -> None:
    """The inspector and the prompt show handles; the command line and MCP used to refuse them."""
    session, first, _ = await take_turns(client)
    prompt = await session.render("Next.")
    await session.end_turn("Done.")
    store, stored = client.store, await require_session(client.store, "s1")

    found = [
        await resolve_member(store, stored, name)
        for name in ("#1", "#2", "call-l", first[:6], "/work/src/a.py", "src/a.py")
    ]
    changed = await change_sets(store, "s1", "#1", change="pin")

    assert "toolcall #1 tool=bash" in prompt
    assert found == ["call-log", "call-find", "call-log", first, first, first]
    assert (changed.object_id, changed.pinned) == ("call-log", True)


async def test_stored_handles_are_those_of_the_prompt(client: Client) -> None:
    """Notices have handles, too, and those asked back keep the ones they had."""
    session, _, _ = await take_turns(client)
    await session.read("/work/b.md")
    await session.activate("#1")
    await session.render("Next.")
    await session.record("call-3", tool="bash", args={"command": "true"}, output="ok\n")
    await session.end_turn("Done.")
    await session.render("And now?")
    assert session._economy is not None
    live = dict(session._economy.handles)

    stored = await require_session(client.store, "s1")

    assert len(live) == 4
    for handle, object_id in live.items():
        assert await resolve_member(client.store, stored, handle) == object_id


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("#99", NotFound, "has no handle '#99'"),
        ("/work/none.py", NotFound, "has seen no file '/work/none.py'"),
        ("call-", Incorrect, "2 objects begin with call-"),
        ("nonesuch", NotFound, "nonesuch is not in the index of session s1"),
        ("cal", NotFound, "cal is not in the index"),
    ],
)
async def test_a_wrong_name_is_explained(
    client: Client, name: str, error: type[Exception], says: str
) -> None:
    """The agent reads the message and corrects itself."""
    session, _, _ = await take_turns(client)

    with pytest.raises(error, match=says):
        await session.activate(name)
