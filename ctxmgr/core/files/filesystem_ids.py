"""Filesystem ids, by which clients declare filesystems. Reads the operating system's machine id.

    host        SHA-256 of the machine id without whitespace; on macOS, of the platform's UUID
    container   SHA-256 of the engine's container id, whatever machine id its image contains
    device      SHA-256 of the sandbox's own id and a device number, for an undeclared mount

The store trusts what clients declare. Machines cloned from one image share a machine id until it is
generated again (``systemd-machine-id-setup``), and would treat each other's files as their own.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ctxmgr.errors import Unavailable

MACHINE_ID_FILES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
"""The second is the location before systemd, which some distributions still use."""

MACHINE_ID_BYTES_MAX: Final = 1_024
"""Bytes read from a machine-id file, which contains 32 digits."""

IOREG: Final = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
IOREG_SECONDS: Final = 10
"""The time limit for ``ioreg``, which takes milliseconds."""

_PLATFORM_UUID = re.compile(r'"IOPlatformUUID" = "([0-9A-Fa-f-]+)"')


def host_filesystem_id(*, files: Sequence[Path] = MACHINE_ID_FILES) -> str:
    """Return the id of the host's filesystem; ``Unavailable`` if the machine has no id."""
    machine = next(filter(None, map(_machine_id, files)), None)
    if machine is None and sys.platform == "darwin":
        machine = platform_uuid(_ioreg())
    if not machine:
        names = " or ".join(map(str, files))
        raise Unavailable(
            f"there is no machine id in {names}: create one, as root, with "
            f"`tr -d - </proc/sys/kernel/random/uuid >{files[0]}`"
        )
    return _sha256(machine)


def container_filesystem_id(container_id: str) -> str:
    """Return the id of a container's own filesystem, given the engine's full container id."""
    return _sha256(f"container:{container_id.strip()}")


def device_filesystem_id(own_id: str, *, device: int) -> str:
    """Return the id of an undeclared mount in a sandbox, given its device number."""
    return _sha256(f"device:{own_id}:{device}")


def platform_uuid(listing: str) -> str | None:
    """Return macOS's platform UUID from the output of ``ioreg``."""
    match = _PLATFORM_UUID.search(listing)
    return match[1] if match else None


def _machine_id(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            text = file.read(MACHINE_ID_BYTES_MAX).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    return None if text in {"", "uninitialized"} else text


def _ioreg() -> str:
    try:
        ran = subprocess.run(  # noqa: S603 (a fixed command)
            IOREG, capture_output=True, check=True, timeout=IOREG_SECONDS, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{IOREG[0]} failed: {error}") from error
    return ran.stdout


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
