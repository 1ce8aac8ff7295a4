"""The folder behind a sandbox's /tmp is removed, whatever the agent left in it."""

import logging
import os
import tempfile
from pathlib import Path

import pytest

from ctxmgr.sandboxes import scratch_folder
from ctxmgr.sandboxes.scratch_folder import ScratchFolder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def deep(folder: int, *, levels: int, name: str) -> None:
    """Make folders in folders, deeper than any path is long."""
    here = os.dup(folder)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.mark.parametrize(("levels", "name"), [(50, "d" * 200), (3_000, "d")])
def test_no_depth_keeps_a_folder_from_being_removed(
    temporary: Path, levels: int, name: str
) -> None:
    """Paths have a limit of 4,096 bytes, processes one of open files, Python one of calls."""
    scratch = ScratchFolder()
    deep(scratch.fd, levels=levels, name=name)

    scratch.remove()
    scratch.remove()

    assert list(temporary.iterdir()) == []


def test_what_it_leads_to_is_kept(temporary: Path) -> None:
    """A link is removed, and not what it names."""
    (temporary / "kept").mkdir()
    (temporary / "kept" / "file").touch()
    scratch = ScratchFolder()
    tmp = scratch.path / "tmp"
    (tmp / "moved-1").symlink_to(temporary / "kept")
    for name in ("moved-1", "moved-2", "x"):
        (tmp / "a" / name).mkdir(parents=True)
        (tmp / "a" / name / "link").symlink_to(temporary / "kept")
    os.mkfifo(tmp / "a" / "fifo")

    scratch.remove()

    assert [path.name for path in temporary.iterdir()] == ["kept"]
    assert [path.name for path in (temporary / "kept").iterdir()] == ["file"]


def test_a_failure_is_logged_and_not_raised(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The work is done and reported; a folder that stays is not worth losing that."""

    def fail(_top: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(scratch_folder, "empty_folder", fail)
    scratch = ScratchFolder()

    with caplog.at_level(logging.WARNING):
        scratch.remove()

    assert str(temporary) in caplog.text
    assert "Input/output error" in caplog.text
