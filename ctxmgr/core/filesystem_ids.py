"""Filesystem ids: the names under which clients declare filesystems. Reads what the OS says it is.

    host        SHA-256 of the machine id, white space stripped; on macOS of the platform's UUID
    container   SHA-256 of the engine's container id: its own, whatever machine id its image holds
    device      SHA-256 of the sandbox's own id and a device number: a mount nobody declared

The store trusts what clients declare. Two machines cloned from one image share a machine id until
it is made anew (``systemd-machine-id-setup``), and would take each other's files for their own.
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
"""The second is where it was before systemd, and still is on some distributions."""

MACHINE_ID_BYTES_MAX: Final = 1_024
"""Of a machine-id file; it holds 32 digits."""

IOREG: Final = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
IOREG_SECONDS: Final = 10
"""How long macOS may take to name its platform; it answers in milliseconds."""

_PLATFORM_UUID = re.compile(r'"IOPlatformUUID" = "([0-9A-Fa-f-]+)"')


def host_filesystem_id(*, files: Sequence[Path] = MACHINE_ID_FILES) -> str:
    """Return the host's id; ``Unavailable`` says how to give the machine one."""
    machine = next(filter(None, map(_machine_id, files)), None)
    if machine is None and sys.platform == "darwin":
        machine = platform_uuid(_ioreg())
    if not machine:
        places = " and ".join(map(str, files))
        raise Unavailable(
            f"this machine has no id in {places}: run systemd-machine-id-setup, "
            "or give filesystemId with every mount and as the default"
        )
    return _sha256(machine)


def container_filesystem_id(container_id: str) -> str:
    """Return the id of a container's own filesystem, given the engine's full id of it."""
    return _sha256(f"container:{container_id.strip()}")


def device_filesystem_id(own_id: str, *, device: int) -> str:
    """Return the id of a mount in a sandbox of which only its device number is known."""
    return _sha256(f"device:{own_id}:{device}")


def platform_uuid(listing: str) -> str | None:
    """Read macOS's platform UUID from what ``ioreg`` lists."""
    found = _PLATFORM_UUID.search(listing)
    return found[1] if found else None


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
        asked = subprocess.run(  # noqa: S603 (a fixed command)
            IOREG, capture_output=True, check=True, timeout=IOREG_SECONDS, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{IOREG[0]} did not name this machine: {error}") from error
    return asked.stdout


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
