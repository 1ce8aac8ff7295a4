"""Trackers detect changes of files on disk through real kernel events."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.objects.file import File, FileState
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.tracking.index_plan import IndexResult
from ctxmgr.core.tracking.observation import Target
from ctxmgr.core.tracking.trackers import TRANSITIONS, TrackerEvent, Trackers, TrackerState
from tests.core.builders.projects import BOTH_STORES, Project, index_file, opened_project
from tests.core.builders.tracked_files import WITHIN_SECONDS, FollowedFiles, followed_files
from tests.core.builders.whole_files import replace_file


@pytest.fixture(params=BOTH_STORES)
async def on_both(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[FollowedFiles]:
    async with (
        opened_project(tmp_path, request.param, request) as project,
        followed_files(project) as it,
    ):
        yield it


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, "sqlite", request) as opened:
        yield opened


@pytest.fixture
async def it(project: Project) -> AsyncIterator[FollowedFiles]:
    async with followed_files(project) as opened:
        yield opened


async def test_a_change_on_disk_becomes_a_version(on_both: FollowedFiles) -> None:
    """003-R166, 003-R183, 003-R186: the agent sees what another program edited."""
    path = on_both.project.write("src/a.py", b"old")
    (object_id,) = await on_both.follow("src/a.py")

    path.write_bytes(b"new")
    outcome = await on_both.until("new")

    assert (outcome.result, outcome.object_id) == (IndexResult.UPDATED, object_id)
    assert on_both.trackers.state(object_id) is TrackerState.ATTACHED


async def test_an_unlinked_file_is_deleted_and_its_history_remains(on_both: FollowedFiles) -> None:
    """003-R189: earlier content can still be read."""
    path = on_both.project.write("a.py", b"text")
    (object_id,) = await on_both.follow("a.py")

    path.unlink()
    outcome = await on_both.until(None)

    assert outcome.state is FileState.DELETED
    assert on_both.trackers.state(object_id) is TrackerState.DELETED
    assert len(await on_both.project.history(object_id)) == 2


async def test_a_recreated_file_is_tracked_again(it: FollowedFiles) -> None:
    """003-A02, 003-R186: a build that cleans first restores the file."""
    path = it.project.write("a.py", b"text")
    (object_id,) = await it.follow("a.py")
    path.unlink()
    await it.until(None)

    path.write_bytes(b"text")
    await it.until("text")

    assert it.trackers.state(object_id) is TrackerState.ATTACHED


async def test_an_edit_by_renaming_a_temporary_file_is_detected(it: FollowedFiles) -> None:
    """003-R186: most editors never write into the file itself."""
    path = it.project.write("a.py", b"old")
    await it.follow("a.py")

    for text in (b"one", b"two"):
        aside = it.project.write(".a.py.swp", text)
        aside.replace(path)
        await it.until(text.decode())


async def test_a_moved_file_is_deleted_at_its_old_path(it: FollowedFiles) -> None:
    """003-A25: identity is the path, so a move is a deletion here and another object there."""
    path = it.project.write("a.py", b"text")
    await it.follow("a.py")

    path.rename(it.project.root / "b.py")

    assert (await it.until(None)).state is FileState.DELETED


async def test_files_of_a_replaced_folder_are_updated(it: FollowedFiles) -> None:
    """003-R186: a checkout may remove and recreate any parent folder."""
    it.project.write("src/core/a.py", b"old")
    await it.follow("src/core/a.py")
    shutil.rmtree(it.project.root / "src")
    await it.until(None)

    it.project.write("src/core/a.py", b"new")
    await it.until("new")
    it.project.write("src/core/a.py", b"newer")

    assert (await it.until("newer")).result is IndexResult.UPDATED


async def test_a_folder_that_was_renamed_over_is_tracked_at_its_path(it: FollowedFiles) -> None:
    """003-R186: the current folder at the path counts, not the old one."""
    it.project.write("src/deep/a.py", b"old")
    it.project.write("next/deep/a.py", b"new")
    await it.follow("src/deep/a.py")

    (it.project.root / "src").rename(it.project.root / "gone")
    (it.project.root / "next").rename(it.project.root / "src")
    await it.until("new")
    it.project.write("gone/deep/a.py", b"not followed")
    it.project.write("src/deep/a.py", b"newer")

    assert (await it.until("newer")).result is IndexResult.UPDATED


async def test_changes_of_a_large_checkout_are_reported_in_batches(project: Project) -> None:
    """003-R186: a thousand events make a few batches, even if files are written slowly."""
    names = [f"{number % 7}/{number}.txt" for number in range(300)]
    for name in names:
        project.write(name, b"old")
    async with followed_files(project, debounce_ms=500) as it:
        missing = set(await it.follow(*names))
        batches = 0

        for name in names:
            project.write(name, b"new text")
        while missing:
            missing -= await it.next_changes()
            batches += 1

    assert batches < len(names) / 10


async def test_a_file_behind_a_link_is_tracked_at_its_real_path(it: FollowedFiles) -> None:
    """003-R183: the canonical path is watched, not the agent's name for it."""
    path = it.project.write("real/a.py", b"old")
    (it.project.root / "link").symlink_to("real")
    await it.follow("link/a.py")

    path.write_bytes(b"new")

    assert (await it.until("new")).source.path == str(path)


async def test_a_change_before_attaching_is_not_missed(it: FollowedFiles) -> None:
    """003-R188: a file may change between being read and being watched."""
    path = it.project.write("a.py", b"old")
    outcome = await index_file(it.project.indexing, "/w/a.py")
    assert outcome.file is not None
    path.write_bytes(b"new")

    await it.follow("a.py", report=True)
    assert it.trackers.state(outcome.object_id) is TrackerState.RESUMED
    await it.indexed()

    assert it.trackers.state(outcome.object_id) is TrackerState.ATTACHED


async def test_two_clients_tracking_one_source_share_one_object(project: Project) -> None:
    """003-R185: the first client writes the version, and the other finds it stored."""
    path = project.write("a.py", b"old")
    async with followed_files(project) as one, followed_files(project) as other:
        assert await one.follow("a.py") == await other.follow("a.py")
        replace_file(path, b"new")

        first, second = await asyncio.gather(one.until("new"), other.until("new"))

    assert first.object_id == second.object_id
    assert len(await project.history(first.object_id)) == 2


async def test_a_file_private_to_the_sandbox_gets_no_tracker(it: FollowedFiles) -> None:
    """003-R184: the host's file at that path is a different one."""
    outcome = await index_file(it.project.indexing, "/etc/hosts", output=b"127.0.0.1 box\n")
    assert outcome.file is not None

    await it.trackers.attach([Target.of(outcome.file)])

    assert it.trackers.state(outcome.object_id) is TrackerState.ORPHANED
    assert dict(it.trackers.states) == {}


async def test_a_source_on_another_machine_stays_orphaned(it: FollowedFiles) -> None:
    """003-R187, 003-A33: that is a normal state, not an error."""
    source = FilesystemSource(filesystem_id="elsewhere", path=str(it.project.root / "a.py"))
    target = Target.of(File.read(source, data=b"text"))

    await it.trackers.attach([target])

    assert it.trackers.state(target.object_id) is TrackerState.ORPHANED


async def test_an_unreadable_file_is_orphaned_until_it_is_readable(it: FollowedFiles) -> None:
    """003-R187, 003-R188, 003-A12: removing permissions deletes nothing."""
    path = it.project.write("sub/a.py", b"text")
    (object_id,) = await it.follow("sub/a.py")
    path.unlink()
    path.symlink_to("/etc/hosts")  # for the agent, that is in the sandbox's own filesystem
    await it.indexed()
    orphaned = it.trackers.state(object_id)

    path.unlink()
    path.write_bytes(b"text again")
    await it.until("text again")

    assert orphaned is TrackerState.ORPHANED
    assert it.trackers.state(object_id) is TrackerState.ATTACHED


async def test_a_detached_file_is_orphaned_and_reported_no_more(it: FollowedFiles) -> None:
    """003-R187: whoever has no session with it does not store its changes."""
    detached = it.project.write("a.py", b"old")
    kept = it.project.write("b.py", b"old")
    first, second = await it.follow("a.py", "b.py")
    detached.write_bytes(b"new")

    await it.trackers.detach([first, "unknown"])
    detached.write_bytes(b"newer")
    kept.write_bytes(b"new")

    assert await it.next_changes() == {second}
    assert it.trackers.state(first) is TrackerState.ORPHANED
    assert list(it.trackers.states) == [second]
    await it.follow("a.py")
    detached.write_bytes(b"newest")
    await it.until("newest")


async def test_a_change_that_could_not_be_stored_is_reported_again(it: FollowedFiles) -> None:
    """003-R186: unless nobody follows the file any more."""
    for name in ("a.py", "b.py"):
        it.project.write(name, b"old")
    first, second = await it.follow("a.py", "b.py")
    await it.trackers.detach([second])

    it.trackers.report_again([first, second])

    assert await it.next_changes() == {first}


async def test_nothing_runs_after_closing(project: Project) -> None:
    """Threads end with their owner, and waiting for changes ends."""
    project.write("a.py", b"text")
    await index_file(project.indexing, "/w/a.py")  # starts the store's threads, which stay
    before = set(threading.enumerate())
    async with followed_files(project) as it:
        await it.follow("a.py")
        waiting = asyncio.ensure_future(_all(it.trackers))
        await asyncio.sleep(0)

    assert await asyncio.wait_for(waiting, WITHIN_SECONDS) == []
    watching = [
        thread for thread in set(threading.enumerate()) - before if "asyncio" not in thread.name
    ]
    assert watching == []


async def test_a_file_that_is_written_continuously_is_reported(project: Project) -> None:
    """003-R186: a constantly growing log must not be delayed forever."""
    path = project.write("a.log", b"")
    stop = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as log:
            while not stop.is_set():
                log.write(b"x")
                os.sched_yield()

    async with followed_files(project, debounce_ms=10) as it:
        (object_id,) = await it.follow("a.log")
        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert await it.next_changes() == {object_id}
        finally:
            stop.set()
            writer.join()


def test_every_state_can_be_reached_and_left() -> None:
    """003-R186 to 003-R189: no state is a dead end."""
    for state in TrackerState:
        assert TRANSITIONS[(state, TrackerEvent.UNREACHABLE)] is TrackerState.ORPHANED
    for state in set(TrackerState) - {TrackerState.DELETED}:
        assert TRANSITIONS[(state, TrackerEvent.GONE)] is TrackerState.DELETED
    for state in set(TrackerState) - {TrackerState.ATTACHED}:
        assert TRANSITIONS[(state, TrackerEvent.FOUND)] is TrackerState.ATTACHED
    assert set(TRANSITIONS.values()) == set(TrackerState)


async def _all(trackers: Trackers) -> list[tuple[str, ...]]:
    return [change async for change in trackers.changes()]
