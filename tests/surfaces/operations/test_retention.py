"""Deleting sessions, restoring them, and removing content for good."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr import Incorrect, text_part, toolcall_part
from ctxmgr.core.objects.hashes import identity_hash
from ctxmgr.core.objects.purged import purged_id
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Purged, Unavailable
from ctxmgr.stores.xtdb.commits import Commits
from tests.surfaces.worked_sessions import Worked, json_of

Run = Callable[..., Result]

SECRET = "sk-live-5f2d1c0b9a8e7766"
LONG = "filler " * 500 + SECRET


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def url(folder: Path) -> str:
    return f"sqlite:///{folder}/s.db"


def leaks(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if SECRET.encode() in path.read_bytes()]


async def work(url: str, sid: str, *, policy: str = "plain", fork: str | None = None) -> None:
    """Two turns; the first prints a secret, and both prompts are stored."""
    search = Path(url.removeprefix("sqlite:///") + ".search")
    async with library.connect(url, tracking=False, search=search, policy=policy) as client:
        session = await client.start(sid, system_prompt=f"Be careful. {SECRET}")
        await session.render("Print the key.")
        await session.record(
            f"{sid}-1", tool="bash", args={"command": f"echo {SECRET}"}, output=LONG
        )
        await session.record(f"{sid}-2", tool="bash", args={"command": "ls"}, output="a\nb\n")
        calls = [toolcall_part(f"{sid}-{n}", call_id=f"c{n}", tool="bash", args={}) for n in (1, 2)]
        await session.end_turn([text_part("Printed."), *calls])
        await session.render("And now?")
        await session.end_turn("Nothing more.")
        if fork is not None:
            await client.fork(sid, turn=1, new_session_id=fork)
        await client.pause(sid)


async def resumed(url: str, sid: str, user: str) -> str:
    async with library.connect(url, tracking=False) as client:
        session = await client.resume(sid)
        prompt = await session.render(user)
        await session.end_turn("Fine.")
        await client.pause(sid)
        return str(prompt)


async def prompt_of(url: str, sid: str, turn: int) -> str:
    async with library.connect(url, tracking=False) as client:
        return (await client.prompt_as_of(sid, turn=turn)).text()


def test_a_deleted_session_is_hidden_and_can_be_restored(ctxmgr: Run, worked: Worked) -> None:
    """Deleting is a state, on either store."""
    options = ("--store", worked.url, "--json")

    def listed(*flags: str) -> list[str]:
        found = json_of(ctxmgr("sessions", *flags, "--limit", "1000", *options))["sessions"]
        return [line["session_id"] for line in found]

    assert json_of(ctxmgr("sessions", "delete", worked.sid, *options)) == {"sessions": [worked.sid]}
    assert worked.sid not in listed()
    assert worked.sid in listed("--deleted")
    with pytest.raises(Incorrect, match="is deleted"):
        asyncio.run(resumed(worked.url, worked.sid, "?"))
    ctxmgr("sessions", "restore", worked.sid, *options)
    assert worked.sid in listed()
    assert ctxmgr("sessions", "restore", worked.sid, *options).exit_code == 3
    assert ctxmgr("sessions", "delete", "nobody", *options).exit_code == 3
    assert ctxmgr("sessions", "delete", *options).exit_code == 2


def test_old_sessions_are_deleted_by_age(ctxmgr: Run, url: str) -> None:
    """Retention is one command in a timer."""
    asyncio.run(work(url, "s1"))
    options = ("--store", url, "--json")

    none = json_of(ctxmgr("sessions", "delete", "--older-than", "90d", *options))
    bad = ctxmgr("sessions", "delete", "--older-than", "soon", *options)

    assert none == {"sessions": []}
    assert bad.exit_code == 2
    assert "invalid age" in bad.stderr


@pytest.mark.parametrize("policy", ["plain", "economy"])
def test_a_printed_key_is_removed_from_one_object(
    ctxmgr: Run, url: str, folder: Path, policy: str
) -> None:
    """The use case of a legal department: the session stays, the key is nowhere in its files."""
    asyncio.run(work(url, "s1", policy=policy))
    options = ("--store", url, "--json")
    assert leaks(folder)

    planned = json_of(ctxmgr("purge", "--session", "s1", "--object", "s1-1", "--dry-run", *options))
    before = leaks(folder)
    done = json_of(ctxmgr("purge", "--session", "s1", "--object", "s1-1", *options))

    assert (planned["purge"], planned["objects"], planned["versions"]) == (None, 1, 1)
    assert planned["text_bytes"] > len(LONG)
    assert before
    assert (done["purge"], done["objects"]) == (1, 1)
    # What is left of the secret here is in the system prompt, which was not purged.
    assert asyncio.run(prompt_of(url, "s1", 1)).count(SECRET) == 1
    with pytest.raises(Purged, match=r"turn 2 of session s1 cannot be rebuilt.*\(purge 1\)"):
        asyncio.run(prompt_of(url, "s1", 2))
    shown = json_of(ctxmgr("show", "s1-1", "--session", "s1", *options))
    assert shown["content"] == "[purged]"
    assert json_of(ctxmgr("store", "verify", *options))["faults"] == []
    assert json_of(ctxmgr("store", "purges", *options))[0]["objects"] == 1
    prompt = asyncio.run(resumed(url, "s1", "Go on."))
    assert "[purged]" in prompt
    assert asyncio.run(prompt_of(url, "s1", 3)) == prompt
    timeline = json_of(ctxmgr("timeline", "s1", *options))
    assert [entry["turn"] for entry in timeline["entries"]] == [1, 2, 3]
    assert json_of(ctxmgr("turn", "s1", "2", *options))["proven"] is False


def test_a_purged_session_leaves_no_byte(
    ctxmgr: Run, url: str, folder: Path, tmp_path: Path
) -> None:
    """Chat, prompts, outputs, arguments, records and the search index are gone from the files."""
    asyncio.run(work(url, "s1"))
    asyncio.run(work_without_secret(url, "s2"))
    options = ("--store", url, "--json")

    early = ctxmgr("purge", "s1", *options)
    ctxmgr("sessions", "delete", "s1", *options)
    none = json_of(ctxmgr("purge", "--deleted-before", "1d", *options))
    done = json_of(ctxmgr("purge", "s1", *options))

    assert early.exit_code == 2
    assert "is not deleted" in early.stderr
    assert (none["purge"], none["sessions"]) == (None, [])
    assert (done["purge"], done["sessions"], done["objects"]) == (1, ["s1"], 2)
    assert leaks(folder) == []
    assert json_of(ctxmgr("store", "verify", *options))["faults"] == []
    assert asyncio.run(prompt_of(url, "s2", 1))
    with pytest.raises(Incorrect, match=r"was purged \(purge 1\)"):
        asyncio.run(resumed(url, "s1", "?"))
    refused = ctxmgr("sessions", "restore", "s1", *options)
    assert refused.exit_code == 2
    assert "cannot be restored" in refused.stderr
    bundle = tmp_path / "s2.bundle"
    assert ctxmgr("export", "s2", str(bundle), *options).exit_code == 0
    target = f"sqlite:///{tmp_path}/other.db"
    assert ctxmgr("import", str(bundle), "--store", target).exit_code == 0
    assert json_of(ctxmgr("purge", "s1", *options))["versions"] == 0


def test_a_purge_that_did_not_finish_is_repeated_by_age(
    ctxmgr: Run, url: str, folder: Path
) -> None:
    """A timer purges while the store is in use; its next run must not take that for done."""
    asyncio.run(work(url, "s1"))
    options = ("--store", url, "--json")
    ctxmgr("sessions", "delete", "s1", *options)

    with closing(apsw.Connection(str(folder / "s.db"))) as other:
        other.execute("SELECT count(*) FROM sqlite_master").fetchall()
        refused = ctxmgr("purge", "s1", *options)
    assert refused.exit_code == 6
    assert leaks(folder)

    repeated = json_of(ctxmgr("purge", "--deleted-before", "30d", *options))

    assert repeated["sessions"] == ["s1"]
    assert leaks(folder) == []
    assert json_of(ctxmgr("purge", "--deleted-before", "30d", *options))["sessions"] == []


def test_one_version_of_a_file_is_purged_on_either_store(
    ctxmgr: Run, worked: Worked, tmp_path: Path
) -> None:
    """X-C04, design D9: the id, the hashes and a record stay; the other version is still proven."""
    options = ("--store", worked.url, "--json")
    named = ("--session", worked.sid, "--object", "/workspace/notes.md", "--version", "2")
    asyncio.run(_hold_open(worked.url))

    done = json_of(ctxmgr("purge", *named, *options))

    assert (done["objects"], done["versions"]) == (1, 1)
    shown = json_of(ctxmgr("show", worked.notes, *options))
    assert (shown["object_id"], shown["content"]) == (worked.notes, "[purged]")
    first = json_of(ctxmgr("show", worked.notes, "--version", "1", *options))
    assert first["content"] == "port = 8080\n"
    assert asyncio.run(prompt_of(worked.url, worked.sid, 1)) == worked.sent[0]
    assert asyncio.run(prompt_of(worked.url, worked.sid, 2)) == worked.sent[1]
    with pytest.raises(Purged, match="turn 3 of session"):
        asyncio.run(prompt_of(worked.url, worked.sid, 3))
    timeline = json_of(ctxmgr("timeline", worked.sid, *options))
    assert [entry["turn"] for entry in timeline["entries"]] == [1, 2, 3]
    purges = json_of(ctxmgr("store", "purges", *options))
    assert purges[-1]["purge"] == done["purge"]
    bundle = tmp_path / "s.bundle"
    assert ctxmgr("export", worked.sid, str(bundle), *options).exit_code == 0
    assert b"9090\\n" not in bundle.read_bytes()
    assert ctxmgr("import", str(bundle), "--store", f"sqlite:///{tmp_path}/o.db").exit_code == 0
    assert "[purged]" in asyncio.run(resumed(worked.url, worked.sid, "Go on."))


@pytest.mark.parametrize("any_store_url", ["sqlite"], indirect=True)
def test_a_damaged_session_keeps_what_it_names_and_stops_nothing_else(
    ctxmgr: Run, worked: Worked
) -> None:
    """Design D9: one record that fails its check must not rule out every purge."""
    options = ("--store", worked.url, "--json")
    sid = f"{worked.sid}-damaged"
    damaged = {
        "xt/id": f"session:{sid}",
        "type": "session",
        "identity_hash": identity_hash("session", object_id=f"session:{sid}"),
        "session_index": [worked.notes, 7],
        "pinned_set": "nothing",
    }
    asyncio.run(_store(worked.url, damaged))

    refused = ctxmgr("purge", "--session", worked.sid, "--object", worked.notes, *options)
    (call,) = (line for line in _objects(ctxmgr, worked) if line["name"] == "t")
    done = json_of(
        ctxmgr("purge", "--session", worked.sid, "--object", call["object_id"], *options)
    )

    assert refused.exit_code == 2
    assert f"is in several sessions ({worked.sid}, {sid})" in refused.stderr
    assert done["objects"] == 1


async def _store(url: str, document: Document) -> None:
    async with await library.open_store(url) as store:
        await store.commit([library.Put(document)])


def _objects(ctxmgr: Run, worked: Worked) -> list[dict[str, Any]]:
    found = json_of(ctxmgr("show", worked.sid, "--store", worked.url, "--json"))["objects"]
    assert isinstance(found, list)
    return found


async def _hold_open(url: str) -> None:
    """Another client reads, and closes: its memory must not matter afterwards."""
    async with library.connect(url, tracking=False) as client:
        await client.store.status()


def test_a_session_is_purged_on_either_store(ctxmgr: Run, worked: Worked) -> None:
    """Design D9: chat, prompts, records and outputs are gone, and the purge says so."""
    options = ("--store", worked.url, "--json")
    ctxmgr("sessions", "delete", worked.sid, *options)

    done = json_of(ctxmgr("purge", worked.sid, *options))

    assert done["sessions"] == [worked.sid]
    assert done["versions"] > 3
    feed = json_of(ctxmgr("store", "history", f"chat:{worked.sid}", *options))
    assert "8080" not in str(feed)
    shown = json_of(ctxmgr("show", worked.notes, *options))
    assert shown["content"] == "[purged]"
    refused = ctxmgr("sessions", "restore", worked.sid, *options)
    assert "cannot be restored" in refused.stderr
    assert json_of(ctxmgr("purge", worked.sid, *options))["versions"] == 0


async def work_without_secret(url: str, sid: str) -> None:
    async with library.connect(url, tracking=False) as client:
        session = await client.start(sid, system_prompt="")
        await session.render("Hello.")
        await session.end_turn("Hello.")
        await client.pause(sid)


def test_a_session_that_others_continue_is_refused(ctxmgr: Run, url: str) -> None:
    """The turns of a fork are its parent's; both are purged, or neither."""
    asyncio.run(work(url, "s1", fork="s1-fork"))
    options = ("--store", url, "--json")
    ctxmgr("sessions", "delete", "s1", *options)

    refused = ctxmgr("purge", "s1", *options)
    ctxmgr("sessions", "delete", "s1-fork", *options)
    both = ctxmgr("purge", "s1", "s1-fork", *options)

    assert refused.exit_code == 2
    assert "s1-fork was forked from s1" in refused.stderr
    assert json_of(both)["sessions"] == ["s1", "s1-fork"]


def test_a_pinned_or_shared_object_is_refused(ctxmgr: Run, url: str) -> None:
    """A pin says that somebody needs it, and another session that it is evidence elsewhere."""
    asyncio.run(work(url, "s1", fork="s2"))
    options = ("--store", url, "--json")
    which = ("purge", "--session", "s1", "--object", "s1-1")

    shared = ctxmgr(*which, *options)
    ctxmgr("pin", "s1", "s1-1", "--store", url)
    pinned = ctxmgr(*which, *options)
    infrastructure = ctxmgr("purge", "--session", "s1", "--object", "chat:s1", *options)

    assert "is in several sessions (s1, s2)" in shared.stderr
    assert "is pinned in session s1: unpin it first" in pinned.stderr
    assert {shared.exit_code, pinned.exit_code} == {2}
    assert infrastructure.exit_code in {2, 3}


async def _versions(url: str, project: Path) -> str:
    """Read a file three times; return its id."""
    mounts: list[dict[str, Any]] = [{"agentPrefix": "/w", "canonicalPrefix": str(project)}]
    async with library.connect(url, mounts=mounts, tracking=False) as client:
        session = await client.start("s1", system_prompt="")
        for text in ("one\n", f"key = {SECRET}\n", "three\n"):
            (project / "a.txt").write_text(text, encoding="utf-8")
            file = await session.read("/w/a.txt")
        await client.pause("s1")
        return file.object_id


def test_one_version_of_a_file_is_removed(
    ctxmgr: Run, url: str, folder: Path, tmp_path: Path
) -> None:
    """The versions before and after it stay."""
    (tmp_path / "project").mkdir()
    file_id = asyncio.run(_versions(url, tmp_path / "project"))
    options = ("--store", url, "--json")
    which = ("purge", "--session", "s1", "--object", file_id, "--version", "2")

    done = json_of(ctxmgr(*which, *options))

    assert (done["purge"], done["versions"]) == (1, 1)
    assert leaks(folder) == []
    texts = [
        json_of(ctxmgr("show", file_id, "--session", "s1", "--version", str(n), *options))[
            "content"
        ]
        for n in (1, 2, 3)
    ]
    assert texts == ["one\n", "[purged]", "three\n"]
    assert json_of(ctxmgr("store", "verify", *options))["faults"] == []


def test_a_purge_record_of_an_earlier_version_is_read(ctxmgr: Run, url: str) -> None:
    """It has no hash of what was left; its version is found by its sequence."""
    asyncio.run(work(url, "s1"))
    ctxmgr("purge", "--session", "s1", "--object", "s1-1", "--store", url)

    async def forget_hashes() -> None:
        async with library.connect(url, tracking=False) as client:
            record = await client.store.get(purged_id("s1-1"))
            assert record is not None
            rows = [
                {name: value for name, value in row.items() if name != "left"}
                for row in record.document["versions"]
            ]
            await client.store.commit([library.Put({**record.document, "versions": rows})])

    asyncio.run(forget_hashes())

    with pytest.raises(Purged, match=r"\(purge 1\)"):
        asyncio.run(prompt_of(url, "s1", 2))


def test_the_size_of_a_store_is_shown_by_kind_and_session(ctxmgr: Run, url: str) -> None:
    """What to purge is the question before a purge."""
    asyncio.run(work(url, "s1"))
    asyncio.run(work_without_secret(url, "s2"))

    report = json_of(ctxmgr("store", "size", "--store", url, "--json"))

    sizes = {row["kind"]: row for row in report["kinds"]}
    assert sizes["toolcall"]["versions"] == 2
    assert sizes["toolcall"]["bytes"] > len(LONG)
    assert report["bytes"] == sum(row["bytes"] for row in report["kinds"])
    assert [row["session"] for row in report["sessions"]] == ["s1", "s2"]


@pytest.mark.parametrize(
    "any_store_url", [pytest.param("xtdb", marks=pytest.mark.xtdb)], indirect=True
)
def test_an_interrupted_purge_is_finished_by_repeating_it(
    ctxmgr: Run, worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design D9: XTDB evicts before it restores, and the same command is what one tries first."""
    named = ("--session", worked.sid, "--object", "/workspace/notes.md", "--version", "2")
    options = ("--store", worked.url, "--json")
    land, sent = Commits.land_guarded, 0

    async def crash(self: Commits, body: bytes) -> bool:
        nonlocal sent
        sent += 1
        if sent == 3:  # the plan is stored, the object evicted
            raise Unavailable("the process was killed")
        return await land(self, body)

    with monkeypatch.context() as broken:
        broken.setattr(Commits, "land_guarded", crash)
        assert ctxmgr("purge", *named, *options).exit_code == 6
    assert ctxmgr("show", worked.notes, *options).exit_code != 0

    repeated = ctxmgr("purge", *named, *options)

    assert repeated.exit_code == 0, repeated.output
    assert json_of(ctxmgr("show", worked.notes, *options))["content"] == "[purged]"
    first = json_of(ctxmgr("show", worked.notes, "--version", "1", *options))
    assert first["content"] == "port = 8080\n"
