"""A sandbox around one folder of the host's, of the kind that is asked for. Starts processes.

The agent finds the folder at ``/workspace``, writable, and the network off unless it is asked for.
On the plain host there are no walls: the folder is where it is.
"""

import asyncio
from pathlib import Path
from typing import Final

from ctxmgr.core.filesystem_ids import host_filesystem_id
from ctxmgr.core.mounts import MountMapping
from ctxmgr.core.sandbox import Bind, Sandbox
from ctxmgr.errors import Incorrect
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from ctxmgr.sandboxes.choice import HOST, choose, installed
from ctxmgr.sandboxes.docker import Docker
from ctxmgr.sandboxes.host import Host

WORKSPACE: Final = "/workspace"
"""Where the agent finds its folder."""


async def start_sandbox(
    name: str | None, *, folder: Path, network: bool = False
) -> tuple[Sandbox, str]:
    """Start a sandbox and say where in it the folder is; whoever called this closes it.

    ``name`` None: the best there is, and never the host.
    """
    real = await asyncio.to_thread(_real, folder)
    kind = choose(name, installed())
    if kind == HOST:
        return await Host.start(), str(real)
    mapping = MountMapping(
        agent_prefix=WORKSPACE, canonical_prefix=str(real), filesystem_id=host_filesystem_id()
    )
    started = Docker if kind == "docker" else Bubblewrap
    return await started.start([Bind(mapping=mapping, writable=True)], network=network), WORKSPACE


def _real(folder: Path) -> Path:
    if not folder.is_dir():
        raise Incorrect(f"the workspace {str(folder)!r:.200} is no folder")
    return folder.resolve()
