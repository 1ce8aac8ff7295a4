"""The commands about one object: a version, two versions, and what was known when."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr import File, FilesystemSource
from tests.surfaces.worked_sessions import Worked, discover, json_of, mounts

Run = Callable[..., Result]


def test_an_object_is_shown_with_its_content(ctxmgr: Run, worked: Worked) -> None:
    """The id of any object is enough to read it."""
    result = json_of(ctxmgr("show", worked.notes, "--store", worked.url, "--json"))

    assert (result["kind"], result["state"], result["content"]) == ("file", "live", "port = 9090\n")
    assert result["fields"]["source"]["path"] == str(worked.project / "notes.md")


@pytest.mark.parametrize(("version", "content"), [("1", "8080"), ("-1", "9090"), ("-2", "8080")])
def test_a_version_is_shown_by_its_number(
    ctxmgr: Run, worked: Worked, version: str, content: str
) -> None:
    """Version numbers are easier to remember than milliseconds (003-R005)."""
    result = json_of(
        ctxmgr("show", worked.notes, "--version", version, "--store", worked.url, "--json")
    )

    assert result["content"] == f"port = {content}\n"


def test_a_missing_version_is_not_found(ctxmgr: Run, worked: Worked) -> None:
    """The error says how many there are."""
    result = ctxmgr("show", worked.notes, "--version", "7", "--store", worked.url)

    assert result.exit_code == 3
    assert "has 2 versions, but no version 7" in result.stderr


@pytest.mark.parametrize("name", ["beginning", "path", "id"])
def test_inside_a_session_an_object_has_short_names(ctxmgr: Run, worked: Worked, name: str) -> None:
    """Users type the first digits of an id, or the path."""
    names = {"beginning": worked.notes[:8], "path": "/workspace/notes.md", "id": worked.notes}
    within = ("--session", worked.sid, "--store", worked.url, "--json")

    result = json_of(ctxmgr("show", names[name], *within))

    assert (result["object_id"], result["level"]) == (worked.notes, "active")


def test_a_file_private_to_the_sandbox_is_found_by_its_path(ctxmgr: Run, worked: Worked) -> None:
    """It is on no mount, but the list shows it under that path."""
    file = File.stub(FilesystemSource(filesystem_id="a-sandbox", path="/etc/motd"))
    stub = asyncio.run(discover(worked, file))

    result = json_of(
        ctxmgr("show", "/etc/motd", "--session", worked.sid, "--store", worked.url, "--json")
    )

    assert result["object_id"] == stub


def test_a_path_of_files_in_two_sandboxes_is_ambiguous(ctxmgr: Run, worked: Worked) -> None:
    """The session was resumed in another sandbox; a guess could show the wrong file."""
    for filesystem in ("a-sandbox", "another"):
        source = FilesystemSource(filesystem_id=filesystem, path="/etc/motd")
        asyncio.run(discover(worked, File.stub(source)))

    result = ctxmgr("show", "/etc/motd", "--session", worked.sid, "--store", worked.url)

    assert result.exit_code == 2
    assert "2 files match '/etc/motd'" in result.stderr


def test_a_session_has_versions_too(ctxmgr: Run, worked: Worked) -> None:
    """They are versions of its sets, which `diff` compares."""
    result = json_of(ctxmgr("show", worked.sid, "--version", "1", "--store", worked.url, "--json"))

    assert result["object_id"] == f"session:{worked.sid}"
    assert result["fields"]["session_index"] == []


def test_a_prefix_of_an_id_is_not_searched_in_the_whole_store(ctxmgr: Run, worked: Worked) -> None:
    """No store has such an index; the message says what works instead."""
    for name in (worked.notes[:8], "#1", "/workspace/notes.md"):
        result = ctxmgr("show", name, "--store", worked.url)

        assert result.exit_code == 3
        assert f"no session or object {name}: name its session with `--session`" in result.stderr
        assert "nearest" not in result.stderr


def test_an_ambiguous_prefix_is_refused(ctxmgr: Run, worked: Worked) -> None:
    """A guess could pin or fold the wrong object."""
    result = ctxmgr("pin", worked.sid, worked.sid, "--store", worked.url)

    assert result.exit_code == 2
    assert f"2 objects begin with {worked.sid}" in result.stderr


def test_a_session_is_shown_as_it_was(ctxmgr: Run, worked: Worked) -> None:
    """After its first turn it had no pin yet."""
    log = json_of(ctxmgr("log", worked.sid, "--store", worked.url, "--json"))
    at = ("--system-time", str(log["entries"][0]["valid_time"]))

    result = json_of(ctxmgr("show", worked.sid, *at, "--store", worked.url, "--json"))

    assert (result["turns"], result["pinned"], result["last_answer"]) == (1, 0, "It is 8080.")


def test_two_versions_are_compared(ctxmgr: Run, worked: Worked) -> None:
    """By default the last two, as a unified diff."""
    result = json_of(ctxmgr("diff", worked.notes, "--store", worked.url, "--json"))

    assert result["diff"] == "--- before\n+++ after\n@@ -1 +1 @@\n-port = 8080\n+port = 9090\n"
    assert (result["before"]["version"], result["after"]["version"]) == (1, 2)
    assert result["fields"] == []


def test_a_list_is_compared_by_added_and_removed_items(ctxmgr: Run, worked: Worked) -> None:
    """Two versions of a session differ by a few ids among thousands."""
    numbers = ("--from", "1", "--to", "-1")

    result = json_of(ctxmgr("diff", worked.sid, *numbers, "--store", worked.url, "--json"))

    changed = {field["field"]: field["added"] for field in result["fields"]}
    assert changed["pinned_set"] == [f"{worked.sid}-1"]
    assert changed["active_set"] == [worked.notes, f"{worked.sid}-1", f"{worked.sid}-2"]


def test_prompts_of_two_turns_are_compared(ctxmgr: Run, worked: Worked) -> None:
    """The diff shows what was new for the model, and how much of the prefix stayed."""
    turns = ("--from-turn", "1", "--to-turn", "2")

    result = json_of(ctxmgr("diff", worked.sid, *turns, "--store", worked.url, "--json"))

    assert "+assistant: It is 8080.\n" in result["diff"]
    one, other = (item[: result["common_chars"] + 1] for item in worked.sent[:2])
    assert one[:-1] == other[:-1]
    assert one != other
    same = {section["section"]: section["same"] for section in result["sections"]}
    assert same == {
        "system_prompt": True,
        "metadata_pool": False,
        "chat": False,
        "active_content": False,
    }


@pytest.mark.parametrize(
    "options", [("--from-turn", "1", "--from", "1"), ("--from-turn", "2", "--to-turn", "9")]
)
def test_an_invalid_comparison_is_refused(
    ctxmgr: Run, worked: Worked, options: tuple[str, ...]
) -> None:
    """Turns and versions cannot be mixed, and a turn must exist."""
    result = ctxmgr("diff", worked.sid, *options, "--store", worked.url)

    assert result.exit_code in {2, 3}
    assert result.stdout == ""


async def _notice_late(worked: Worked) -> int:
    """Change the file on disk and index it later; return a point in between."""
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        session = await client.resume(worked.sid)
        status = await client.store.status()
        changed_at = (status.system_time or 0) + 5
        path = worked.project / "notes.md"
        path.write_text("port = 7070\n", encoding="utf-8")
        os.utime(path, ns=(changed_at * 10**6,) * 2)
        now, n = 0, 0
        while now <= changed_at + 5:
            n += 1
            await session.record(f"{worked.sid}-w{n}", tool="t", args={}, output="")
            now = (await client.store.status()).system_time or 0
        await session.read("/workspace/notes.md")
    return changed_at + 1


def test_what_was_known_is_distinguished_from_what_was_true(ctxmgr: Run, worked: Worked) -> None:
    """The agent made no mistake: the change was not yet indexed (003-R005, D3)."""
    between = asyncio.run(_notice_late(worked))

    result = json_of(ctxmgr("as-of", worked.notes, str(between), "--store", worked.url, "--json"))

    assert result["same"] is False
    assert result["content"] == "port = 9090\n"
    assert result["diff"].endswith("-port = 9090\n+port = 7070\n")


def test_a_session_lists_files_that_were_outdated(ctxmgr: Run, worked: Worked) -> None:
    """Of all its files, one had changed without being indexed."""
    between = asyncio.run(_notice_late(worked))

    result = json_of(ctxmgr("as-of", worked.sid, str(between), "--store", worked.url, "--json"))

    assert [entry["name"] for entry in result["differing"]] == ["/workspace/notes.md"]
    assert result["turns"] == 3


def test_a_point_before_the_session_started_is_an_error(ctxmgr: Run, worked: Worked) -> None:
    """A date that is too early must not give an empty table."""
    result = ctxmgr("as-of", worked.sid, "1970-01-02T00:00:00Z", "--store", worked.url)

    assert result.exit_code == 3


def test_a_deleted_file_is_distinguished_from_a_binary_one(
    ctxmgr: Run, worked: Worked, home: Path
) -> None:
    """The list shows its state, and its history stays (003-R010)."""
    (worked.project / "notes.md").unlink()
    asyncio.run(_resume(worked))

    result = json_of(ctxmgr("objects", worked.sid, "--store", worked.url, "--json"))
    then = json_of(ctxmgr("show", worked.notes, "--version", "2", "--store", worked.url, "--json"))

    assert result["objects"][0]["state"] == "deleted"
    assert then["state"] == "live"


async def _resume(worked: Worked) -> None:
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        await client.resume(worked.sid)
