"""Mount roots: the host's folders that a sandbox's mounts lead to, held open. Opens them once.

A sandbox holds on to the folder that was there when it started. So does the client: a link put
later at that path, perhaps by the agent through another mount, leads neither of them elsewhere.
"""

import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final, TypeAlias

from ctxmgr.core.file_outcomes import Refusal, Refused, Unreachable
from ctxmgr.core.mounts import MountMapping, Mounts

OPEN_WITHOUT_READING: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
"""Linux: neither does a FIFO block nor a device notice."""

Parts: TypeAlias = tuple[bytes, ...]
Root: TypeAlias = int | Refused | Unreachable
"""A file descriptor, or why there is none."""


class MountRoots:
    """Where a walk goes on when it comes to a mount."""

    def __init__(self, mounts: Mounts) -> None:
        """Open every mount that the host may read. One that cannot be opened is unreachable."""
        self._closing = ExitStack()
        self._points: dict[Parts, Root] = {}
        self._devices: set[int] = set()
        resolved = tuple(self._pin(mapping, mounts) for mapping in mounts.mappings)
        self.mounts: Final = replace(mounts, mappings=resolved)
        """With each canonical prefix as the host resolves it, so that one file has one place."""
        if not mounts.sandboxed and () not in self._points:
            self._points[()] = self._open(b"/")
        self._longest = sorted(
            (
                (b"".join(b"/" + part for part in point) + b"/", root)
                for point, root in self._points.items()
            ),
            key=lambda pair: -len(pair[0]),
        )
        self._above = {point[:end] for point in self._points for end in range(len(point))}

    def close(self) -> None:
        """Let go of all folders."""
        self._closing.close()

    def at(self, parts: Parts) -> Root | None:
        """Return the mount at just this agent path."""
        return self._points.get(parts)

    def below(self, path: bytes) -> tuple[Root | None, bytes]:
        """Return the mount that a path without dots is in by its letters, and the path in it."""
        for prefix, root in self._longest:
            if path.startswith(prefix):
                return root, path[len(prefix) :]
        return None, b""

    def holds(self, device: int) -> bool:
        """Tell whether it is the device of a folder that is open: then it is no other's now."""
        return device in self._devices

    def is_above_a_mount(self, parts: Parts) -> bool:
        """Tell whether this agent path leads to a mount further down: then it is a real folder."""
        return parts in self._above

    def _pin(self, mapping: MountMapping, mounts: Mounts) -> MountMapping:
        point = tuple(filter(None, _encoded(mapping.agent_prefix).split(b"/")))
        if not mounts.is_on_host(mapping):
            where = f"{mapping.agent_prefix} is the sandbox's own"
            self._points[point] = Refused(Refusal.OUTSIDE, where)
            return mapping
        real = os.path.realpath(_encoded(mapping.canonical_prefix))
        self._points[point] = self._open(real)
        return replace(mapping, canonical_prefix=real.decode("utf-8", "surrogateescape"))

    def _open(self, path: bytes) -> Root:
        try:
            root = os.open(path, OPEN_WITHOUT_READING)
        except OSError as error:
            shown = path.decode("utf-8", "replace")
            return Unreachable(f"the mount's folder {shown}: {error.strerror}")
        self._closing.callback(os.close, root)
        with suppress(OSError):  # a device that is not known is asked about for every file
            self._devices.add(os.fstat(root).st_dev)
        return root


def is_reachable(root: int) -> bool:
    """Tell whether what is mounted still exists, so that what is missing in it was deleted."""
    try:
        return os.fstat(root).st_nlink > 0
    except OSError:
        return False


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
