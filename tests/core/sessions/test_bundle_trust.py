"""A bundle is untrusted data: importing one changes only its own session."""

import gzip
import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctxmgr
from ctxmgr import (
    AsOf,
    BundleDamaged,
    Denied,
    Incorrect,
    Put,
    SessionRecord,
    Store,
    from_document,
    to_document,
)
from ctxmgr.core.history.record_checks import check_record
from ctxmgr.core.sessions.bundle import BundledWrite, BundleWriter
from ctxmgr.core.sessions.bundle_io import check_bundle, export_session, import_session
from tests.core.sessions.hostile_bundles import (
    BundledVersion,
    packed,
    read_bundle,
    versions_of,
)

Documents = list[tuple[int, dict[str, Any], int]]
"""Sequence, document and valid time of each version that a bundle holds."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("first\n", encoding="utf-8")
    (folder / "b.txt").write_text("never read\n", encoding="utf-8")
    return folder


def connecting(url: str, project: Path) -> Any:
    mounts = [{"agentPrefix": "/w", "canonicalPrefix": str(project), "filesystemId": "disk"}]
    return ctxmgr.connect(url, mounts=mounts, filesystem_id="box", tracking=False)


async def work(url: str, project: Path, session_id: str, *, texts: tuple[str, ...]) -> None:
    """A session that reads a file, which changes between its turns."""
    async with connecting(url, project) as client:
        session = await client.start(session_id, system_prompt="Be careful.")
        for number, text in enumerate(texts):
            (project / "a.txt").write_text(text, encoding="utf-8")
            await session.render(f"turn {number}")
            await session.read("/w/a.txt")
            await session.record(
                f"{session_id}-{number}",
                tool="bash",
                args={"command": "ls"},
                output="b.txt\n",
                directory="/w",
            )
            await session.end_turn("Done.")
        await client.pause(session_id)


async def bundle_of(url: str, project: Path, session_id: str) -> bytes:
    async with connecting(url, project) as client:
        data, _ = await export_session(client.store, session_id)
        return data


async def seen_by(store: Store, session_id: str) -> Any:
    """The state of a session and its objects, now and at every valid time."""
    record = await store.get(f"session:{session_id}")
    assert record is not None
    kinds = ("session", "chat", "system_prompt", "lifecycle", "fork", "run")
    own = [f"{kind}:{session_id}" for kind in kinds]
    own += [f"turn:{session_id}:{number}" for number in range(1, 6)]
    seen: dict[Any, Any] = {}
    for object_id in own:
        page = await store.history(object_id, corrections=True)
        seen[object_id] = [(entry.valid_time, entry.document) for entry in page.entries]
    for object_id in record.document["session_index"]:
        now = await store.get(object_id)
        assert now is not None
        seen[object_id] = now.document
        for moment in {now.valid_time, record.valid_time}:
            then = await store.get(object_id, as_of=AsOf(valid_time=moment))
            seen[object_id, moment] = then and then.document
    return seen


def altered(data: bytes, change: Callable[[Documents], Documents]) -> bytes:
    """Return the bundle with other documents, and hashes that fit them."""
    bundle = read_bundle(gzip.decompress(data))
    versions = [
        (transaction.sequence, dict(write.document), write.valid_from)
        for transaction in bundle.transactions()
        for write in transaction.writes
    ]
    writer = BundleWriter()
    by_id: dict[str, list[tuple[int, BundledWrite]]] = {}
    for sequence, document, valid_from in change(versions):
        write = BundledWrite(document=document, valid_from=valid_from)
        by_id.setdefault(document["xt/id"], []).append((sequence, write))
    for writes in by_id.values():
        writer.add(sorted(writes, key=lambda entry: entry[0]))
    packed, _ = writer.to_bytes(bundle.session_id)
    return gzip.compress(packed)


def adding(*documents: dict[str, Any], valid_from: int = 4_000_000_000_000) -> Any:
    def change(versions: Documents) -> Documents:
        return [*versions, *((10**6, document, valid_from) for document in documents)]

    return change


HOSTILE = {
    "orders of a run": {"xt/id": "run:guest", "type": "run", "sandbox": "host", "workspace": "/"},
    "orders of another session": {"xt/id": "run:mine", "type": "run", "sandbox": "host"},
    "a turn of another session": {
        "xt/id": "turn:mine:1",
        "type": "turn",
        "session": "mine",
        "n": 1,
    },
    "a fork of another session": {"xt/id": "fork:mine", "type": "fork", "parent": "x", "turn": 1},
    "a lifecycle of another": {"xt/id": "lifecycle:mine", "type": "lifecycle", "state": "paused"},
    "a parent it does not hold": {
        "xt/id": "fork:guest",
        "type": "fork",
        "session": "guest",
        "parent": "mine",
        "turn": 1,
    },
    "a turn that never was": {
        "xt/id": "turn:guest:99",
        "type": "turn",
        "session": "guest",
        "n": 99,
    },
    "any other kind": {"xt/id": "note", "type": "note"},
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE)
async def test_only_documents_that_an_export_writes_are_accepted(
    tmp_path: Path, project: Path, document: dict[str, Any]
) -> None:
    """Any other document could decide where commands run or who may read what."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(ours, project, "mine", texts=("one\n", "two\n"))
    await work(theirs, project, "guest", texts=("three\n",))
    hostile = altered(await bundle_of(theirs, project, "guest"), adding(document))

    async with connecting(ours, project) as client:
        before = await client.store.status()
        with pytest.raises(BundleDamaged):
            await import_session(client.store, check_record=check_record, data=hostile)

        assert (await client.store.status()).sequence == before.sequence


@pytest.mark.parametrize(
    "change",
    [
        {"message_tokens": [[-1, [5]]]},
        {"message_tokens": [[0, [-5]]]},
        {"samples": [[1, 2, 3]]},
        {"sent_at": -1.0},
        {"sent": True},
        {"settled": [1]},
        {"newest": "1.0"},
        {"touched": [None]},
        {"requested": {}},
    ],
)
async def test_the_state_of_a_stream_is_checked(
    tmp_path: Path, project: Path, change: dict[str, Any]
) -> None:
    """The next prompt of the imported session is computed from it."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    async with connecting(theirs, project) as client:
        session = await client.start("guest", system_prompt="Be careful.")
        await session.render("go", policy="economy")
        await session.end_turn("Done.")
    data = await bundle_of(theirs, project, "guest")

    def alter(versions: Documents) -> Documents:
        for _, document, _ in versions:
            if document["xt/id"] == "turn:guest:1":
                policy = document["policy"]
                document["policy"] = {**policy, "stream": {**policy["stream"], **change}}
        return versions

    async with connecting(ours, project) as client:
        with pytest.raises(BundleDamaged, match="turn:guest:1"):
            await import_session(client.store, check_record=check_record, data=altered(data, alter))
        assert await import_session(client.store, check_record=check_record, data=data) == "guest"


HOSTILE_POLICIES: dict[str, dict[str, Any]] = {
    "an unknown name": {"name": "os.system", "settings": {}},
    "a name that is not a text": {"name": ["economy"]},
    "settings of a form without any": {"name": "plain", "settings": {"fidelity": 1}},
    "a setting of the wrong type": {"settings": {"fidelity": "__import__('os')"}},
    "a setting that is out of range": {"settings": {"fidelity": -1e308}},
    "settings that are no map": {"settings": [1, 2]},
    "another session": {"session": "mine"},
    "one more field": {"also": 1},
}


@pytest.mark.parametrize("change", HOSTILE_POLICIES.values(), ids=HOSTILE_POLICIES)
async def test_a_policy_that_is_not_one_is_refused(
    tmp_path: Path, project: Path, change: dict[str, Any]
) -> None:
    """It decides how every later prompt of the imported session is rendered."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    async with connecting(theirs, project) as client:
        session = await client.start("guest", system_prompt="Be careful.", policy="economy")
        await session.render("go")
        await session.end_turn("Done.")
    data = await bundle_of(theirs, project, "guest")
    altered_policies: list[str] = []

    def alter(versions: Documents) -> Documents:
        for _, document, _ in versions:
            if document["xt/id"] == "policy:guest":
                document.update(change)
                altered_policies.append(document["xt/id"])
        return versions

    hostile = altered(data, alter)

    assert altered_policies == ["policy:guest"]
    async with connecting(ours, project) as client:
        before = await client.store.status()
        with pytest.raises(BundleDamaged, match="policy"):
            await import_session(client.store, check_record=check_record, data=hostile)
        assert (await client.store.status()).sequence == before.sequence
        assert await import_session(client.store, check_record=check_record, data=data) == "guest"


@pytest.mark.parametrize(
    "masks", [{"turn:1:user": [[0, "1", "x"]]}, {"turn:1:user": 7}, [1], {"a": [[-1, 2, "x"]]}]
)
async def test_the_masks_of_a_compact_prompt_are_checked(
    tmp_path: Path, project: Path, masks: Any
) -> None:
    """A past prompt is rebuilt with them."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    async with connecting(theirs, project) as client:
        session = await client.start("guest", system_prompt="Be careful.", policy="compact")
        await session.render("My token is ghp_" + "aB3" * 12)
        await session.end_turn("Done.")
    data = await bundle_of(theirs, project, "guest")

    def alter(versions: Documents) -> Documents:
        for _, document, _ in versions:
            if document["xt/id"] == "turn:guest:1":
                assert document["masks"]
                document["masks"] = masks
        return versions

    async with connecting(ours, project) as client:
        with pytest.raises(BundleDamaged, match="turn:guest:1"):
            await import_session(client.store, check_record=check_record, data=altered(data, alter))
        assert await import_session(client.store, check_record=check_record, data=data) == "guest"
        prompt = (await client.prompt_as_of("guest", turn=1)).text()
        assert "[secret:github-token:" in prompt


async def test_an_index_cannot_refer_to_objects_of_another_session(
    tmp_path: Path, project: Path
) -> None:
    """Readers of the imported session could read the other session's calls through it."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(ours, project, "mine", texts=("one\n",))
    await work(theirs, project, "guest", texts=("three\n",))

    def name_it(versions: Documents) -> Documents:
        return [
            (sequence, _wider(document) if document["xt/id"] == "session:guest" else document, time)
            for sequence, document, time in versions
        ]

    hostile = altered(await bundle_of(theirs, project, "guest"), name_it)

    async with connecting(ours, project) as client:
        with pytest.raises(BundleDamaged, match="mine-0"):
            await import_session(client.store, check_record=check_record, data=hostile)


async def test_an_existing_tool_call_is_not_replaced(tmp_path: Path, project: Path) -> None:
    """A tool call has one version; a different one with its id is another call."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(theirs, project, "guest", texts=("three\n",))
    data = await bundle_of(theirs, project, "guest")
    async with connecting(ours, project) as client:
        session = await client.start("other", system_prompt="Hello.")
        await session.record("guest-0", tool="bash", args={}, output="mine")
        before = await client.store.get("guest-0")

        with pytest.raises(Incorrect, match="another guest-0"):
            await import_session(client.store, check_record=check_record, data=data)

        assert await client.store.get("guest-0") == before


async def test_valid_times_survive_an_import_into_an_empty_store(
    tmp_path: Path, project: Path
) -> None:
    """Past valid times can still be queried on the other machine."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(theirs, project, "guest", texts=("one\n", "two\n", "three\n"))
    data = await bundle_of(theirs, project, "guest")

    async with connecting(theirs, project) as there, connecting(ours, project) as here:
        await import_session(here.store, check_record=check_record, data=data)
        record = await there.store.get("session:guest")
        assert record is not None
        for object_id in record.document["session_index"]:
            then = (await there.store.history(object_id)).entries
            now = (await here.store.history(object_id)).entries
            assert [(e.valid_time, e.document) for e in now] == [
                (e.valid_time, e.document) for e in then
            ]


async def test_a_read_file_does_not_become_a_stub(tmp_path: Path, project: Path) -> None:
    """A stub means that the file was never read, but in this store it was."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    async with connecting(ours, project) as client:
        session = await client.start("mine", system_prompt="Hello.")
        file = await session.read("/w/b.txt")
    await work(theirs, project, "guest", texts=("three\n",))  # which only lists b.txt

    async with connecting(ours, project) as client:
        before = await client.store.get(file.object_id)
        await import_session(
            client.store, check_record=check_record, data=await bundle_of(theirs, project, "guest")
        )

        after = await client.store.get(file.object_id)
        assert before is not None
        assert after is not None
        assert after.document == before.document


@settings(max_examples=12, deadline=None)
@given(
    mine=st.lists(st.sampled_from(["one\n", "two\n", "three\n"]), min_size=1, max_size=3),
    guest=st.lists(st.sampled_from(["one\n", "two\n", "four\n"]), min_size=1, max_size=3),
    mine_first=st.booleans(),
    ahead_ms=st.sampled_from([0, 10**9]),
)
async def test_no_other_session_changes(
    mine: list[str],
    guest: list[str],
    mine_first: bool,  # noqa: FBT001 (drawn)
    ahead_ms: int,
) -> None:
    """Two stores have the same files; a bundle of one changes no session of the other."""
    with TemporaryDirectory() as folder:
        await check_others_stay(
            f"sqlite:///{folder}/ours.db",
            Path(folder),
            mine=mine,
            guest=guest,
            mine_first=mine_first,
            ahead_ms=ahead_ms,
        )


@pytest.mark.xtdb
@pytest.mark.parametrize("mine_first", [True, False])
@pytest.mark.parametrize("ahead_ms", [0, 10**9])
async def test_no_other_session_changes_on_xtdb(
    xtdb_url: str,
    tmp_path: Path,
    mine_first: bool,  # noqa: FBT001 (drawn)
    ahead_ms: int,
) -> None:
    """The same on XTDB."""
    await check_others_stay(
        xtdb_url,
        tmp_path,
        mine=["one\n", "two\n"],
        guest=["two\n", "four\n", "one\n"],
        mine_first=mine_first,
        ahead_ms=ahead_ms,
    )


async def check_others_stay(
    ours: str,
    folder: Path,
    *,
    mine: list[str],
    guest: list[str],
    mine_first: bool,
    ahead_ms: int,
) -> None:
    """Import a bundle into a store that has its files; forged times must not make them current."""
    files = folder / "files"
    files.mkdir()
    (files / "b.txt").write_text("never read\n", encoding="utf-8")
    theirs, unique = f"sqlite:///{folder}/theirs.db", uuid.uuid4().hex[:8]
    host, visitor = f"mine-{unique}", f"guest-{unique}"
    order = [(ours, host, mine), (theirs, visitor, guest)]
    for url, session_id, texts in order if mine_first else reversed(order):
        await work(url, files, session_id, texts=tuple(texts))
    data = await bundle_of(theirs, files, visitor)
    if ahead_ms:
        data = altered(data, lambda versions: [(s, d, v + ahead_ms) for s, d, v in versions])

    async with connecting(ours, files) as client:
        turns = range(1, len(mine) + 1)
        before = await seen_by(client.store, host)
        prompts = [(await client.prompt_as_of(host, turn=turn)).text() for turn in turns]

        assert await import_session(client.store, check_record=check_record, data=data) == visitor

        assert await seen_by(client.store, host) == before
        assert [(await client.prompt_as_of(host, turn=n)).text() for n in turns] == prompts
        for turn in range(1, len(guest) + 1):  # each is rebuilt and compared with its hash
            await client.prompt_as_of(visitor, turn=turn)
        assert (
            await import_session(client.store, check_record=check_record, data=data) == visitor
        )  # again: nothing is left to do


async def test_an_interrupted_import_is_completed_by_the_next(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files stored by the first import must not be mistaken for local versions."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(theirs, project, "guest", texts=("one\n", "two\n", "three\n"))
    data = await bundle_of(theirs, project, "guest")

    async with connecting(ours, project) as client:
        commit, left = client.store.commit, 4

        async def failing(operations: list[Put], **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError("the machine was turned off")
            return await commit(operations, **options)

        monkeypatch.setattr(client.store, "commit", failing)
        with pytest.raises(OSError, match="turned off"):
            await import_session(client.store, check_record=check_record, data=data)
        monkeypatch.undo()
        await import_session(client.store, check_record=check_record, data=data)

        async with connecting(theirs, project) as there:
            record = await there.store.get("session:guest")
            assert record is not None
            for object_id in record.document["session_index"]:
                then = (await there.store.history(object_id)).entries
                now = (await client.store.history(object_id)).entries
                assert [(e.valid_time, e.document) for e in now] == [
                    (e.valid_time, e.document) for e in then
                ]


def _wider(document: dict[str, Any]) -> dict[str, Any]:
    record = from_document(document)
    assert isinstance(record, SessionRecord)
    return to_document(replace(record, session_index=(*record.session_index, "mine-0")))


async def test_a_fork_names_a_parent_of_this_store_only_with_its_turns(
    tmp_path: Path, project: Path
) -> None:
    """Whoever may read a fork reads its parent's turns: naming the parent must not be enough.

    The beginning of a session can be guessed: no turns, no objects, and a known system prompt.
    """
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(ours, project, "mine", texts=("one\n", "two\n"))
    await work(theirs, project, "guest", texts=("three\n",))
    _, whole = versions_of(await bundle_of(ours, project, "mine"))
    fork = {"xt/id": "fork:guest", "type": "fork", "session": "guest", "parent": "mine", "turn": 1}
    guessed = [version for version in whole if version.sequence == whole[0].sequence]
    session_id, guest = versions_of(await bundle_of(theirs, project, "guest"))
    knows_the_chat = [
        version for version in whole if version.document["type"] not in {"turn", "lifecycle"}
    ]
    chat = next(v.document for v in reversed(whole) if v.document["xt/id"] == "chat:mine")
    for version in guest:
        if version.document["xt/id"] == "chat:guest" and version.document["turns"]:
            version.document = {
                **version.document,
                "turns": chat["turns"][:1],
                "toolcall_refs": chat["turns"][0]["toolcall_ids"],
            }
    for known in (guessed, knows_the_chat):
        shifted = [replace(version, sequence=version.sequence + 10**6) for version in guest]
        added = BundledVersion(2 * 10**6, fork, guest[0].valid_from)
        hostile = packed(session_id, [*known, *shifted, added])

        async with connecting(ours, project) as client:
            before = await client.store.status()
            with pytest.raises((BundleDamaged, Incorrect), match=r"turns of|lacks 'turn:mine:1'"):
                await import_session(client.store, hostile, check_record=check_record)
            assert (await client.store.status()).sequence == before.sequence


@pytest.mark.parametrize("taken", ["fork:mine", "turn:mine:3", "lease:mine", "run:mine"])
async def test_a_tool_call_does_not_take_the_id_of_a_sessions_document(
    tmp_path: Path, project: Path, taken: str
) -> None:
    """It would be read as that document, and the session could not be used any more."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(ours, project, "mine", texts=("one\n", "two\n"))
    async with connecting(theirs, project) as client:
        session = await client.start("guest", system_prompt="Hello.")
        await session.render("go")
        await session.record("c1", tool="bash", args={}, output="x")
        await session.end_turn("Done.")
    session_id, versions = versions_of(await bundle_of(theirs, project, "guest"))
    for version in versions:
        text = json.dumps(version.document).replace('"c1"', json.dumps(taken))
        version.document = json.loads(text)
    data = packed(session_id, versions)

    async with connecting(ours, project) as client:
        with pytest.raises(BundleDamaged, match=r"belongs to none of its sessions|reserved"):
            await import_session(client.store, data, check_record=check_record)


FORGED_RECORDS: dict[str, dict[str, Any]] = {
    "mounts that are numbers": {"mounts": [7]},
    "a mount without a folder": {"mounts": [{"agentPrefix": "/w"}]},
    "active ids that are lists": {"active": [[]]},
    "hashes that are numbers": {"section_hashes": {"system_prompt": [7]}},
    "a sequence that is text": {"sequence": "7"},
    "a policy without settings": {"policy": {"name": "economy"}},
    "a number that is a truth value": {"n": True, "snapshot": True},
    "a renderer that is a list": {"renderer": []},
    "a field that there is not": {"extra": 1},
}


@pytest.mark.parametrize("forged", FORGED_RECORDS.values(), ids=FORGED_RECORDS)
async def test_a_turn_record_is_checked_in_every_field(
    tmp_path: Path, project: Path, forged: dict[str, Any]
) -> None:
    """A record is used long after it was imported, when a raw error says nothing of its origin."""
    theirs = f"sqlite:///{tmp_path}/theirs.db"
    await work(theirs, project, "guest", texts=("three\n",))
    session_id, versions = versions_of(await bundle_of(theirs, project, "guest"))
    for version in versions:
        if version.document["type"] == "turn":
            version.document = {**version.document, **forged}

    with pytest.raises(BundleDamaged, match="turn:guest:1"):
        await check_bundle(packed(session_id, versions), check_record=check_record)


@pytest.mark.parametrize("forked", [False, True])
async def test_an_imported_session_does_not_choose_what_is_read(
    tmp_path: Path,
    forked: bool,  # noqa: FBT001 (a parameter)
) -> None:
    """Without mounts, every file of this machine is in reach: the bundle must not name one.

    003-R117: its files are treated as out of reach, and keep the versions that it brought.
    """
    secret, listed = tmp_path / "secret.txt", tmp_path / "listed.txt"
    secret.write_text("harmless\n", encoding="utf-8")
    listed.write_text("key\n", encoding="utf-8")
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/theirs.db", tracking=False) as client:
        session = await client.start("guest", system_prompt="Hello.")
        await session.render("go")
        await session.read(str(secret))
        await session.record(
            "c1",
            tool="bash",
            args={"command": "ls"},
            output="listed.txt\n",
            directory=str(tmp_path),
        )
        await session.end_turn("Done.")
        data, _ = await export_session(client.store, "guest")
    secret.write_text("the key of this machine\n", encoding="utf-8")

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/ours.db", tracking=False) as client:
        await import_session(client.store, data, check_record=check_record)
        if forked:
            await client.fork("guest", turn=1, new_session_id="fork")
            await client.pause("fork")
        resumed = await client.resume("fork" if forked else "guest")
        stub = next(
            object_id
            for object_id in resumed.sets.session_index
            if object_id not in resumed.sets.active_set
        )

        prompt = await resumed.render("go on")

        assert "harmless" in prompt
        assert "the key of this machine" not in prompt
        with pytest.raises(Denied, match="imported session"):
            await resumed.activate(stub)
        assert "key" not in await resumed.render("go on")


async def test_a_declared_mount_lets_an_imported_session_read(
    tmp_path: Path, project: Path
) -> None:
    """Whoever declares a mount decides that its files may be read."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    await work(theirs, project, "guest", texts=("one\n",))
    data = await bundle_of(theirs, project, "guest")
    (project / "a.txt").write_text("changed since\n", encoding="utf-8")

    async with connecting(ours, project) as client:
        await import_session(client.store, data, check_record=check_record)
        resumed = await client.resume("guest")

        assert "changed since" in await resumed.render("go on")


async def test_importing_a_session_again_does_not_mark_it_as_imported(tmp_path: Path) -> None:
    """A session that began here may read its files, whatever bundle of it comes back."""
    file = tmp_path / "a.txt"
    file.write_text("one\n", encoding="utf-8")
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/ours.db", tracking=False) as client:
        session = await client.start("mine", system_prompt="Hello.")
        await session.render("go")
        await session.read(str(file))
        await session.end_turn("Done.")
        await client.pause("mine")
        data, _ = await export_session(client.store, "mine")
        await import_session(client.store, data, check_record=check_record)
        file.write_text("two\n", encoding="utf-8")

        assert "two" in await (await client.resume("mine")).render("go on")
