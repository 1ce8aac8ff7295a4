"""Network filesystems: where a change made elsewhere is told to nobody. Reads Linux's mount table.

A device number finds the filesystem's type in ``/proc/self/mountinfo``. FUSE counts: it may be
``sshfs`` or what a virtual machine shows of its host, and neither tells of the other side's writes.
"""

import os
from pathlib import Path
from typing import Final

MOUNTINFO: Final = Path("/proc/self/mountinfo")

NETWORK_TYPES: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)

_FIELDS_MIN: Final = 3
"""Before a line's separator: mount id, parent id, device."""


def is_network(folder: str, *, mountinfo: Path = MOUNTINFO) -> bool:
    """Tell whether others may change the folder unseen; what is unknown counts as local."""
    try:
        device = os.lstat(folder).st_dev
        table = mountinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return _is_remote(filesystem_type(table, device=device))


def filesystem_type(table: str, *, device: int) -> str | None:
    """Find the type of the filesystem on a device in a mount table."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in table.splitlines():
        mount, separator, filesystem = line.partition(" - ")
        fields = mount.split()
        if separator and len(fields) >= _FIELDS_MIN and fields[_FIELDS_MIN - 1] == wanted:
            return filesystem.split(maxsplit=1)[0]
    return None


def _is_remote(kind: str | None) -> bool:
    if kind is None:
        return False
    return kind in NETWORK_TYPES or (kind.startswith("fuse.") or kind == "fuse")
