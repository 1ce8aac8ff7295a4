"""The commands by which a user changes a session from outside, exports and imports it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr import File, FilesystemSource
from ctxmgr.app import App
from ctxmgr.settings import load_settings, state_dir
from ctxmgr.surfaces.local_state import (
    declared_mounts,
    project_sessions,
    remember_folder,
)
from tests.surfaces.worked_sessions import Worked, discover, json_of, mounts

Run = Callable[..., Result]


def test_a_user_folds_pins_and_activates(ctxmgr: Run, worked: Worked) -> None:
    """003-R101, 003-R105–R107: each reports the new level; the rules are those for agents."""
    options = ("--store", worked.url, "--json")

    folded = json_of(ctxmgr("deactivate", worked.sid, worked.notes, *options))
    pinned = json_of(ctxmgr("pin", worked.sid, worked.notes[:10], *options))
    activated = json_of(ctxmgr("activate", worked.sid, "/workspace/notes.md", *options))
    unpinned = json_of(ctxmgr("unpin", worked.sid, worked.notes, *options))

    result = [(item["level"], item["pinned"]) for item in (folded, pinned, activated, unpinned)]
    assert result == [("metadata", False), ("metadata", True), ("active", True), ("active", False)]


def test_a_change_without_effect_says_so(ctxmgr: Run, worked: Worked) -> None:
    """Scripts can be run twice."""
    options = ("--store", worked.url, "--json")

    once = json_of(ctxmgr("pin", worked.sid, worked.notes, *options))
    twice = json_of(ctxmgr("pin", worked.sid, worked.notes, *options))

    assert (once["changed"], twice["changed"]) == (True, False)


def test_a_file_that_was_only_seen_is_read_when_it_is_shown(ctxmgr: Run, worked: Worked) -> None:
    """The person says which folder the agent works in (003-R103)."""
    mount = f"/workspace={worked.project}"
    name = ("activate", worked.sid, "/workspace/src/main.py", "--mount", mount)
    assert ctxmgr(*name, "--store", worked.url).exit_code == 0

    printed = ctxmgr("context", worked.sid, "--store", worked.url)

    assert f"ACTIVE_CONTENT id={worked.stub}\nprint('one')\n" in printed.stdout


def test_mounts_that_only_the_store_names_are_not_read(ctxmgr: Run, worked: Worked) -> None:
    """Whoever wrote the store, or a bundle, could name any file of this machine (003-R104, D7)."""
    result = ctxmgr("activate", worked.sid, worked.stub, "--store", worked.url)

    assert result.exit_code == 6, result.stderr
    assert f"no access to the files of session {worked.sid}" in result.stderr
    assert "--mount" in result.stderr
    assert str(worked.project) not in result.stderr
    shown = json_of(ctxmgr("show", worked.stub, "--store", worked.url, "--json"))
    assert (shown["state"], shown["content"]) == ("stub", None)


def test_a_session_without_turns_does_not_open_the_whole_machine(
    ctxmgr: Run, home: Path, any_store_url: str
) -> None:
    """No turn means that no mounts are known, not that all files may be read (003-R104, D7)."""
    (home / "id_rsa").write_text("mine alone\n", encoding="utf-8")

    async def begin() -> str:
        async with library.connect(any_store_url, tracking=False) as client:
            session = await client.start("begun", system_prompt="")
            await session.record("begun-1", tool="bash", args={"command": f"find {home}"},
                                 output=f"{home}/id_rsa\n")  # fmt: skip
            (stub,) = [item for item in session.sets.metadata_pool if item != "begun-1"]
            return stub

    stub = asyncio.run(begin())
    result = ctxmgr("activate", "begun", stub, "--store", any_store_url)

    assert result.exit_code == 6, result.stderr
    assert "mine alone" not in ctxmgr("context", "begun", "--store", any_store_url).stdout


def test_the_folder_of_a_run_on_this_machine_is_known(
    ctxmgr: Run, worked: Worked, home: Path
) -> None:
    """Whoever ran the session here need not repeat where; in another store it means nothing."""
    app = App(load_settings(store=worked.url))
    remember_folder(app, worked.sid, folder=worked.project, agent_prefix="/workspace")
    other = App(load_settings(store=f"sqlite:///{home}/other.db"))

    shown = ctxmgr("activate", worked.sid, worked.stub, "--store", worked.url)

    assert shown.exit_code == 0, shown.stderr
    assert declared_mounts(other, worked.sid) == []


def test_a_folder_that_cannot_be_read_back_is_unknown(home: Path, worked: Worked) -> None:
    """A crash while it was written, or another version's file."""
    app = App(load_settings(store=worked.url))
    remember_folder(app, worked.sid, folder=worked.project)
    (file,) = (state_dir() / "folders").iterdir()

    for damage in (b"", b"[", b"[]", b"{}", b'{"folder": "/"}', b"[" * 100_000):
        file.write_bytes(damage)
        assert declared_mounts(app, worked.sid) == []
        assert project_sessions(app, worked.project) == []


def test_the_home_folder_is_not_the_project_of_all_below_it(
    worked: Worked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clients start their MCP servers there, which would reach every project."""
    person, project = tmp_path / "person", tmp_path / "person" / "project"
    (project / "part").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    app = App(load_settings(store=worked.url))
    for name, folder in (("home", person), ("whole", project), ("part", project / "part")):
        remember_folder(app, name, folder=folder)

    assert project_sessions(app, person) == ["home"]
    assert project_sessions(app, tmp_path) == []
    assert project_sessions(app, project) == ["part", "whole"]


@pytest.mark.parametrize("mount", ["/workspace", "=/tmp", "w=/tmp", "/w=", ""])
def test_a_mount_that_is_none_is_refused(ctxmgr: Run, worked: Worked, mount: str) -> None:
    """The example is in the message."""
    given = ("activate", worked.sid, worked.stub, "--mount", mount)

    result = ctxmgr(*given, "--store", worked.url)

    assert result.exit_code == 2
    assert "AGENT=FOLDER" in result.stderr


def test_a_file_that_lies_elsewhere_is_refused_with_a_reason(ctxmgr: Run, worked: Worked) -> None:
    """Read here, another machine's path would show another file (003-R104, 003-A33)."""
    source = FilesystemSource(filesystem_id="elsewhere", path=str(worked.project / "notes.md"))
    stub = asyncio.run(discover(worked, File.stub(source)))
    mount = f"/workspace={worked.project}"

    result = ctxmgr("activate", worked.sid, stub, "--mount", mount, "--store", worked.url)

    assert result.exit_code == 6, result.stderr
    assert "no access to the files" in result.stderr
    objects = json_of(ctxmgr("objects", worked.sid, "--store", worked.url, "--json"))["objects"]
    assert {line["object_id"]: line["level"] for line in objects}[stub] == "metadata"


@pytest.mark.parametrize("path", ["secret.txt", "project-2/secret.txt"])
def test_a_file_outside_the_declared_mounts_is_not_read(
    ctxmgr: Run, worked: Worked, path: str
) -> None:
    """The person may read it; the agent may not, and would see it (D7)."""
    secret = worked.project.parent / path
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("secret\n", encoding="utf-8")
    notes = json_of(ctxmgr("show", worked.notes, "--store", worked.url, "--json"))
    host = notes["fields"]["source"]["filesystemId"]
    source = FilesystemSource(filesystem_id=host, path=str(secret))
    stub = asyncio.run(discover(worked, File.stub(source)))
    mount = f"/workspace={worked.project}"

    result = ctxmgr("activate", worked.sid, stub, "--mount", mount, "--store", worked.url)

    assert result.exit_code == 6, result.stderr
    assert "secret\n" not in ctxmgr("context", worked.sid, "--store", worked.url).stdout


def test_other_kinds_are_refused_alike_whether_or_not_they_exist(
    ctxmgr: Run, worked: Worked
) -> None:
    """The answer must not tell a session's token what other sessions have done."""
    ids = [
        f"{kind}:{name}{rest}"
        for kind, rest in (("turn", ":1"), ("fork", ""), ("run", ""), ("lifecycle", ""))
        for name in (worked.sid, "nobody")
    ]
    for change in ("activate", "pin"):
        for object_id in (*ids, f"session:{worked.sid}", "chat:nobody"):
            result = ctxmgr(change, worked.sid, object_id, "--store", worked.url)
            kind = object_id.partition(":")[0]

            assert result.exit_code == 2, result.stderr
            assert f"{object_id} is a {kind}" in result.stderr


@pytest.mark.parametrize("any_store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("pin", "{sid}", "chat:{sid}"), 2, "fixed place in the prompt"),
        (("activate", "{sid}", "no-such-object"), 3, "(nearest: "),
        (("activate", "{sid}", "/workspace/no-such-file"), 3, "(nearest: /workspace/"),
        (("unpin", "no-such-session", "x"), 3, "no session no-such-session (nearest: "),
        (("log", "no-such-session"), 3, "no session no-such-session (nearest: "),
        (("log", "{sid}", "--before", "0"), 2, "before must be at least 1"),
        (("objects", "{sid}", "--cursor", "nonsense"), 2, "cursor"),
        (("objects", "{sid}", "--limit", "0"), 2, "limit"),
        (("context", "{sid}", "--turn", "9"), 3, "has no turn 9"),
        (("show", "no-such-thing"), 3, "no session or object no-such-thing (nearest: "),
        (("import", "no-such-file"), 3, "no-such-file"),
        (("import", "."), 2, "directory"),
        (("import", "{notes}"), 2, "not a bundle: pass a file that `ctxmgr export` has written"),
    ],
)
def test_the_error_for_an_invalid_request_says_what_to_do(
    ctxmgr: Run, worked: Worked, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    """One line states the mistake and the remedy, and scripts get a code."""
    given = [
        argument.format(sid=worked.sid, notes=worked.project / "notes.md") for argument in arguments
    ]

    result = ctxmgr(*given, "--store", worked.url)

    assert result.exit_code == exit_code, result.stderr
    assert message.lower() in result.stderr.lower()
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


async def test_a_user_and_an_agent_change_one_session(worked: Worked) -> None:
    """Compare and set: neither change is lost, and the agent's turn succeeds (003-A21)."""
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as agent:
        session = await agent.resume(worked.sid)
        await session.render("Go on.")
        async with library.connect(worked.url, mounts=where, tracking=False) as person:
            await (await person.visit(worked.sid)).pin(worked.notes)
        await session.record(f"{worked.sid}-9", tool="t", args={}, output="out")
        await session.end_turn("Done.")
        stored = await agent.stored_sets(worked.sid)

    assert worked.notes in stored.pinned_set
    assert f"{worked.sid}-9" in stored.active_set


async def test_an_output_activated_by_a_user_stays_for_a_window(worked: Worked) -> None:
    """An old folded output is activated while the agent is in the middle of a turn."""
    visible = []
    window = library.Window(turns_back=2)
    async with library.connect(worked.url, window=window, tracking=False) as agent:
        session = await agent.resume(worked.sid)
        for n in range(4, 10):
            visible.append(f"ACTIVE_CONTENT id={worked.sid}-2\n" in await session.render("Go on."))
            if n == 6:
                async with library.connect(worked.url, tracking=False) as person:
                    await (await person.visit(worked.sid)).activate(f"{worked.sid}-2")
            await session.record(f"{worked.sid}-{n}", tool="t", args={}, output="out")
            await session.end_turn("Done.")

    assert visible == [True, False, False, True, True, False]


def test_a_session_is_forked_at_an_earlier_turn(ctxmgr: Run, worked: Worked) -> None:
    """The user tries an alternative; the original is unchanged (003-R005, 003-R125)."""
    options, new = ("--store", worked.url), f"{worked.sid}-new"
    before = _log_entries(ctxmgr, worked.sid, worked.url)

    forked = json_of(ctxmgr("fork", worked.sid, "--turn", "2", new, *options, "--json"))
    again = json_of(ctxmgr("fork", new, "--turn", "1", f"{new}-2", *options, "--json"))
    fork = json_of(ctxmgr("show", new, *options, "--json"))

    assert forked == {"session_id": new, "parent": worked.sid, "turn": 2}
    assert again["turn"] == 1
    assert (fork["turns"], fork["state"]) == (2, "paused")
    assert _log_entries(ctxmgr, worked.sid, worked.url) == before
    assert _log_entries(ctxmgr, new, worked.url)[:2] == before[:2]


def test_a_fork_that_fails_says_why(ctxmgr: Run, worked: Worked) -> None:
    """No partial session is left behind, and none is overwritten (003-R006)."""
    options = ("--store", worked.url)

    for arguments, code, message in (
        ((worked.sid, "--turn", "9", "new"), 3, "has no turn 9"),
        ((worked.sid, "--turn", "0", "new"), 3, "has no turn 0"),
        ((worked.sid, worked.sid), 2, "exists already"),
        ((worked.sid, ""), 2, "session_id"),
        (("nobody", "new"), 3, "nobody"),
    ):
        result = ctxmgr("fork", *arguments, *options)
        assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert ctxmgr("show", "new", *options).exit_code == 3


def test_a_session_is_exported_into_another_store(ctxmgr: Run, worked: Worked, home: Path) -> None:
    """One file holds the whole session, and every prompt is verified (003-R005, 003-R007)."""
    bundle, there = home / "session.bundle", f"sqlite:///{home / 'there.db'}"

    exported = json_of(ctxmgr("export", worked.sid, str(bundle), "--store", worked.url, "--json"))
    imported = json_of(ctxmgr("import", str(bundle), "--store", there, "--json"))
    again = ctxmgr("context", worked.sid, "--turn", "2", "--store", there)

    assert exported["bytes"] == bundle.stat().st_size
    assert (imported["session_id"], imported["turns"]) == (worked.sid, 3)
    assert again.stdout == worked.sent[1]
    assert _log_entries(ctxmgr, worked.sid, there) == _log_entries(ctxmgr, worked.sid, worked.url)


def _log_entries(ctxmgr: Run, sid: str, url: str) -> Any:
    entries = json_of(ctxmgr("log", sid, "--store", url, "--json"))["entries"]
    return [{name: entry[name] for name in entry if name != "valid_time"} for entry in entries]


def test_an_export_does_not_overwrite_a_file(ctxmgr: Run, worked: Worked, home: Path) -> None:
    """A mistyped name must not destroy a file."""
    letter = home / "letter.txt"
    letter.write_text("dear", encoding="utf-8")

    result = ctxmgr("export", worked.sid, str(letter), "--store", worked.url)

    assert result.exit_code == 2
    assert letter.read_text(encoding="utf-8") == "dear"


def test_an_altered_bundle_is_not_imported(ctxmgr: Run, worked: Worked, home: Path) -> None:
    """None of it is trusted and nothing is written, not even an empty store."""
    bundle, there = home / "session.bundle", f"sqlite:///{home / 'there.db'}"
    assert ctxmgr("export", worked.sid, str(bundle), "--store", worked.url).exit_code == 0
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)

    result = ctxmgr("import", str(bundle), "--store", there)

    assert result.exit_code == 8, result.stderr
    assert "nothing was imported; export it again" in result.stderr
    assert "stored data" not in result.stderr
    assert str(bundle) in result.stderr
    assert not list(home.glob("there.db*")), "a bad file creates no store"
