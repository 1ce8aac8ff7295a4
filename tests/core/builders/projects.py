"""A project on disk, a sandbox that mounts it, and a store: the setup of tests of indexing."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.files.fingerprints import Fingerprints
from ctxmgr.core.files.host_files import HostFiles
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.store.contract import HistoryEntry, Store
from ctxmgr.core.tracking.index_plan import IndexOutcome
from ctxmgr.core.tracking.indexing import Indexing

BOTH_STORES = ["sqlite", pytest.param("xtdb", marks=pytest.mark.xtdb)]
LONG_AGO_NS = 1_700_000_000_000_000_000
LATER_NS = 10_000_000_000
"""How far a test sets its clock ahead, so that files it has just written count as settled."""


@dataclass
class Project:
    """A folder that an agent sees at /w, and one client's indexing of it."""

    store: Store
    root: Path
    files: HostFiles
    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    ahead_ns: int = 0
    """How far the client's clock is ahead of the machine's."""

    def __post_init__(self) -> None:
        self.indexing = self.another_client(self.fingerprints)

    def another_client(self, fingerprints: Fingerprints | None = None) -> Indexing:
        return Indexing(
            self.store,
            self.files,
            fingerprints=Fingerprints() if fingerprints is None else fingerprints,
            clock_ns=lambda: time.time_ns() + self.ahead_ns,
        )

    def write(self, name: str, data: bytes, *, mtime_ns: int | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if mtime_ns is not None:
            os.utime(path, ns=(mtime_ns, mtime_ns))
        return path

    async def history(self, object_id: str) -> list[HistoryEntry]:
        return list((await self.store.history(object_id, corrections=True)).entries)


async def index_file(indexing: Indexing, path: str, *, output: bytes | None = None) -> IndexOutcome:
    """Bring the object of an agent's path up to date, in its own transaction."""
    (outcome,) = await indexing.apply(await indexing.plan_read(path, inside=output))
    return outcome


@asynccontextmanager
async def opened_project(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> AsyncIterator[Project]:
    """Open one on the kind of store that is named."""
    url = request.getfixturevalue("xtdb_url") if store == "xtdb" else f"sqlite:///{tmp_path}/s.db"
    root = _made(tmp_path)
    with HostFiles(mounts_of(root)) as files:
        async with await open_store(url) as opened:
            yield Project(opened, root, files)


def mounts_of(root: Path) -> Mounts:
    """The sandbox of a project, with filesystems that no other test uses."""
    mark = uuid4().hex
    mapping = MountMapping(
        agent_prefix="/w", canonical_prefix=str(root), filesystem_id=f"host-{mark}"
    )
    return Mounts.of_sandbox([mapping], own_id=f"own-{mark}")


def _made(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return root
