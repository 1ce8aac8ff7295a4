"""Reading files while the disk changes: swaps, deletions, writes and missing folders."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.core.files.host_files import READS_MAX, HostFiles
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.outcomes import (
    CLOCK_GRAIN_NS,
    Fingerprint,
    MissingFile,
    ReadFile,
    Refusal,
    RefusedFile,
    SeenFile,
    Unreachable,
)

SECRET = b"the host's secret"
STRAIGHT, STEPWISE = "/workspace/src/main.py", "/workspace/./src/main.py"
"""Both ways to open a path: in one call if the kernel supports it, or component by component."""
FLIPS = 400
"""Reads while a thread swaps files; a check-then-open reader fails within a dozen."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one file, and a folder of the host with a file of the same name."""
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/src/main.py").write_bytes(b"main")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/main.py").write_bytes(SECRET)
    return tmp_path / "project"


@pytest.fixture
def files(project: Path) -> Iterator[HostFiles]:
    with HostFiles(sandbox(project)) as opened:
        yield opened


def sandbox(project: Path) -> Mounts:
    mapping = MountMapping(
        agent_prefix="/workspace", canonical_prefix=str(project), filesystem_id="host"
    )
    return Mounts.of_sandbox([mapping], own_id="own")


def project_of(files: HostFiles) -> Path:
    return Path(files.mounts.mappings[0].canonical_prefix)


def swap_folder(project: Path) -> None:
    """Put a link to a folder of the host where the agent's folder was."""
    (project / "src").rename(project / "old")
    (project / "src").symlink_to(project.parent / "etc")


def swap_file(project: Path) -> None:
    """Put a link to a file of the host where the agent's file was."""
    (project / "src/main.py").unlink()
    (project / "src/main.py").symlink_to(project.parent / "etc/main.py")


def before_call(
    monkeypatch: pytest.MonkeyPatch, name: str, number: int, act: Callable[[], None]
) -> None:
    """Run a hook just before the n-th call of a function of ``os``."""
    real, calls = getattr(os, name), iter(range(1, 1_000))

    def called(*args: Any, **options: Any) -> Any:
        if next(calls) == number:
            act()
        return real(*args, **options)

    monkeypatch.setattr(os, name, called)


@pytest.mark.parametrize("swap", [swap_folder, swap_file])
@pytest.mark.parametrize(
    "moment", [(call, number) for call in ("open", "fstat", "readlink") for number in (1, 2, 3, 4)]
)
@pytest.mark.parametrize("path", [STRAIGHT, STEPWISE])
def test_a_link_swapped_in_at_any_step_is_not_followed(
    path: str,
    moment: tuple[str, int],
    swap: Callable[[Path], None],
    files: HostFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """003-A40: the agent may replace a file between check and use."""
    before_call(monkeypatch, *moment, lambda: swap(project_of(files)))

    outcome = files.read(path)

    if isinstance(outcome, ReadFile):
        assert outcome.data == b"main"
    else:
        assert isinstance(outcome, MissingFile) or outcome.reason.endswith(
            "sandbox's own filesystem"
        )


def test_a_continuously_swapped_link_is_not_followed(project: Path, files: HostFiles) -> None:
    """003-A40: no byte of the host is read, whatever the timing."""
    (project / "link").symlink_to(project.parent / "etc")
    swapping, done = threading.Event(), threading.Event()

    def swap() -> None:
        while not done.is_set():
            for first, second in (
                ("src", "spare"),
                ("link", "src"),
                ("src", "link"),
                ("spare", "src"),
            ):
                (project / first).rename(project / second)
            swapping.set()

    thread = threading.Thread(target=swap)
    thread.start()
    assert swapping.wait(60)
    outcomes = [files.read(path) for path in (STRAIGHT, STEPWISE) for _ in range(FLIPS)]
    done.set()
    thread.join(60)

    assert {outcome.data for outcome in outcomes if isinstance(outcome, ReadFile)} <= {b"main"}


def test_a_device_or_fifo_swapped_in_is_not_opened(
    project: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-A40: the file that is read is the one whose kind was checked."""

    def swap() -> None:
        (project / "src/main.py").unlink()
        os.mkfifo(project / "src/main.py")

    before_call(monkeypatch, "open", 1, swap)

    outcome = files.read(STRAIGHT)

    assert isinstance(outcome, ReadFile | RefusedFile)
    assert not isinstance(outcome, ReadFile) or outcome.data == b"main"


def test_a_mount_whose_path_is_swapped_keeps_its_folder(tmp_path: Path, project: Path) -> None:
    """003-A40: an agent with write access above another mount cannot turn it into a link."""
    (project / "data").mkdir()
    (project / "data/main.py").write_bytes(b"data")
    mapping = MountMapping(
        agent_prefix="/data", canonical_prefix=f"{project}/data", filesystem_id="host"
    )
    with HostFiles(Mounts.of_sandbox([mapping], own_id="own")) as files:
        (project / "data").rename(project / "moved")
        (project / "data").symlink_to(tmp_path / "etc")

        outcome = files.read("/data/main.py")

    assert isinstance(outcome, ReadFile)
    assert outcome.data == b"data"


def test_a_deleted_file_is_gone_only_while_its_mount_is_there(
    project: Path, files: HostFiles
) -> None:
    """003-A12: if the whole folder vanishes, its files were not deleted one by one."""
    (project / "src/main.py").unlink()
    assert isinstance(files.read(STRAIGHT), MissingFile)

    shutil.rmtree(project)

    assert files.read(STRAIGHT) == Unreachable("the mount itself is missing")


def test_a_mount_that_never_existed_is_unreachable(tmp_path: Path) -> None:
    """003-A12: on another machine the folder is missing, and its files are orphaned."""
    with HostFiles(sandbox(tmp_path / "missing")) as files:
        outcome = files.read(STRAIGHT)

    assert isinstance(outcome, Unreachable)
    assert "No such file" in outcome.reason


def test_a_file_without_read_permission_is_unreachable(
    project: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-A12: missing permissions do not mean that the file is gone."""
    refused = PermissionError(13, "Permission denied")

    def refuse() -> None:
        raise refused

    before_call(monkeypatch, "open", 2, refuse)

    assert files.read(STEPWISE) == Unreachable("Permission denied")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_error_of_the_disk_is_unreachable(
    number: int, project: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-A12: a network mount that does not respond has deleted nothing."""

    def fail() -> None:
        raise OSError(5, "Input/output error")

    before_call(monkeypatch, "open", number, fail)

    assert files.read(STEPWISE) == Unreachable("Input/output error")


def test_a_file_that_changes_while_it_is_read_is_read_again(
    project: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R168: a mix of two states was never the file's content."""

    def change() -> None:
        (project / "src/main.py").write_bytes(b"longer")

    before_call(monkeypatch, "read", 1, change)

    outcome = files.read(STRAIGHT)

    assert isinstance(outcome, ReadFile)
    assert (outcome.data, outcome.whole) == (b"longer", True)


def test_a_file_that_keeps_changing_is_marked(
    project: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-R168: a log may grow faster than it is read; a partial read is better than none."""
    real, reads = os.read, []

    def growing(fd: int, size: int) -> bytes:
        reads.append(size)
        with (project / "src/main.py").open("ab") as log:
            log.write(b"+")
        return real(fd, size)

    monkeypatch.setattr(os, "read", growing)

    outcome = files.read(STRAIGHT)

    assert isinstance(outcome, ReadFile)
    assert not outcome.whole
    assert outcome.data.startswith(b"main+")
    assert len(reads) <= 3 * READS_MAX


def test_a_file_that_exceeds_the_limit_while_read_is_not_kept(
    project: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """003-A40: the limit applies to the bytes in memory, whatever stat reported first."""
    before_call(monkeypatch, "read", 1, lambda: os.truncate(project / "src/main.py", 100))

    outcome = files.read(STRAIGHT, bytes_max=10)

    assert isinstance(outcome, RefusedFile)
    assert outcome.refusal is Refusal.TOO_LARGE


def test_a_changed_file_has_another_fingerprint(project: Path, files: HostFiles) -> None:
    """003-R171: a file whose stat is unchanged need not be read again."""
    seen, again = files.look(STRAIGHT), files.look(STRAIGHT)
    os.utime(project / "src/main.py", ns=(1, 1))
    changed = files.look(STRAIGHT)

    assert isinstance(seen, SeenFile)
    assert isinstance(changed, SeenFile)
    assert seen == again
    assert changed.fingerprint != seen.fingerprint
    assert changed.fingerprint.mtime_ns == 1


def test_a_fingerprint_within_the_clocks_granularity_is_not_trusted() -> None:
    """003-R171: a second write in the same tick has the same timestamp."""
    fingerprint = Fingerprint(mtime_ns=10, ctime_ns=20, size=1, inode=1)

    assert not fingerprint.is_settled(looked_at_ns=20 + CLOCK_GRAIN_NS)
    assert fingerprint.is_settled(looked_at_ns=21 + CLOCK_GRAIN_NS)
