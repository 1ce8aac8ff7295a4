"""A client's trackers over a project, as tests drive them: one change at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ctxmgr.core.index_plans import Outcome
from ctxmgr.core.observing import Target
from ctxmgr.core.trackers import Trackers
from tests.core.projects import Project

WITHIN_SECONDS = 20
DEBOUNCE_MS = 20


@dataclass
class Following:
    """Files of a project that are followed, and what was heard of them."""

    project: Project
    trackers: Trackers
    targets: dict[str, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changes = self.trackers.changes()

    async def follow(self, *names: str, tell: bool = False) -> list[str]:
        """Index the files and attach to them."""
        for name in names:
            outcome = await self.project.indexing.index(f"/w/{name}")
            assert outcome.file is not None
            self.targets[outcome.object_id] = Target.of(outcome.file)
        await self.trackers.attach(self.targets.values(), tell=tell)
        return list(self.targets)

    async def heard(self) -> set[str]:
        """Wait for the next batch of changes."""
        return set(await asyncio.wait_for(anext(self.changes), WITHIN_SECONDS))

    async def indexed(self) -> list[Outcome]:
        """Wait for changes and index them, as a client does."""
        outcomes: list[Outcome] = []
        changed = [self.targets[each] for each in await self.heard()]
        async for batch in self.project.indexing.reconcile(changed):
            self.trackers.saw_unchanged(batch.proven)
            self.trackers.saw(batch.outcomes)
            outcomes += batch.outcomes
        for each in outcomes:
            if each.file is not None:
                self.targets[each.object_id] = Target.of(each.file)
        return outcomes

    async def until(self, text: str | None) -> Outcome:
        """Index changes until the one followed file says this."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                for outcome in await self.indexed():
                    if outcome.file is not None and outcome.file.content == text:
                        return outcome


@asynccontextmanager
async def following(project: Project, **settings: Any) -> AsyncIterator[Following]:
    settings = {"debounce_ms": DEBOUNCE_MS, **settings}
    async with Trackers(project.files.mounts, **settings) as trackers:
        yield Following(project, trackers)
