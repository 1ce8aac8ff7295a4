"""The spool of hooks: quick to append to, and stored in order, once, whatever crashes."""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctxmgr import Store, Unavailable, open_store
from ctxmgr.integrations.agents import capture, hook_process, spool
from ctxmgr.integrations.agents.drain import Drain
from ctxmgr.integrations.agents.events import AgentEvent
from ctxmgr.integrations.agents.spool import (
    SpooledEvent,
    SpoolError,
    append,
    is_pending,
    read_batch,
    refuse,
    refused_count,
    spool_folder,
    take_batches,
)
from ctxmgr.surfaces.terminal.cli import COMMANDS

URL = "sqlite:////store.db"
ENTRY = "from ctxmgr.surfaces.terminal.entry import main; main()"


def event(name: str, *, at: int = 1, **fields: Any) -> SpooledEvent:
    common = {"hook_event_name": name, "session_id": "s1", "cwd": "/work"}
    data = json.dumps({**common, **fields}).encode()
    return SpooledEvent(at=at, project="", client_folder="/home", data=data)


def spool_events(folder: Path, *events: SpooledEvent) -> None:
    for one in events:
        append(str(folder), one, url=URL, base="/")


async def drained(folder: Path, store: Store, project: Path) -> None:
    (project / "project").mkdir(exist_ok=True)
    drain = Drain(folder=folder, store=store, project_of=lambda _: project / "project")
    assert await drain.run() is not None


CONVERSATION = (
    event("UserPromptSubmit", at=1, prompt="one"),
    event("PostToolUse", at=2, tool_name="Bash", tool_input={}, tool_response="x", tool_use_id="1"),
    event("Stop", at=3, last_assistant_message="first"),
    event("UserPromptSubmit", at=4, prompt="one"),
    event("PostToolUse", at=5, tool_name="Bash", tool_input={}, tool_response="y", tool_use_id="2"),
)


async def told(store: Store) -> list[tuple[str, list[str]]]:
    chat = await store.get("chat:s1")
    turns = [] if chat is None else chat.document["turns"]
    return [(turn["user"], turn["toolcall_ids"]) for turn in turns]


@pytest.mark.parametrize("crash_after", range(1, 6))
async def test_after_a_crash_everything_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_after: int
) -> None:
    """The file is read again from its start: no call and no turn is lost or doubled."""
    folder = tmp_path / "spool" / "x"
    spool_events(folder, *CONVERSATION)
    applied = 0
    original = capture.SessionCapture.apply

    async def apply(self: capture.SessionCapture, one: Any) -> None:
        nonlocal applied
        await original(self, one)
        applied += 1
        if applied == crash_after:
            raise KeyboardInterrupt

    async with await open_store(tmp_path / "store.db") as store:
        with monkeypatch.context() as patched:
            patched.setattr(capture.SessionCapture, "apply", apply)
            with pytest.raises(KeyboardInterrupt):
                await drained(folder, store, tmp_path)
        assert is_pending(str(folder))

        await drained(folder, store, tmp_path)
        spool_events(folder, event("Stop", at=6, last_assistant_message="second"))
        await drained(folder, store, tmp_path)

        assert await told(store) == [("one", ["1"]), ("one", ["2"])]
        assert not is_pending(str(folder))


async def test_a_crash_before_the_file_is_deleted_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt that waits for its answer is not taken for an interrupted turn."""
    folder = tmp_path / "spool" / "x"
    spool_events(folder, *CONVERSATION)

    def crash(_path: str) -> None:
        raise KeyboardInterrupt

    async with await open_store(tmp_path / "store.db") as store:
        with monkeypatch.context() as patched:
            patched.setattr("ctxmgr.integrations.agents.drain.delete_batch", crash)
            with pytest.raises(KeyboardInterrupt):
                await drained(folder, store, tmp_path)

        await drained(folder, store, tmp_path)
        spool_events(folder, event("Stop", at=6, last_assistant_message="second"))
        await drained(folder, store, tmp_path)

        assert await told(store) == [("one", ["1"]), ("one", ["2"])]


async def test_turns_of_sessions_long_over_are_deleted(tmp_path: Path) -> None:
    """A state folder does not grow with every session that there ever was."""
    folder = tmp_path / "spool" / "x"
    async with await open_store(tmp_path / "store.db") as store:
        for session in ("old", "recent"):
            spool_events(folder, event("UserPromptSubmit", session_id=session, prompt="one"))
            await drained(folder, store, tmp_path)
            if session == "old":
                [old] = (folder / "turns").iterdir()
        recent = {*(folder / "turns").iterdir()} - {old}
        os.utime(old, (1.0, 1.0))
        spool_events(folder, event("Stop", at=2, session_id="s3", last_assistant_message="x"))
        await drained(folder, store, tmp_path)

        kept = {*(folder / "turns").iterdir()}
        assert old not in kept
        assert recent < kept


async def test_what_cannot_be_stored_is_kept_with_the_reason(tmp_path: Path) -> None:
    """One bad event does not stop those behind it."""
    folder = tmp_path / "spool" / "x"
    damaged = SpooledEvent(at=1, project="", client_folder="", data=b'{"hook_event_name"')
    spool_events(folder, damaged, event("PostToolUse", tool_name=5), *CONVERSATION[:3])

    async with await open_store(tmp_path / "store.db") as store:
        await drained(folder, store, tmp_path)

        assert await told(store) == [("one", ["1"])]
    assert refused_count(str(folder)) == 2
    assert b"'tool_name' of a hook's event is text, not 5" in (folder / "refused").read_bytes()


async def test_an_event_that_fails_in_an_unforeseen_way_blocks_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be read again, and fail again, before every command; a store that is away waits."""
    folder = tmp_path / "spool" / "x"
    spool_events(folder, *CONVERSATION[:3], event("Stop", session_id="s2"))
    original = capture.SessionCapture.apply
    failure: Exception = Unavailable("the disk is full")

    async def apply(self: capture.SessionCapture, one: Any) -> None:
        if one.at == 2:
            raise failure
        await original(self, one)

    def project_of(one: AgentEvent) -> Path:
        return (tmp_path / ("loop" if one.session == "s2" else "project")).resolve()

    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.setattr(capture.SessionCapture, "apply", apply)
    async with await open_store(tmp_path / "store.db") as store:
        drain = Drain(folder=folder, store=store, project_of=project_of)
        with pytest.raises(Unavailable):
            await drain.run()
        assert (is_pending(str(folder)), refused_count(str(folder))) == (True, 0)

        failure = ZeroDivisionError("by zero")
        await drain.run()

        assert await told(store) == [("one", [])]
    assert not is_pending(str(folder))
    refused = (folder / "refused").read_bytes()
    assert b"ZeroDivisionError: by zero" in refused
    assert b"loop" in refused


async def test_a_call_id_that_cannot_be_used_loses_no_call(tmp_path: Path) -> None:
    """Some models count their calls from one in every answer."""
    folder = tmp_path / "spool" / "x"
    call: dict[str, Any] = {"tool_name": "Bash", "tool_input": {}}
    ids = ["call_1"] * 4 + ["session:s9", "x" * 2_000]
    spool_events(
        folder,
        *(
            event("PostToolUse", at=number, tool_use_id=name, tool_response=str(number), **call)
            for number, name in enumerate(ids)
        ),
    )

    async with await open_store(tmp_path / "store.db") as store:
        await drained(folder, store, tmp_path)

        session = await store.get("session:s1")
        assert session is not None
        found = await store.get_many(session.document["session_index"])
    contents = sorted(version.document["content"] for version in found.values())
    assert contents == ["0", "1", "2", "3", "4", "5"]


def test_a_record_that_was_cut_off_hides_no_other(tmp_path: Path) -> None:
    """A machine that fails while it writes leaves the beginning of a record."""
    folder = tmp_path / "spool" / "x"
    spool_events(folder, event("Stop", at=1))
    file = folder / "events"
    file.write_bytes(file.read_bytes() + file.read_bytes()[:-9])
    spool_events(folder, event("Stop", at=2))

    (batch,) = take_batches(str(folder))

    assert [one.at for one in read_batch(batch)] == [1, 2]


def test_a_number_of_thousands_of_digits_hides_no_record(tmp_path: Path) -> None:
    """A damaged file must not keep all later events from being stored."""
    append(str(tmp_path), event("Stop"), url=URL, base="/")
    (batch,) = take_batches(str(tmp_path))
    whole = Path(batch).read_bytes()
    Path(batch).write_bytes(b"ctxmgr-event 1 " + b"9" * 5_000 + b" 1 1 1\nx\n" + whole)

    assert [read.data for read in read_batch(batch)] == [event("Stop").data]


def test_a_spool_is_private_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events contain what the agent read, and a store may be away for weeks."""
    folder = tmp_path / "spool" / "x"
    spool_events(folder, event("Stop"))
    monkeypatch.setattr(spool, "SPOOL_BYTES_MAX", 400)

    with pytest.raises(SpoolError, match="wait in"):
        spool_events(folder, event("Stop", last_assistant_message="x" * 400))

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    with pytest.raises(SpoolError, match="another store"):
        append(str(folder), event("Stop"), url="sqlite:////other.db", base="/")


async def test_events_of_weeks_are_stored_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them at once would fill the memory."""
    folder = tmp_path / "spool" / "x"
    monkeypatch.setattr(spool, "BATCH_BYTES_MAX", 200)
    spool_events(folder, *CONVERSATION, event("Stop", at=6, last_assistant_message="second"))

    batches = take_batches(str(folder))
    times = [[one.at for one in read_batch(batch)] for batch in batches]
    async with await open_store(tmp_path / "store.db") as store:
        await drained(folder, store, tmp_path)

        assert await told(store) == [("one", ["1"]), ("one", ["2"])]
    assert [at for part in times for at in part] == [1, 2, 3, 4, 5, 6]
    assert len(batches) >= 3
    assert not is_pending(str(folder))


def test_a_relative_store_has_a_spool_per_folder() -> None:
    """`--store agent.db` is another file in each project."""
    one, two = (spool_folder("/s", "agent.db", base=base) for base in ("/a", "/b"))

    assert one != two
    assert spool_folder("/s", URL, base="/a") == spool_folder("/s", URL, base="/b")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a hook, with bytecode as in an installation."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}


def hook_command(url: str) -> list[str]:
    return [sys.executable, "-c", ENTRY, "hook", "--store", url]


def test_a_hook_imports_nothing_that_takes_time(environment: dict[str, str]) -> None:
    """Half of the 50 ms that a hook may take is Python's own start."""
    program = (
        "import sys; before = set(sys.modules);"
        "import ctxmgr.surfaces.terminal.entry, ctxmgr.integrations.agents.hook_process;"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    ours = {name for name in ran.stdout.split() if name.startswith("ctxmgr")}
    assert set(ran.stdout.split()) - ours <= {"__future__", "fcntl", "zlib"}


def processor_ms(command: Sequence[str], data: bytes, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=data, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000


def test_a_hook_takes_the_same_time_in_a_long_session(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """5,000 events wait, and it is one Python and a little; bounds are for a busy machine."""
    url = f"sqlite:///{tmp_path}/no/folder/store.db"
    folder = spool_folder(str(tmp_path / "state" / "ctxmgr"), url, base=str(Path.cwd()))
    data = event("PostToolUse", tool_name="Bash", tool_input={}, tool_response="x" * 2_000).data
    processor_ms(hook_command(url), data, environment)
    record = (Path(folder) / "events").read_bytes()
    bare = [sys.executable, "-c", "pass"]

    with spool.try_lock(folder, spool.DRAINER) or pytest.fail("a drainer holds the lock"):
        times: dict[int, list[float]] = {}
        python = []
        for count in (10, 5_000):
            (Path(folder) / "events").write_bytes(record * count)
            times[count] = [processor_ms(hook_command(url), data, environment) for _ in range(5)]
            python += [processor_ms(bare, b"", environment) for _ in range(3)]

    own = {n: statistics.median(spent) - statistics.median(python) for n, spent in times.items()}
    assert max(own.values()) < 40, (own, python)
    assert own[5_000] < own[10] + 25, own


def test_what_stores_events_has_no_password_in_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine sees the arguments of processes, and they run for 20 s."""
    url = "xtdb+http://ann:correct7horse@127.0.0.1:1"
    spawned: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(
        hook_process.os, "posix_spawn", lambda _, words, env, **_more: spawned.append((words, env))
    )
    monkeypatch.setattr(hook_process.sys, "stdin", TextIOWrapper(BytesIO(event("Stop").data)))
    monkeypatch.setenv("CTXMGR_STORE", url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert hook_process.run_hook([]) == 0

    ((words, env),) = spawned
    assert not any("correct7horse" in word for word in words)
    assert (words[-2:], env["CTXMGR_STORE"]) == (["hook", "--drain"], url)


def test_events_are_stored_after_the_hook_has_ended(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A process of its own stores them, which ends with the session."""
    url = f"sqlite:///{tmp_path}/store.db"
    project = tmp_path / "project"
    project.mkdir()
    for one in (*CONVERSATION[:3], event("SessionEnd")):
        data = json.dumps({**json.loads(one.data), "cwd": str(project)}).encode()
        subprocess.run(hook_command(url), input=data, env=environment, check=True)

    folder = spool_folder(str(tmp_path / "state" / "ctxmgr"), url, base=str(Path.cwd()))
    deadline = time.monotonic() + 60
    while is_pending(folder) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert asyncio.run(_told_at(url)) == [("one", ["1"])]


def test_the_next_command_stores_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees a store that lacks what an agent did before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project, url = tmp_path / "project", f"sqlite:///{tmp_path}/store.db"
    project.mkdir()
    folder = spool_folder(str(tmp_path / "state" / "ctxmgr"), url, base=str(Path.cwd()))
    for one in CONVERSATION[:3]:
        data = json.dumps({**json.loads(one.data), "cwd": str(project)}).encode()
        spooled = SpooledEvent(at=one.at, project="", client_folder="", data=data)
        append(folder, spooled, url=url, base=str(Path.cwd()))

    ran = CliRunner().invoke(COMMANDS, ["sessions", "--store", url, "--json"])

    (listed,) = json.loads(ran.stdout)["sessions"]
    assert (listed["session_id"], listed["turns"]) == ("s1", 1)


async def _told_at(url: str) -> list[tuple[str, list[str]]]:
    async with await open_store(url) as store:
        return await told(store)


def test_what_could_not_be_stored_is_kept_when_its_file_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may still want it: the full file is kept beside the new one."""
    monkeypatch.setattr("ctxmgr.integrations.agents.spool.REFUSED_BYTES_MAX", 10)
    for number in (1, 2):
        event = SpooledEvent(at=number, project="", client_folder="", data=b"event %d" % number)
        refuse(str(tmp_path), event, "not an event")

    assert b"event 1" in (tmp_path / "refused.old").read_bytes()
    assert b"event 2" in (tmp_path / "refused").read_bytes()
