"""The agent's tools, with commands that run on the host."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tool_definitions import DEFINITIONS
from ctxmgr.core.client.tools import Tools
from ctxmgr.core.objects.answers import toolcall_part
from ctxmgr.messages import anthropic, openai
from ctxmgr.sandboxes.host import Host


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[LiveSession]:
    """A session whose commands run in a temporary directory."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("one\ntwo\n", encoding="utf-8")
    host = await Host.start()
    try:
        url, directory = f"sqlite:///{tmp_path}/s.db", str(tmp_path / "work")
        async with ctxmgr.connect(url, sandbox=host, directory=directory) as client:
            yield await client.start("s1", system_prompt="")
    finally:
        await host.close()


async def call(session: LiveSession, name: str, n: int = 1, /, **args: Any) -> tuple[bool, str]:
    result = await Tools(session).dispatch(f"call-{name}-{n}", name=name, args=args)
    return result.ok, result.message


def pool_lines(session: LiveSession) -> list[str]:
    return session.context().pool.rope.text.splitlines()


async def test_a_read_shows_the_file(session: LiveSession) -> None:
    """A file the agent read stays visible and current (003-R108, 003-R145, 003-R173, 003-A35)."""
    assert await call(session, "read", path="a.py") == (True, "one\ntwo\n")

    assert any("a.py file_type=py char_count=8" in line for line in pool_lines(session))
    assert len(session.sets.active_set) == 2


async def test_a_part_of_a_file_is_read_and_the_object_is_whole(session: LiveSession) -> None:
    """The tool call holds the part, the object the whole file (003-A14)."""
    assert await call(session, "read", path="a.py", offset=2, limit=1) == (True, "two\n")

    assert any("char_count=8" in line for line in pool_lines(session))


async def test_a_written_file_is_known_but_not_active(session: LiveSession, tmp_path: Path) -> None:
    """The agent knows what it wrote (003-A10)."""
    assert (await call(session, "write", path="new/b.md", content="# b\n"))[0]

    assert (tmp_path / "work" / "new" / "b.md").read_text(encoding="utf-8") == "# b\n"
    assert any("b.md file_type=md char_count=4" in line for line in pool_lines(session))
    assert list(session.sets.active_set) == ["call-write-1"]


async def test_an_edit_replaces_text_that_occurs_once(session: LiveSession, tmp_path: Path) -> None:
    """An edit that matches two places is refused (003-A10)."""
    assert (await call(session, "edit", path="a.py", old="two", new="three"))[0]
    ok, message = await call(session, "edit", 2, path="a.py", old="e", new="x")

    assert not ok
    assert "3 times" in message
    assert (tmp_path / "work" / "a.py").read_text(encoding="utf-8") == "one\nthree\n"
    assert any("char_count=10" in line for line in pool_lines(session))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("ls", {}),
        ("grep", {"pattern": "two"}),
        ("find", {"name": "*.py"}),
        ("bash", {"command": "ls"}),
    ],
)
async def test_files_named_in_an_output_become_unread_stubs(
    session: LiveSession, name: str, args: dict[str, Any]
) -> None:
    """Listing a file does not read it (003-R108, 003-R176, 003-R179, PG-10)."""
    ok, _ = await call(session, name, **args)

    assert ok
    assert sum("a.py file_type=py [unread]" in line for line in pool_lines(session)) == 1


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("read", {"path": "missing"}, "cannot be read"),
        ("read", {"file": "a.py"}, "path"),
        ("bash", {"command": "exit 3"}, "[exit code 3]\n"),
        ("bash", {"command": "printf half; false"}, "half\n[exit code 1]\n"),
        (
            "bash",
            {"command": "sleep 60", "timeout_s": 0.2},
            "[timed out after 0.2 s; pass timeout_s]\n",
        ),
        ("ls", {"path": "missing"}, "[exit code 2]\n"),
        ("dance", {}, "there is no tool"),
    ],
)
async def test_a_failure_is_reported_to_the_agent(
    session: LiveSession, name: str, args: dict[str, Any], expected: str
) -> None:
    """A mistake of the agent does not end the loop, and is recorded (PG-10, 003-R075)."""
    ok, message = await call(session, name, **args)

    assert not ok
    assert expected in message
    assert pool_lines(session) == [f"id=call-{name}-1 type=toolcall tool={name} status=fail"]


async def test_diagnostics_of_a_failed_compiler_are_discovered(
    session: LiveSession, tmp_path: Path
) -> None:
    """Compilers print diagnostics mostly when they fail (003-R176, 003-A24)."""
    (tmp_path / "work" / "main.c").write_text("x\n", encoding="utf-8")
    fake = tmp_path / "work" / "gcc"
    fake.write_text("#!/bin/sh\necho 'main.c:1:1: error: no'; exit 1\n", encoding="utf-8")
    fake.chmod(0o755)

    ok, message = await call(session, "bash", command="./gcc main.c")

    assert (ok, message) == (False, "main.c:1:1: error: no\n[exit code 1]\n")
    assert any("main.c file_type=c [unread]" in line for line in pool_lines(session))


async def test_a_failed_listing_discovers_nothing(session: LiveSession) -> None:
    """Its output may be an error message, and a partial list looks complete (003-A24)."""
    ok, message = await call(session, "bash", command="ls a.py missing 2>/dev/null")

    assert (ok, message) == (False, "a.py\n[exit code 2]\n")
    assert len(pool_lines(session)) == 1


async def test_the_four_context_tools_create_no_object(session: LiveSession) -> None:
    """They change what is shown, and the chat records them (003-R101 to R107, 003-A06, PG-03)."""
    await call(session, "bash", command="echo hello")
    object_id = "call-bash-1"

    for name in ("pin", "deactivate", "activate", "unpin"):
        assert (await call(session, name, id=object_id)) == (True, f"{name}: {object_id}")
    refused = await call(session, "activate", 2, id="chat:s1")

    assert not refused[0]
    assert list(session.sets.session_index) == [object_id]
    part = toolcall_part("call-pin-1", call_id="c1", tool="pin", args={"id": object_id})
    await session.end_turn([part], user="")
    assert session.chat.turns[0].assistant[0]["type"] == "contextcall"
    assert session.chat.toolcall_refs == (object_id,)


def test_definitions_have_both_forms() -> None:
    """A harness hands them to its model as they are (003-R151, 003-A39)."""
    names = ["activate", "deactivate", "pin", "unpin", "read", "write", "edit"]
    names += ["ls", "grep", "find", "bash"]

    assert [definition["name"] for definition in anthropic.tool_definitions(DEFINITIONS)] == names
    assert [
        definition["function"]["name"] for definition in openai.tool_definitions(DEFINITIONS)
    ] == names
    schema = anthropic.tool_definitions(DEFINITIONS)[0]["input_schema"]
    assert schema["required"] == ["id"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        (
            "read",
            {"paht": "a.py"},
            "read: unknown argument 'paht'; did you mean 'path'? read takes path, offset, limit",
        ),
        ("read", {"path": "a.py", "x": 1}, "unknown argument 'x'; read takes path, offset, limit"),
        ("read", {}, "read: path is missing; read takes path, offset, limit"),
        ("read", {"path": 5}, "read: path must be a string, not 5"),
        ("read", {"path": ""}, "read: path must not be empty, not ''"),
        ("read", {"path": "a.py", "offset": 0}, "read: offset must be at least 1, not 0"),
        ("read", {"path": "a.py", "limit": "x"}, "read: limit must be an integer, not 'x'"),
        ("bash", {"command": "ls", "timeout_s": 9999}, "timeout_s must be at most 3600, not 9999"),
        ("bash", {"command": "ls", "timeout_s": 0}, "timeout_s must be more than 0, not 0"),
        ("grep", {"pattern": "x", "ignore_case": "so"}, "ignore_case must be true or false"),
        (
            "activate",
            {"object_id": "1"},
            "activate: unknown argument 'object_id'; activate takes id",
        ),
    ],
)
async def test_a_misspelt_argument_is_named_as_the_model_wrote_it(
    session: LiveSession, name: str, args: dict[str, Any], message: str
) -> None:
    """Told that the right one is missing, a model sends the wrong one again."""
    result = await Tools(session).dispatch("1", name=name, args=args)

    assert not result.ok
    assert message in result.message
