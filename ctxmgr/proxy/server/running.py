"""The address of the proxy that runs on this machine, in a file that only its user can read.

``ctxmgr proxy`` writes it and removes it when it ends; ``wrap``, ``proxy status`` and ``doctor``
read it and ask the proxy itself. A file whose proxy does not prove that it wrote the file counts
as none: another user's program may have taken the port, and must not receive credentials. A process
id proves little, since ids are used again.
"""

import hmac
import json
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from ctxmgr.core.private_files import make_private_folder

FILE_BYTES_MAX: Final = 64 * 1024
STATUS_SECONDS_MAX: Final = 5.0
"""Time in which a proxy that runs must answer."""

KEY_BYTES: Final = 32
CHALLENGE_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProxy:
    """A proxy that was started."""

    url: str
    """With its token, if it has one."""
    pid: int
    store: str
    """The URL of the store in which it records, without credentials."""
    upstreams: dict[str, str]
    """The address of each provider."""
    key: str = field(repr=False, default_factory=lambda: secrets.token_hex(KEY_BYTES))
    """What the proxy proves to know, and never sends."""

    def proof(self, challenge: str) -> str:
        """Return what only the process that made this value, or read its file, can answer."""
        return hmac.new(self.key.encode(), challenge.encode(), "sha256").hexdigest()


def announce(folder: Path, proxy: RunningProxy) -> Path:
    """Write the file of a proxy; return its path."""
    make_private_folder(folder)
    path = _path(folder)
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".proxy-")  # only its owner can read it
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(proxy), file)
    Path(name).replace(path)
    return path


def withdraw(folder: Path, proxy: RunningProxy) -> None:
    """Remove the file, unless another proxy has replaced it."""
    if announced(folder) == proxy:
        _path(folder).unlink(missing_ok=True)


def announced(folder: Path) -> RunningProxy | None:
    """Return the proxy that the file names, running or not; None if there is no valid file."""
    try:
        with _path(folder).open(encoding="utf-8") as file:
            value = json.loads(file.read(FILE_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    match value:
        case {
            "url": str(url),
            "pid": int(pid),
            "store": str(store),
            "upstreams": {**upstreams},
            "key": str(key),
        }:
            named = {str(name): str(address) for name, address in upstreams.items()}
            return RunningProxy(url=url, pid=pid, store=store, upstreams=named, key=key)
        case _:
            return None


async def ask_status(proxy: RunningProxy) -> dict[str, Any] | None:
    """Return the status of a proxy; None if it does not answer as the one that was announced."""
    if not proxy.url.startswith(("http://127.0.0.1:", "http://[::1]:")) or not _runs(proxy.pid):
        return None
    challenge = secrets.token_hex(CHALLENGE_BYTES)
    async with httpx.AsyncClient(trust_env=False, timeout=STATUS_SECONDS_MAX) as client:
        try:
            asked = f"{proxy.url}/ctxmgr/status?challenge={challenge}"
            value = (await client.get(asked)).json()
        except (httpx.HTTPError, ValueError, RecursionError):
            return None
    if not isinstance(value, dict) or value.get("pid") != proxy.pid:
        return None
    proof = value.pop("proof", None)
    if not isinstance(proof, str) or not proof.isascii():
        return None
    return value if hmac.compare_digest(proof, proxy.proof(challenge)) else None


def _runs(pid: int) -> bool:
    """Return whether this user has a process of this id."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True


def _path(folder: Path) -> Path:
    return folder / "proxy.json"
