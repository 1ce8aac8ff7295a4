"""A client's trackers over a project, as tests drive them: one change at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ctxmgr.core.tracking.index_plan import IndexOutcome
from ctxmgr.core.tracking.observation import Target
from ctxmgr.core.tracking.trackers import Trackers
from tests.core.builders.projects import Project, index_file

WITHIN_SECONDS = 60
DEBOUNCE_MS = 20


@dataclass
class FollowedFiles:
    """Files of a project that are followed, and their changes."""

    project: Project
    trackers: Trackers
    targets: dict[str, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changes = self.trackers.changes()

    async def follow(self, *names: str, report: bool = False) -> list[str]:
        """Index the files and attach to them."""
        for name in names:
            outcome = await index_file(self.project.indexing, f"/w/{name}")
            assert outcome.file is not None
            self.targets[outcome.object_id] = Target.of(outcome.file)
        await self.trackers.attach(self.targets.values(), report=report)
        return list(self.targets)

    async def next_changes(self) -> set[str]:
        """Wait for the next batch of changes."""
        return set(await asyncio.wait_for(anext(self.changes), WITHIN_SECONDS))

    async def indexed(self) -> list[IndexOutcome]:
        """Wait for changes and index them, as a client does."""
        outcomes: list[IndexOutcome] = []
        changed = [self.targets[change] for change in await self.next_changes()]
        async for batch in self.project.indexing.reconcile(changed):
            self.trackers.record_unchanged(batch.proven)
            self.trackers.record_outcomes(batch.outcomes)
            outcomes += batch.outcomes
        for outcome in outcomes:
            if outcome.file is not None:
                self.targets[outcome.object_id] = Target.of(outcome.file)
        return outcomes

    async def until(self, text: str | None) -> IndexOutcome:
        """Index changes until the followed file has this content."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                for outcome in await self.indexed():
                    if outcome.file is not None and outcome.file.content == text:
                        return outcome


@asynccontextmanager
async def followed_files(project: Project, **settings: Any) -> AsyncIterator[FollowedFiles]:
    settings = {"debounce_ms": DEBOUNCE_MS, **settings}
    async with Trackers(project.files.mounts, **settings) as trackers:
        yield FollowedFiles(project, trackers)
