"""Choose a sandbox and start it around one directory. Looks for programs and starts processes.

The agent sees the directory at ``/workspace``, writable; the network is off by default. Without
isolation (``host``) the directory keeps its path. The host is never a fallback: it must be selected
by name.
"""

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.mounts import MountMapping
from ctxmgr.core.sandbox import Bind, Sandbox
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from ctxmgr.sandboxes.docker import Docker
from ctxmgr.sandboxes.host import Host

PROGRAMS: Final = {"bubblewrap": "bwrap", "docker": "docker"}
"""In order of preference: bubblewrap needs no daemon, no image and no privileges."""

HOST: Final = "host"

WORKSPACE: Final = "/workspace"
"""The agent's path of the directory."""


def choose(name: str | None, available: Collection[str]) -> str:
    """Return the name of the sandbox to start. Pure."""
    if name == HOST:
        return HOST
    if name is not None and name not in PROGRAMS:
        names = ", ".join([*PROGRAMS, HOST])
        raise Incorrect(f"unknown sandbox {name!r:.80} (one of: {names})")
    candidates = tuple(PROGRAMS) if name is None else (name,)
    for candidate in candidates:
        if candidate in available:
            return candidate
    raise Unavailable(
        f"no sandbox is available: install {' or '.join(candidates)}"
        f" ({HOST!r}, which isolates nothing, must be selected by name)"
    )


def installed() -> frozenset[str]:
    """Return the names of the sandboxes whose programs are installed."""
    return frozenset(name for name, program in PROGRAMS.items() if shutil.which(program))


async def start_sandbox(
    name: str | None, *, folder: Path, network: bool = False
) -> tuple[Sandbox, str]:
    """Start a sandbox around a directory; return it and the directory's path in it.

    ``name`` is ``bubblewrap``, ``docker`` or ``host``. None selects bubblewrap or else Docker, and
    raises ``Unavailable`` if neither is installed; the host is never selected. The caller closes
    the sandbox.
    """

    def resolve() -> Path:
        if not folder.is_dir():
            raise Incorrect(f"the workspace {str(folder)!r:.200} is not a directory")
        return folder.resolve()

    real = await asyncio.to_thread(resolve)
    kind = choose(name, installed())
    if kind == HOST:
        return await Host.start(), str(real)
    mapping = MountMapping(
        agent_prefix=WORKSPACE, canonical_prefix=str(real), filesystem_id=host_filesystem_id()
    )
    chosen = Docker if kind == "docker" else Bubblewrap
    return await chosen.start([Bind(mapping=mapping, writable=True)], network=network), WORKSPACE
