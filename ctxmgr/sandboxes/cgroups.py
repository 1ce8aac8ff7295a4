"""Control groups: limit memory and processes of a whole sandbox, if the user may create one.

    version 2   below the nearest ancestor of our group that delegates both controllers
    version 1   below our group in each of the two hierarchies

Reads ``/proc/self`` and writes below the kernel's cgroup mounts. A group is created when its
sandbox starts, applies to all its commands together, and is removed with it. If none can be
created, limits apply per process.
"""

import os
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.core.sandbox import Limits
from ctxmgr.sandboxes.mount_detection import KernelMount, parse_mountinfo

CONTROLLERS: Final = ("memory", "pids")

REMOVE_SECONDS: Final = 5
"""The longest wait for killed processes to disappear, so that their group can be removed."""

REMOVE_PAUSE_SECONDS: Final = 0.01

JOIN: Final = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 125; shift; n=$((n - 1)); done; '
    'exec "$@"'
)
"""The shell joins the group and then becomes the program, so no process is ever outside."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One group: one folder in version 2, two in version 1."""

    folders: tuple[Path, ...]

    def joined(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in the group."""
        files = [str(folder / "cgroup.procs") for folder in self.folders]
        return ["/bin/sh", "-c", JOIN, "sh", str(len(files)), *files, *argv]

    def remove(self) -> None:
        """Kill the group's processes and remove it. Blocks: call it in a thread."""
        for folder in self.folders:
            until = time.monotonic() + REMOVE_SECONDS
            while folder.exists() and time.monotonic() < until:
                with suppress(OSError):
                    for pid in map(int, _lines(folder / "cgroup.procs")):
                        if pid > 0:  # 0 is in another namespace; kill(0) would hit ourselves
                            with suppress(ProcessLookupError):
                                os.kill(pid, signal.SIGKILL)
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(REMOVE_PAUSE_SECONDS)


def make_group(limits: Limits, *, proc: Path = Path("/proc/self")) -> ControlGroup | None:
    """Create a group with these limits; return None if the user may not."""
    name = f"ctxmgr-{uuid.uuid4().hex}"
    created: list[Path] = []
    try:
        for parent in _parents(proc):
            folder = parent / name
            folder.mkdir()
            created.append(folder)
            _limit(folder, limits)
    except OSError:
        ControlGroup(tuple(created)).remove()
        return None
    return ControlGroup(tuple(created)) if created else None


def _parents(proc: Path) -> list[Path]:
    try:
        own = [line.split(":", 2) for line in _lines(proc / "cgroup")]
        mounts = list(parse_mountinfo((proc / "mountinfo").read_text(encoding="utf-8")))
    except OSError:
        return []
    paths = {name: path for _, names, path in own for name in names.split(",")}
    if all(controller in paths for controller in CONTROLLERS):
        folders = [_version_1(controller, paths[controller], mounts) for controller in CONTROLLERS]
        return [folder for folder in folders if folder] if all(folders) else []
    points = [Path(mount.point) for mount in mounts if mount.filesystem == "cgroup2"]
    return list(_version_2(points[0], paths.get("", "/")))[:1] if points else []


def _version_1(controller: str, path: str, mounts: Sequence[KernelMount]) -> Path | None:
    for mount in mounts:
        point = Path(mount.point)
        if mount.filesystem == "cgroup" and controller in point.name.split(","):
            own = point / path.lstrip("/")
            return own if own.is_dir() else point
    return None


def _version_2(point: Path, path: str) -> Iterator[Path]:
    own = point / path.lstrip("/")
    for folder in [own, *own.parents]:
        if not folder.is_relative_to(point):
            return
        with suppress(OSError):
            delegated = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
            if set(CONTROLLERS) <= set(delegated) and os.access(folder, os.W_OK):
                yield folder


def _limit(folder: Path, limits: Limits) -> None:
    if (folder / "memory.limit_in_bytes").exists():
        _write(folder / "memory.limit_in_bytes", limits.memory_bytes)
        with suppress(OSError):  # the file exists only if the kernel accounts for swap
            _write(folder / "memory.memsw.limit_in_bytes", limits.memory_bytes)
    elif (folder / "memory.max").exists():
        _write(folder / "memory.max", limits.memory_bytes)
        with suppress(OSError):
            _write(folder / "memory.swap.max", 0)
    if (folder / "pids.max").exists():
        _write(folder / "pids.max", limits.processes)


def _write(file: Path, value: int) -> None:
    with file.open("r+", encoding="ascii") as opened:
        opened.write(str(value))


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()
