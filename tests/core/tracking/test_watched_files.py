"""Which folders are watched for which files."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctxmgr.core.tracking.folder_watches import OnChange, OnOverflow
from ctxmgr.core.tracking.watched_files import WatchedFiles

WITHIN_SECONDS = 60


class ReportedPaths:
    """The paths that were reported as changed."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._news = threading.Condition()

    def __call__(self, paths: list[str]) -> None:
        with self._news:
            self._paths.update(paths)
            self._news.notify_all()

    def of(self, path: Path) -> bool:
        """Wait until the path is reported."""
        with self._news:
            return self._news.wait_for(lambda: str(path) in self._paths, WITHIN_SECONDS)

    def was(self, path: Path) -> bool:
        """Return whether the path was reported so far."""
        with self._news:
            return str(path) in self._paths


class Recorded:
    """Folder watches that only record what is watched."""

    def __init__(self, on_change: OnChange, on_overflow: OnOverflow) -> None:
        self.folders: set[str] = set()

    def add(self, folder: str) -> None:
        self.folders.add(folder)

    def remove(self, folder: str) -> None:
        self.folders.discard(folder)

    def close(self) -> None:
        self.folders.clear()


@pytest.fixture
def reported() -> ReportedPaths:
    return ReportedPaths()


@pytest.fixture
def watched(reported: ReportedPaths) -> Iterator[WatchedFiles]:
    opened = WatchedFiles(reported, poll_seconds=1)
    yield opened
    opened.close()


@pytest.fixture
def recorded() -> Iterator[Callable[[], tuple[WatchedFiles, Recorded]]]:
    opened: list[WatchedFiles] = []

    def make() -> tuple[WatchedFiles, Recorded]:
        folders = Recorded(lambda *_: None, lambda: None)
        opened.append(
            WatchedFiles(ReportedPaths(), poll_seconds=1, open_watches=lambda *_: folders)
        )
        return opened[-1], folders

    yield make
    for file in opened:
        file.close()


def test_one_watch_serves_all_files_of_a_folder(
    recorded: Callable[[], tuple[WatchedFiles, Recorded]],
) -> None:
    """003-R183: watches are limited, and sessions have many files."""
    watched, folders = recorded()

    for number in range(100):
        watched.add(f"/project/src/{number}.py", root="/project")

    assert folders.folders == {"/project", "/project/src"}


def test_nested_mounts_have_separate_roots(
    recorded: Callable[[], tuple[WatchedFiles, Recorded]],
) -> None:
    """003-R183: nothing above a mount is watched for it."""
    watched, folders = recorded()

    watched.add("/data/cache/a.bin", root="/data/cache")
    watched.add("/data/cache/deep/b.bin", root="/data")

    assert folders.folders == {"/data/cache", "/data/cache/deep"}


def test_a_single_file_mount_is_watched_through_its_folder(
    reported: ReportedPaths, watched: WatchedFiles, tmp_path: Path
) -> None:
    """003-R183: containers mount single settings files."""
    file = tmp_path / "settings.toml"
    watched.add(str(file), root=str(file))

    file.write_text("x = 1", encoding="utf-8")

    assert reported.of(file)


def test_without_a_sandbox_the_filesystem_root_is_the_root(
    reported: ReportedPaths, watched: WatchedFiles, tmp_path: Path
) -> None:
    """003-A36: unmapped paths are read and watched."""
    file = tmp_path / "a.py"
    watched.add(str(file), root="/")

    file.write_text("x = 1", encoding="utf-8")

    assert reported.of(file)


def test_a_folder_that_does_not_exist_yet_is_watched_once_it_does(
    reported: ReportedPaths, watched: WatchedFiles, tmp_path: Path
) -> None:
    """003-R186: a resumed session may have files of a branch that is not checked out."""
    file = tmp_path / "later" / "deep" / "a.py"
    watched.add(str(file), root=str(tmp_path))
    file.parent.mkdir(parents=True)
    assert reported.of(file)

    reported._paths.clear()
    file.write_text("x = 1", encoding="utf-8")

    assert reported.of(file)


def test_other_files_are_not_reported(
    reported: ReportedPaths, watched: WatchedFiles, tmp_path: Path
) -> None:
    """003-R186: unrelated files in a busy folder cost only a name lookup."""
    file, other = tmp_path / "a.py", tmp_path / "b.py"
    watched.add(str(file), root=str(tmp_path))

    other.write_text("x = 1", encoding="utf-8")
    file.write_text("x = 1", encoding="utf-8")

    assert reported.of(file)
    assert str(other) not in reported._paths


def test_a_folder_is_watched_as_long_as_a_file_needs_it(
    recorded: Callable[[], tuple[WatchedFiles, Recorded]],
) -> None:
    """003-R187: watches are few on a machine, and a paused session needs none."""
    files, folders = recorded()
    for path in ("/p/src/core/a.py", "/p/src/core/b.py", "/p/src/c.py"):
        files.add(path, root="/p")
    watched = [set(folders.folders)]
    for path in ("/p/src/core/a.py", "/p/src/core/b.py", "/p/never.py", "/p/src/c.py"):
        files.remove(path)
        watched.append(set(folders.folders))

    everything = {"/p", "/p/src", "/p/src/core"}
    assert watched == [everything, everything, {"/p", "/p/src"}, {"/p", "/p/src"}, set()]


def test_a_file_that_is_followed_again_is_watched_again(
    reported: ReportedPaths, watched: WatchedFiles, tmp_path: Path
) -> None:
    """003-R188: with the kernel's own watches, which are removed and added again."""
    path = tmp_path / "sub" / "a.py"
    path.parent.mkdir()
    path.write_text("a", encoding="utf-8")
    watched.add(str(path), root=str(tmp_path))
    watched.remove(str(path))
    watched.add(str(path), root=str(tmp_path))

    path.write_text("b", encoding="utf-8")

    assert reported.of(path)


def test_a_file_that_is_not_followed_any_more_is_not_polled(tmp_path: Path) -> None:
    """A network filesystem is asked for what is needed, and for nothing else."""
    reports = ReportedPaths()
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"
    files = WatchedFiles(reports, poll_seconds=0.01, on_network=lambda _: True)
    try:
        for path in (kept, dropped):
            files.add(str(path), root=str(tmp_path))
        files.remove(str(dropped))
        dropped.write_text("x", encoding="utf-8")
        kept.write_text("x", encoding="utf-8")

        assert reports.of(kept)
        assert not reports.was(dropped)
    finally:
        files.close()
