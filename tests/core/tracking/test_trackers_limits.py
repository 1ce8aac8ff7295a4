"""Limits of watching: queue overflows, exhausted watches, network filesystems."""

import errno
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, InotifyFD, Mask

from ctxmgr.core.tracking.folder_watches import FolderWatches, OnChange, OnOverflow
from ctxmgr.core.tracking.observer import ObservedFolders
from ctxmgr.core.tracking.watched_files import (
    WatchedFiles,
    filesystem_type,
    is_network,
    open_folder_watches,
)
from tests.core.builders.projects import Project, opened_project
from tests.core.builders.tracked_files import FollowedFiles, followed_files

POLL = 0.01


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, "sqlite", request) as opened:
        yield opened


class Exhausted:
    """Folder watches of a system that runs out after the first few."""

    def __init__(self, on_change: OnChange, on_overflow: OnOverflow, *, left: int) -> None:
        self._inner = open_folder_watches(on_change, on_overflow)
        self._left = left

    def add(self, folder: str) -> None:
        if self._left == 0:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        self._left -= 1
        self._inner.add(folder)

    def remove(self, folder: str) -> None:
        self._inner.remove(folder)

    def close(self) -> None:
        self._inner.close()


def no_instance(on_change: OnChange, on_overflow: OnOverflow) -> FolderWatches:
    raise OSError(errno.EMFILE, "inotify instance limit reached")


def limited(**settings: Any) -> dict[str, Any]:
    return {"watched": partial(WatchedFiles, **settings), "poll_seconds": POLL}


async def edited(it: FollowedFiles, name: str) -> None:
    """Follow a file, edit it, and wait until the edit is a version."""
    path = it.project.write(name, b"old")
    await it.follow(name)
    path.write_bytes(b"edited")
    await it.until("edited")


async def test_without_watches_files_are_polled_with_a_notice(project: Project) -> None:
    """003-R186: the user is informed, and changes arrive later instead of never."""
    left = partial(Exhausted, left=1)

    async with followed_files(project, **limited(open_watches=left)) as it:
        await edited(it, "src/a.py")

        (notice,) = it.trackers.notices

    assert "fs.inotify.max_user_watches" in notice


async def test_without_an_inotify_instance_everything_is_polled(project: Project) -> None:
    """003-R186: it works even if all inotify instances are in use."""
    async with followed_files(project, **limited(open_watches=no_instance)) as it:
        await edited(it, "a.py")

        (notice,) = it.trackers.notices

    assert "fs.inotify.max_user_instances" in notice


async def test_network_filesystems_are_polled(project: Project) -> None:
    """003-R186: the kernel does not report writes by other machines."""
    async with followed_files(project, **limited(on_network=lambda _: True)) as it:
        await edited(it, "a.py")

        assert it.trackers.notices == ()


async def test_the_deletion_of_a_polled_file_is_detected(project: Project) -> None:
    """003-R189: polling must detect it too."""
    async with followed_files(project, **limited(open_watches=no_instance)) as it:
        path = project.write("a.py", b"text")
        await it.follow("a.py")

        path.unlink()

        await it.until(None)


async def test_after_lost_events_all_files_are_checked(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R186: on overflow the kernel only reports that events were dropped."""
    opened: list[InotifyFD] = []
    start = InotifyFD.start
    monkeypatch.setattr(InotifyFD, "start", lambda fd: (opened.append(fd), start(fd))[1])
    async with followed_files(project) as it:
        ids = await it.follow(*(_written(project, f"{n}/a.py") for n in range(3)))

        overflow = Mask(InotifyConstants.IN_Q_OVERFLOW)
        opened[0].handle_event(InotifyEvent(-1, overflow, 0, b""))  # type: ignore[arg-type]

        assert await it.next_changes() == set(ids)
        await edited(it, "1/a.py")


async def test_the_observer_for_other_systems_detects_changes(project: Project) -> None:
    """003-R183: without inotify, watchdog uses the system's mechanism."""
    observed = lambda on_change, _: ObservedFolders(on_change)  # noqa: E731
    async with followed_files(project, **limited(open_watches=observed)) as it:
        await edited(it, "src/a.py")
        (project.root / "src/a.py").unlink()
        await it.until(None)


def test_the_mount_table_identifies_network_filesystems(tmp_path: Path) -> None:
    """003-R186: by the device of a folder."""
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    table = tmp_path / "mountinfo"
    lines = ["1 0 0:1 / / rw - ext4 /dev/x rw", f"2 1 {number} / /n rw shared:1 - nfs4 server rw"]
    table.write_text("\n".join(lines), encoding="utf-8")

    assert filesystem_type(table.read_text(encoding="utf-8"), device=device) == "nfs4"
    assert is_network(str(tmp_path), mountinfo=table)
    assert not is_network(str(tmp_path), mountinfo=tmp_path / "none")
    assert not is_network(str(tmp_path / "missing"), mountinfo=table)


def _written(project: Project, name: str) -> str:
    project.write(name, b"old")
    return name
