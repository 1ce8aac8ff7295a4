"""Mounts of a running sandbox, as its engine or its kernel lists them. Pure.

    docker inspect    what the engine was asked to mount: bind mounts and volumes lie on the host,
                      a tmpfs is the container's own
    mountinfo         what the kernel has mounted: a mount lies on the host if the host has mounted
                      the same device, and there where the same folder of it is
    st_dev            what a stat of a file tells anyway: an undeclared mount, whose folder on the
                      host nobody knows, gets an id of its own

What a harness declares comes first: ``merged`` adds only what it leaves open.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ctxmgr.core.mounts import MountMapping, Mounts, Place, normalise
from ctxmgr.errors import Incorrect

ON_HOST: Final = frozenset({"bind", "volume"})
"""Types of ``docker inspect`` whose ``Source`` is a folder of the host."""

OWN_TYPES: Final = frozenset(
    {"aufs", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "mqueue"}
    | {"fuse.fuse-overlayfs", "nsfs", "overlay", "proc", "securityfs", "sysfs", "tracefs"}
)
"""Filesystems that are a sandbox's own or no files at all, even where the host has them too: an
engine mounts a container's overlay on the host."""

DELETED: Final = "//deleted"
"""How mountinfo marks a mount whose folder was removed."""


_LINE: Final = re.compile(r"(\d+) (\d+) (\d+:\d+) (\S+) (\S+) \S+(?: \S+)*? - (\S+)(?: .*)?")


@dataclass(frozen=True, slots=True)
class KernelMount:
    """One line of mountinfo."""

    mount_id: int
    parent_id: int
    device: str
    root: str
    """Which folder of the device is mounted."""
    point: str
    filesystem: str


def mounts_from_inspect(inspected: object, *, host_id: str, own_id: str) -> Mounts:
    """Read the mounts of a container from what ``docker inspect`` prints for it."""
    container = _container(inspected)
    mappings = [_inspected(mount, host_id, own_id) for mount in container.get("Mounts") or ()]
    tmpfs = (container.get("HostConfig") or {}).get("Tmpfs") or {}
    mappings += [_own(point, own_id) for point in tmpfs]
    return Mounts.of_sandbox(_last_of_each(mappings), own_id=own_id)


def container_id(inspected: object) -> str:
    """Return the engine's full id of the container."""
    return str(_container(inspected)["Id"])


def mounts_from_mountinfo(sandbox: str, *, host: str, host_id: str, own_id: str) -> Mounts:
    """Read the mounts of a sandbox from its mountinfo, given the host's."""
    on_host = list(visible(parse_mountinfo(host)))
    mappings = []
    for mount in visible(parse_mountinfo(sandbox)):
        canonical = _on_host(mount, on_host)
        if canonical is not None:
            mapping = MountMapping(
                agent_prefix=mount.point, canonical_prefix=canonical, filesystem_id=host_id
            )
            mappings.append(mapping)
        elif mount.point != "/":
            mappings.append(_own(mount.point, own_id))
    return Mounts.of_sandbox(_without_needless(mappings, own_id), own_id=own_id)


def parse_mountinfo(text: str) -> Iterator[KernelMount]:
    """Read every line of a mountinfo; ``Incorrect`` names one that is none."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise Incorrect(f"{line!r:.200} is no line of mountinfo")
        mount_id, parent_id, device, root, point, filesystem = found.groups()
        yield KernelMount(
            mount_id=int(mount_id),
            parent_id=int(parent_id),
            device=device,
            root=_unescaped(root),
            point=_unescaped(point),
            filesystem=filesystem,
        )


def visible(mounts: Iterable[KernelMount]) -> Iterator[KernelMount]:
    """Leave out mounts that others have been mounted over, and what is below them."""
    listed = list(mounts)
    ids = {mount.mount_id for mount in listed}
    below: dict[int, list[KernelMount]] = {}
    for mount in listed:
        below.setdefault(mount.parent_id, []).append(mount)
    todo = [mount for mount in listed if mount.parent_id not in ids]
    while todo:
        mount = todo.pop(0)
        inner = [each for each in below.get(mount.mount_id, ()) if each is not mount]
        over = [each for each in inner if each.point == mount.point]
        if over:
            todo.append(over[-1])
            continue
        yield mount
        todo += [each for each in inner if not any(_covers(other, each) for other in inner)]


def merged(declared: Mounts, detected: Mounts) -> Mounts:
    """Add detected mounts at agent paths for which nothing is declared."""
    known = {mapping.agent_prefix for mapping in declared.mappings}
    more = [
        mapping
        if mapping.filesystem_id != detected.default_filesystem_id
        else replace(mapping, filesystem_id=declared.default_filesystem_id)
        for mapping in detected.mappings
        if mapping.agent_prefix not in known
    ]
    return replace(declared, mappings=(*declared.mappings, *more))


def place_by_device(
    mounts: Mounts, path: str, *, device: int, own_device: int, device_id: str
) -> Place:
    """Return the place of a path, given the device that a stat in the sandbox told.

    ``own_device`` is that of the sandbox's root; ``device_id`` names a mount that nothing declares.
    """
    place = mounts.forward(path)
    if device == own_device or place.on_host or mounts.mapping_of(normalise(path)) is not None:
        return place
    return replace(place, filesystem_id=device_id)


def _container(inspected: object) -> Mapping[str, Any]:
    container = inspected[0] if isinstance(inspected, list) and len(inspected) == 1 else inspected
    if not isinstance(container, dict) or not isinstance(container.get("Id"), str):
        raise Incorrect("docker inspect gives a list of one container with its Id")
    return container


def _inspected(mount: Mapping[str, Any], host_id: str, own_id: str) -> MountMapping:
    point, source = str(mount["Destination"]), mount.get("Source")
    if mount.get("Type") not in ON_HOST or not source:
        return _own(point, own_id)
    return MountMapping(agent_prefix=point, canonical_prefix=str(source), filesystem_id=host_id)


def _own(point: str, own_id: str) -> MountMapping:
    return MountMapping(agent_prefix=point, canonical_prefix=point, filesystem_id=own_id)


def _on_host(mount: KernelMount, on_host: Iterable[KernelMount]) -> str | None:
    if mount.filesystem in OWN_TYPES or mount.root.endswith(DELETED):
        return None
    same = [
        each for each in on_host if each.device == mount.device and _is_in(mount.root, each.root)
    ]
    if not same:
        return None
    nearest = max(same, key=lambda each: len(each.root))
    rest = mount.root[len(nearest.root.rstrip("/")) :]
    return f"{nearest.point.rstrip('/')}{rest}" or "/"


def _without_needless(mappings: list[MountMapping], own_id: str) -> Iterator[MountMapping]:
    for mapping in mappings:
        inside = any(
            other.filesystem_id != own_id and _is_in(mapping.agent_prefix, other.agent_prefix)
            for other in mappings
        )
        if mapping.filesystem_id != own_id or inside:
            yield mapping


def _last_of_each(mappings: Iterable[MountMapping]) -> tuple[MountMapping, ...]:
    return tuple({mapping.agent_prefix: mapping for mapping in mappings}.values())


def _covers(over: KernelMount, under: KernelMount) -> bool:
    return over is not under and _is_in(under.point, over.point)


def _is_in(path: str, folder: str) -> bool:
    return folder in {"/", path} or path.startswith(f"{folder}/")


def _unescaped(text: str) -> str:
    for escape, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, letter)
    return text
