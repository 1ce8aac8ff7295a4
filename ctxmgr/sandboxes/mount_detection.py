"""Detect the mounts of a running sandbox. Pure.

    docker inspect    the mounts that the engine was configured with: bind mounts and volumes are on
                      the host, a tmpfs is the container's own
    mountinfo         the mounts of the kernel: a mount is on the host if the host has mounted the
                      same device, at the host's path of the same folder
    st_dev            the device number from a stat: a file on an undeclared mount gets the id of
                      its device, because the folder on the host is unknown

Mounts that a harness declares take precedence: ``merge`` adds only the others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ctxmgr.core.files.mounts import FileLocation, MountMapping, Mounts, normalise
from ctxmgr.errors import Incorrect

ON_HOST: Final = frozenset({"bind", "volume"})
"""Mount types in ``docker inspect`` whose ``Source`` is a folder of the host."""

OWN_TYPES: Final = frozenset(
    {"aufs", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "mqueue"}
    | {"fuse.fuse-overlayfs", "nsfs", "overlay", "proc", "securityfs", "sysfs", "tracefs"}
)
"""Filesystems that belong to the sandbox or contain no real files, even if the host has mounted
them too: an engine mounts a container's overlay on the host."""

DELETED: Final = "//deleted"
"""The suffix in mountinfo of a mount whose folder was removed."""


_LINE: Final = re.compile(r"(\d+) (\d+) (\d+:\d+) (\S+) (\S+) \S+(?: \S+)*? - (\S+)(?: .*)?")


@dataclass(frozen=True, slots=True)
class KernelMount:
    """One line of mountinfo."""

    mount_id: int
    parent_id: int
    device: str
    root: str
    """The folder of the device that is mounted."""
    point: str
    filesystem: str


def mounts_from_inspect(inspected: object, *, host_id: str, own_id: str) -> Mounts:
    """Return the mounts of a container from the parsed output of ``docker inspect``."""
    container = _container(inspected)
    mappings = []
    for mount in container.get("Mounts") or ():
        point, source = str(mount["Destination"]), mount.get("Source")
        if mount.get("Type") in ON_HOST and source:
            mapping = MountMapping(
                agent_prefix=point, canonical_prefix=str(source), filesystem_id=host_id
            )
        else:
            mapping = _own(point, own_id)
        mappings.append(mapping)
    tmpfs = (container.get("HostConfig") or {}).get("Tmpfs") or {}
    mappings += [_own(point, own_id) for point in tmpfs]
    last = {mapping.agent_prefix: mapping for mapping in mappings}
    return Mounts.of_sandbox(last.values(), own_id=own_id)


def container_id(inspected: object) -> str:
    """Return the full container id from the parsed output of ``docker inspect``."""
    return str(_container(inspected)["Id"])


def mounts_from_mountinfo(sandbox: str, *, host: str, host_id: str, own_id: str) -> Mounts:
    """Return the mounts of a sandbox from its mountinfo and the host's."""
    on_host = list(visible_mounts(parse_mountinfo(host)))
    mappings = []
    for mount in visible_mounts(parse_mountinfo(sandbox)):
        canonical = _on_host(mount, on_host)
        if canonical is not None:
            mapping = MountMapping(
                agent_prefix=mount.point, canonical_prefix=canonical, filesystem_id=host_id
            )
            mappings.append(mapping)
        elif mount.point != "/":
            mappings.append(_own(mount.point, own_id))
    prefixes = [mapping.agent_prefix for mapping in mappings if mapping.filesystem_id != own_id]
    # The sandbox's own mounts matter only inside a mount of the host.
    needed = (
        mapping
        for mapping in mappings
        if mapping.filesystem_id != own_id
        or any(_is_in(mapping.agent_prefix, prefix) for prefix in prefixes)
    )
    return Mounts.of_sandbox(needed, own_id=own_id)


def parse_mountinfo(text: str) -> Iterator[KernelMount]:
    """Parse every line of a mountinfo file; raise ``Incorrect`` for an invalid line."""
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise Incorrect(f"{line!r:.200} is not a line of mountinfo")
        mount_id, parent_id, device, root, point, filesystem = match.groups()
        yield KernelMount(
            mount_id=int(mount_id),
            parent_id=int(parent_id),
            device=device,
            root=_unescaped(root),
            point=_unescaped(point),
            filesystem=filesystem,
        )


def visible_mounts(mounts: Iterable[KernelMount]) -> Iterator[KernelMount]:
    """Leave out mounts that are covered by other mounts, and those below them."""
    all_mounts = list(mounts)
    ids = {mount.mount_id for mount in all_mounts}
    children: dict[int, list[KernelMount]] = {}
    for mount in all_mounts:
        children.setdefault(mount.parent_id, []).append(mount)
    todo = [mount for mount in all_mounts if mount.parent_id not in ids]
    while todo:
        mount = todo.pop(0)
        inner = [child for child in children.get(mount.mount_id, ()) if child is not mount]
        over = [child for child in inner if child.point == mount.point]
        if over:
            todo.append(over[-1])
            continue
        yield mount
        todo += [
            child
            for child in inner
            if not any(other is not child and _is_in(child.point, other.point) for other in inner)
        ]


def merge(declared: Mounts, detected: Mounts) -> Mounts:
    """Add the detected mounts whose agent paths are not declared."""
    prefixes = {mapping.agent_prefix for mapping in declared.mappings}
    added = [
        mapping
        if mapping.filesystem_id != detected.default_filesystem_id
        else replace(mapping, filesystem_id=declared.default_filesystem_id)
        for mapping in detected.mappings
        if mapping.agent_prefix not in prefixes
    ]
    return replace(declared, mappings=(*declared.mappings, *added))


def location_by_device(
    mounts: Mounts, path: str, *, device: int, own_device: int, device_id: str
) -> FileLocation:
    """Return the location of an agent path, given its device number from a stat in the sandbox.

    ``own_device`` is the device of the sandbox's root; ``device_id`` is the filesystem id to use
    for an undeclared mount.
    """
    location = mounts.forward(path)
    if device == own_device or location.on_host or mounts.mapping_of(normalise(path)) is not None:
        return location
    return replace(location, filesystem_id=device_id)


def _container(inspected: object) -> Mapping[str, Any]:
    container = inspected[0] if isinstance(inspected, list) and len(inspected) == 1 else inspected
    if not isinstance(container, dict) or not isinstance(container.get("Id"), str):
        raise Incorrect("the output of docker inspect must be a list of one container with an Id")
    return container


def _own(point: str, own_id: str) -> MountMapping:
    return MountMapping(agent_prefix=point, canonical_prefix=point, filesystem_id=own_id)


def _on_host(mount: KernelMount, on_host: Iterable[KernelMount]) -> str | None:
    if mount.filesystem in OWN_TYPES or mount.root.endswith(DELETED):
        return None
    same = [
        other
        for other in on_host
        if other.device == mount.device and _is_in(mount.root, other.root)
    ]
    if not same:
        return None
    nearest = max(same, key=lambda other: len(other.root))
    rest = mount.root[len(nearest.root.rstrip("/")) :]
    return f"{nearest.point.rstrip('/')}{rest}" or "/"


def _is_in(path: str, folder: str) -> bool:
    return folder in {"/", path} or path.startswith(f"{folder}/")


def _unescaped(text: str) -> str:
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text
