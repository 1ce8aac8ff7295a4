"""Indexing: a source becomes a version, on both stores."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.files.outcomes import Refusal, RefusedFile, Unreachable
from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import Put
from ctxmgr.core.tracking.index_plan import IndexResult
from ctxmgr.core.tracking.indexing import state_of
from ctxmgr.core.tracking.observation import Target
from ctxmgr.errors import Conflict, Incorrect
from tests.core.builders.projects import (
    BOTH_STORES,
    LATER_NS,
    LONG_AGO_NS,
    Project,
    index_file,
    opened_project,
)


@pytest.fixture(params=BOTH_STORES)
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, request.param, request) as opened:
        yield opened


async def reconciled(project: Project, file: File) -> File:
    """Index a known file as a tracker event or a resume does, and return the current version."""
    async for batch in project.indexing.reconcile([Target.of(file)]):
        for outcome in batch.outcomes:
            assert outcome.file is not None
            file = outcome.file
    return file


async def test_reading_a_new_file_creates_it(project: Project) -> None:
    """003-R167, 003-R168, 003-R169: path, binding, id, bytes and hashes become one version."""
    path = project.write("src/main.py", b"print()\n")

    outcome = await index_file(project.indexing, "/w/src/main.py")

    stored = await project.store.get(outcome.object_id)
    assert (outcome.result, outcome.state) == (IndexResult.CREATED, FileState.LIVE)
    assert stored is not None
    assert stored.document["source"]["path"] == str(path)
    assert stored.document["content"] == "print()\n"


async def test_an_unchanged_file_writes_nothing(project: Project) -> None:
    """003-R034, 003-R171: reading a file a hundred times leaves one version."""
    project.write("a.txt", b"same")
    first = await index_file(project.indexing, "/w/a.txt")

    again = await index_file(project.indexing, "/w/a.txt")

    assert again.result is IndexResult.UNCHANGED
    assert again.file == first.file
    assert len(await project.history(first.object_id)) == 1


async def test_a_changed_file_gets_a_new_version(project: Project) -> None:
    """003-R172: the id stays, and the version before is history."""
    project.write("a.txt", b"old")
    first = await index_file(project.indexing, "/w/a.txt")
    project.write("a.txt", b"new")

    second = await index_file(project.indexing, "/w/a.txt")

    assert (second.result, second.object_id) == (IndexResult.UPDATED, first.object_id)
    assert len(await project.history(first.object_id)) == 2


async def test_reading_a_stub_makes_it_a_file(project: Project) -> None:
    """003-R170, 003-R165: discovery and reading give one object."""
    project.write("a.txt", b"text", mtime_ns=LONG_AGO_NS)
    (plan,) = await project.indexing.plan_discovery(["/w/a.txt"])
    (stub,) = await project.indexing.apply(plan)

    read = await index_file(project.indexing, "/w/a.txt")

    assert (stub.state, read.state) == (FileState.STUB, FileState.LIVE)
    assert (read.result, read.object_id) == (IndexResult.UPDATED, stub.object_id)


async def test_a_link_is_indexed_as_its_target(project: Project) -> None:
    """003-A40: two names of one file are one object."""
    project.write("real.txt", b"text")
    (project.root / "link.txt").symlink_to("/w/real.txt")

    real = await index_file(project.indexing, "/w/real.txt")
    link = await index_file(project.indexing, "/w/link.txt")

    assert (link.object_id, link.result) == (real.object_id, IndexResult.UNCHANGED)


async def test_a_deleted_file_keeps_its_hash_and_loses_its_text(project: Project) -> None:
    """003-R118, 003-R189, 003-A01: the object and its history remain."""
    path = project.write("a.txt", b"text")
    first = await index_file(project.indexing, "/w/a.txt")
    assert first.file is not None
    path.unlink()

    deleted = await reconciled(project, first.file)

    stored = await project.store.get(first.object_id)
    assert stored is not None
    assert (deleted.content, deleted.file_hash) == (None, first.file.file_hash)
    assert await state_of(project.store, stored) is FileState.DELETED


async def test_a_deleted_file_restored_unchanged_is_live_again(project: Project) -> None:
    """003-A02: its file_hash equals that of the deletion, which must not count as unchanged."""
    path = project.write("a.txt", b"text")
    first = await index_file(project.indexing, "/w/a.txt")
    assert first.file is not None
    path.unlink()
    await reconciled(project, first.file)
    project.write("a.txt", b"text")

    again = await index_file(project.indexing, "/w/a.txt")

    assert (again.result, again.state) == (IndexResult.UPDATED, FileState.LIVE)


async def test_a_mount_that_is_missing_deletes_nothing(project: Project) -> None:
    """003-R117, 003-R187, 003-A12: unreachable is not deleted."""
    project.write("a.txt", b"text")
    first = await index_file(project.indexing, "/w/a.txt")
    assert first.file is not None
    (project.root / "a.txt").unlink()
    project.root.rmdir()

    batches = [batch async for batch in project.indexing.reconcile([Target.of(first.file)])]

    (outcome,) = batches[-1].outcomes
    assert (outcome.result, outcome.file) == (IndexResult.UNCHANGED, first.file)
    assert isinstance(outcome.unread, Unreachable)


async def test_a_path_of_an_undeclared_filesystem_is_orphaned(project: Project) -> None:
    """003-A33: another machine may have a different file at the same path."""
    path = project.write("a.txt", b"of another machine")
    source = FilesystemSource(filesystem_id="elsewhere", path=str(path))
    target = Target.of(File.read(source, data=b"indexed"))

    batches = [batch async for batch in project.indexing.reconcile([target])]

    (outcome,) = batches[-1].outcomes
    assert isinstance(outcome.unread, Unreachable)
    assert await project.store.get(target.object_id) is None


async def test_a_binary_file_has_a_hash_and_no_content(project: Project) -> None:
    """003-A13: an image is known and never shown as garbled text."""
    project.write("a.png", b"\x89PNG\xff")

    outcome = await index_file(project.indexing, "/w/a.png")

    assert outcome.state is FileState.NONTEXT
    assert outcome.file is not None
    assert outcome.file.file_hash is not None
    assert (await index_file(project.indexing, "/w/a.png")).result is IndexResult.UNCHANGED


async def test_a_file_that_is_too_large_stays_unread_and_says_why(project: Project) -> None:
    """003-A40: activating it must give the reason."""
    os.truncate(project.write("huge.bin", b""), FILE_BYTES_MAX + 1)

    outcome = await index_file(project.indexing, "/w/huge.bin")

    assert (outcome.result, outcome.state) == (IndexResult.CREATED, FileState.STUB)
    assert isinstance(outcome.unread, RefusedFile)
    assert outcome.unread.refusal is Refusal.TOO_LARGE


async def test_an_invalid_path_is_refused(project: Project) -> None:
    """No object can be created from it."""
    with pytest.raises(Incorrect, match="absolute"):
        await index_file(project.indexing, "src/main.py")


async def test_a_version_is_valid_from_when_the_file_changed(project: Project) -> None:
    """003-A34: the content at ten o'clock differs from what was known at ten o'clock."""
    await project.store.commit([Put({"xt/id": "before", "type": "note"})])
    project.write("a.txt", b"text", mtime_ns=LONG_AGO_NS)

    outcome = await index_file(project.indexing, "/w/a.txt")

    stored = await project.store.get(outcome.object_id)
    assert stored is not None
    assert stored.valid_time == LONG_AGO_NS // 1_000_000


async def test_versions_written_in_quick_succession_are_all_kept(project: Project) -> None:
    """003-A34: a writer waits out the millisecond, so that no version hides another."""
    ids = set()
    for number in range(5):
        project.write("a.txt", b"%d" % number)
        ids.add((await index_file(project.indexing, "/w/a.txt")).object_id)

    (object_id,) = ids
    entries = (await project.store.history(object_id)).entries
    assert [entry.document["content"] for entry in entries if entry.document] == list("01234")


async def test_after_a_conflict_the_file_is_read_again(project: Project) -> None:
    """003-A34: if two clients index one file, the older read must not win."""
    project.write("a.txt", b"old")
    planned = await project.indexing.plan_read("/w/a.txt")
    project.write("a.txt", b"new")
    await index_file(project.another_client(), "/w/a.txt")

    (outcome,) = await project.indexing.apply(planned)

    assert outcome.file is not None
    assert (outcome.result, outcome.file.content) == (IndexResult.UNCHANGED, "new")


async def test_a_plan_can_share_a_transaction_with_other_writes(project: Project) -> None:
    """All changes of one tool call are written in one transaction."""
    project.write("a.txt", b"text")
    planned = await project.indexing.plan_read("/w/a.txt")
    note = Put({"xt/id": f"note-{planned.outcomes[0].object_id}", "type": "note"})

    project.indexing.note(await project.store.commit([*planned.operations, note]))

    assert (await index_file(project.indexing, "/w/a.txt")).result is IndexResult.UNCHANGED
    with pytest.raises(Conflict):
        await project.store.commit(planned.operations)


async def test_settled_files_that_look_the_same_are_not_read_again(project: Project) -> None:
    """003-R116: resuming a large session stats all files and reads few."""
    project.write("a.txt", b"text", mtime_ns=LONG_AGO_NS)
    project.ahead_ns = LATER_NS
    first = await index_file(project.indexing, "/w/a.txt")
    assert first.file is not None

    batches = [batch async for batch in project.indexing.reconcile([Target.of(first.file)])]

    assert [batch.proven for batch in batches] == [(first.object_id,)]


async def test_stubs_stay_unread_when_a_session_resumes(project: Project) -> None:
    """003-A11, 003-R119: files that were only listed are not read unasked."""
    project.write("a.txt", b"text")
    (plan,) = await project.indexing.plan_discovery(["/w/a.txt"])
    (stub,) = await project.indexing.apply(plan)
    assert stub.file is not None

    assert await reconciled(project, stub.file) == stub.file
