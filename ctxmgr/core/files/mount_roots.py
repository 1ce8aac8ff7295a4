"""The host's folders that are mounted in a sandbox, kept open. Opens each folder once.

A sandbox keeps using the folder that was mounted when it started, and so does the client: a link
that later replaces the path, perhaps made by the agent through another mount, redirects neither.
"""

import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final, TypeAlias

from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.outcomes import Refusal, RefusedFile, Unreachable

OPEN_WITHOUT_READING: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
"""With Linux's O_PATH, opening a FIFO does not block and opening a device has no effect."""

Parts: TypeAlias = tuple[bytes, ...]
Root: TypeAlias = int | RefusedFile | Unreachable
"""A file descriptor, or why the mount cannot be read."""


class MountRoots:
    """The open folder of each mount, by agent path."""

    def __init__(self, mounts: Mounts) -> None:
        """Open every mount that the host may read. Those that fail to open are unreachable."""
        self._closing = ExitStack()
        self._points: dict[Parts, Root] = {}
        self._devices: set[int] = set()
        resolved = tuple(self._pin(mapping, mounts) for mapping in mounts.mappings)
        self.mounts: Final = replace(mounts, mappings=resolved)
        """With resolved canonical prefixes, so that a file has one location."""
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
        """Close all folders."""
        self._closing.close()

    def at(self, parts: Parts) -> Root | None:
        """Return the mount at exactly this agent path."""
        return self._points.get(parts)

    def containing(self, path: bytes) -> tuple[Root | None, bytes]:
        """Return the mount that contains a normalised path lexically, and the path within it."""
        for prefix, root in self._longest:
            if path.startswith(prefix):
                return root, path[len(prefix) :]
        return None, b""

    def holds(self, device: int) -> bool:
        """Return whether an open folder is on this device, so its number cannot be reused."""
        return device in self._devices

    def is_above_a_mount(self, parts: Parts) -> bool:
        """Return whether there is a mount below this agent path."""
        return parts in self._above

    def _pin(self, mapping: MountMapping, mounts: Mounts) -> MountMapping:
        point = tuple(filter(None, _encoded(mapping.agent_prefix).split(b"/")))
        if not mounts.is_on_host(mapping):
            reason = f"{mapping.agent_prefix} is in the sandbox's own filesystem"
            self._points[point] = RefusedFile(Refusal.OUTSIDE, reason)
            return mapping
        real = os.path.realpath(_encoded(mapping.canonical_prefix))
        self._points[point] = self._open(real)
        return replace(mapping, canonical_prefix=real.decode("utf-8", "surrogateescape"))

    def _open(self, path: bytes) -> Root:
        try:
            root = os.open(path, OPEN_WITHOUT_READING)
        except OSError as error:
            name = path.decode("utf-8", "replace")
            return Unreachable(f"the mounted folder {name}: {error.strerror}")
        self._closing.callback(os.close, root)
        with suppress(OSError):  # files on an unknown device are checked one by one
            self._devices.add(os.fstat(root).st_dev)
        return root


def is_reachable(root: int) -> bool:
    """Return whether a mounted folder still exists, so that a file missing in it was deleted."""
    try:
        return os.fstat(root).st_nlink > 0
    except OSError:
        return False


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
