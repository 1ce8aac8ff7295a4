"""Where the errand is done: folders of the host's in a sandbox, or the host itself. Starts one.

Bubblewrap where it works. Elsewhere commands run on the host, which isolates nothing and is said to
be no sandbox; the commands of the errand are our own, so that needs no question.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ctxmgr.core.filesystem_ids import host_filesystem_id
from ctxmgr.core.mounts import MountMapping
from ctxmgr.core.sandbox import Bind, Sandbox
from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from ctxmgr.sandboxes.choice import installed
from ctxmgr.sandboxes.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    sandbox: Sandbox
    directory: str
    """The project, as the agent sees it."""

    @property
    def name(self) -> str:
        """For a person: what isolates the agent, if anything does."""
        description = self.sandbox.describe()
        return description.name if description.isolates else f"{description.name}: no sandbox"


@asynccontextmanager
async def workplace(
    project: Path, *, at: str, besides: Mapping[str, tuple[Path, str]] | None = None
) -> AsyncIterator[Workplace]:
    """Give a place to work on a project, seen at ``at`` where there is a sandbox.

    ``besides`` are further folders: where the agent sees each, the folder, its filesystem's id.
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
    except Unavailable:  # installed, and this user may make no namespaces
        return None
