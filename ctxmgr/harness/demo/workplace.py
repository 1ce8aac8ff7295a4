"""Where the demo's agent works: folders in a bubblewrap sandbox, or the host. Starts a sandbox.

Without bubblewrap, commands run on the host without isolation, and the report says so. That is safe
here, since all commands come from the demo's own script.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.mounts import MountMapping
from ctxmgr.core.sandbox import Bind, Sandbox
from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from ctxmgr.sandboxes.host import Host
from ctxmgr.sandboxes.start import installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    sandbox: Sandbox
    directory: str
    """The project, as the agent sees it."""

    @property
    def name(self) -> str:
        """What isolates the agent, for a person to read."""
        description = self.sandbox.describe()
        return description.name if description.isolates else f"{description.name}: no sandbox"


@asynccontextmanager
async def workplace(
    project: Path, *, at: str, besides: Mapping[str, tuple[Path, str]] | None = None
) -> AsyncIterator[Workplace]:
    """Open a workplace for a project, which the sandbox mounts at ``at``.

    ``besides`` are further folders: by mount point, the folder and its filesystem id.
    """
    host = host_filesystem_id()
    folders = {at: (project, host), **(besides or {})}
    sandbox = await _bubblewrap(folders)
    directory = at
    if sandbox is None:
        sandbox, directory = await Host.start(), str(project)
    try:
        yield Workplace(sandbox=sandbox, directory=directory)
    finally:
        await sandbox.close()


async def _bubblewrap(folders: Mapping[str, tuple[Path, str]]) -> Sandbox | None:
    if "bubblewrap" not in installed():
        return None
    binds = [
        Bind(
            mapping=MountMapping(
                agent_prefix=at, canonical_prefix=str(folder), filesystem_id=filesystem_id
            ),
            writable=True,
        )
        for at, (folder, filesystem_id) in folders.items()
    ]
    try:
        return await Bubblewrap.start(binds)
    except Unavailable:  # installed, but this user may not create namespaces
        return None
