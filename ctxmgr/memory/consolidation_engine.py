"""The door of consolidation: read everything, run the six steps, write what they change. Commits.

    read ─► 1 merge ─► 2 condense ─► 3 rank ─► 4 compare ─► 5 forget ─► 6 link
              └──────────┴── what each changes is written before the next one begins

A dry run goes through the same states and writes nothing. A run may be interrupted at any time:
what belongs together is one transaction, and the next run does the rest. A second run right after
the first changes nothing.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.store.contract import Instant, Match, Operation, Put, Store
from ctxmgr.errors import Conflict
from ctxmgr.memory.consolidation import linking, steps
from ctxmgr.memory.consolidation.workspace import MemoryChange, Workspace
from ctxmgr.memory.records.consolidation_run import (
    ConsolidationCounts,
    read_run_time,
    run_id,
    stored_run,
)
from ctxmgr.memory.records.contradiction import CONTRADICTION, stored_contradiction
from ctxmgr.memory.records.link import LINK, stored_link
from ctxmgr.memory.records.memory import stored_id, stored_memory
from ctxmgr.memory.records.usage import USAGE, read_usage, stored_usage
from ctxmgr.memory.repository import MemoryRepository
from ctxmgr.memory.tiers.ranking import DAY_MS

OPERATIONS_AT_ONCE: Final = 1_000
"""Operations in one transaction."""

MERGE, SUMMARISE, COMPRESS = "merge similar facts", "summarise episodes", "compress episodes"
RANK, COMPARE = "adjust rankings", "scan for contradictions"
FORGET_SUPERSEDED, FORGET_UNUSED = "forget what was superseded", "forget what is not used"
CONNECT: Final = "discover connections"

DETAILS_MAX: Final = 1_000
"""Changes that are described one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """What a run did, or what a dry run would do."""

    dry_run: bool
    counts: ConsolidationCounts
    details: tuple[str, ...]
    """What was changed, for a person; at most ``DETAILS_MAX``."""


class ConsolidationEngine:
    """Consolidates what a principal may change."""

    merge_similar_facts = staticmethod(steps.merge_similar_facts)
    summarize_episodes = staticmethod(steps.summarize_episodes)
    compress_episodes = staticmethod(steps.compress_episodes)
    adjust_rankings = staticmethod(steps.adjust_rankings)
    scan_contradictions = staticmethod(steps.scan_contradictions)
    forget_superseded = staticmethod(steps.forget_superseded)
    forget_unused = staticmethod(steps.forget_unused)
    discover_connections = staticmethod(linking.discover_connections)

    def __init__(
        self,
        store: Store,
        repository: MemoryRepository,
        *,
        count: Callable[[str], int],
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._repository = repository
        self._count = count
        self._progress = progress
        self._tokens: dict[str, str | None] = {}
        self._details: list[str] = []
        self._skipped = 0

    async def last_run(self) -> Instant | None:
        """Return when the principal's memories were last consolidated."""
        stored = await self._store.get(run_id(self._repository.principal))
        return None if stored is None else read_run_time(stored.document)

    async def is_due(self, *, now: Instant) -> bool:
        """Whether a day (UTC) has begun since the last run, and there is something to look at."""
        last = await self.last_run()
        if last is not None and last // DAY_MS >= now // DAY_MS:
            return False
        async for _ in self._repository.all():
            return True
        return False

    async def consolidate(self, *, now: Instant, dry_run: bool = False) -> ConsolidationReport:
        """Run the six steps in their order."""
        self._details, self._skipped = [], 0
        workspace = await self._read(now)
        units: dict[str, list[MemoryChange]] = {}
        for number, name, plan in self._plans():
            self._progress(f"consolidation: step {number} of 6, {name}")
            units[name] = await self._step(workspace, plan, write=not dry_run)
        counts = _counts(units, skipped=self._skipped)
        if not dry_run:
            record = stored_run(self._repository.principal, at=now, counts=counts)
            await self._store.commit([Put(record)])
        return ConsolidationReport(dry_run=dry_run, counts=counts, details=tuple(self._details))

    def _plans(self) -> Iterable[tuple[int, str, Callable[[Workspace], list[MemoryChange]]]]:
        yield 1, MERGE, lambda workspace: self.merge_similar_facts(workspace, self._count)
        yield 2, SUMMARISE, self.summarize_episodes
        yield 2, COMPRESS, self.compress_episodes
        yield 3, RANK, self.adjust_rankings
        yield 4, COMPARE, self.scan_contradictions
        yield 5, FORGET_SUPERSEDED, self.forget_superseded
        yield 5, FORGET_UNUSED, self.forget_unused
        yield 6, CONNECT, self.discover_connections

    async def _read(self, now: Instant) -> Workspace:
        self._progress("consolidation: reading memories")
        memories = {}
        async for memory, token in self._repository.versions():
            memories[memory.id] = memory
            self._tokens[stored_id(memory.id)] = token
        ids = [f"{USAGE}:{memory_id}" for memory_id in memories]
        used = {}
        for object_id, version in (await self._store.get_many(ids)).items():
            self._tokens[object_id] = version.token
            usage = self._repository.readable(read_usage, version)
            if usage is not None:
                used[usage.memory_id] = usage
            else:  # it may have been used: it is neither forgotten nor merged
                del memories[object_id.removeprefix(f"{USAGE}:")]
        pairs = await self._repository.contradictions(only_open=False)
        return Workspace(
            principal=self._repository.principal,
            now=now,
            memories=memories,
            usage=used,
            contradictions={pair.id: pair for pair in pairs},
            links={link.id: link for link in await self._repository.links()},
        )

    async def _step(
        self, workspace: Workspace, plan: Callable[[Workspace], list[MemoryChange]], *, write: bool
    ) -> list[MemoryChange]:
        units = await asyncio.to_thread(plan, workspace)
        if write:
            for batch in _batches(units):
                await self._write(batch)
        workspace.take(units)
        self._details += [unit.what for unit in units][: DETAILS_MAX - len(self._details)]
        return units

    async def _write(self, units: Sequence[MemoryChange]) -> None:
        """Write units in one transaction; if one of them is out of date, each on its own."""
        try:
            await self._commit(units)
        except Conflict:
            if len(units) == 1:
                self._skipped += 1
                return
            for unit in units:
                await self._write([unit])

    async def _commit(self, units: Sequence[MemoryChange]) -> None:
        operations = [operation for unit in units for operation in self._operations(unit)]
        commit = await self._store.commit(operations)
        for operation in operations:
            if isinstance(operation, Match):
                self._tokens[operation.object_id] = commit.token

    def _operations(self, unit: MemoryChange) -> Iterator[Operation]:
        for memory in unit.memories:
            yield Match(stored_id(memory.id), self._tokens.get(stored_id(memory.id)))
            yield Put(stored_memory(memory), valid_from=memory.valid_from)
        for usage in unit.usage:
            object_id = f"{USAGE}:{usage.memory_id}"
            yield Match(object_id, self._tokens.get(object_id))
            yield Put(stored_usage(usage))
        for pair in unit.contradictions:
            yield Match(f"{CONTRADICTION}:{pair.id}", None)
            yield Put(stored_contradiction(pair))
        for link in unit.links:
            yield Match(f"{LINK}:{link.id}", None)
            yield Put(stored_link(link))


def _counts(units: Mapping[str, Sequence[MemoryChange]], *, skipped: int) -> ConsolidationCounts:
    condensed = {
        memory.id for unit in (*units[SUMMARISE], *units[COMPRESS]) for memory in unit.memories
    }
    cold = sum(memory.cold for unit in units[RANK] for memory in unit.memories)
    return ConsolidationCounts(
        deduped=sum(_ended(unit) for unit in units[MERGE]),
        summarised=len(units[SUMMARISE]),
        compressed=len(condensed),
        promoted=len(units[RANK]) - cold,
        demoted=cold,
        contradictions_found=len(units[COMPARE]),
        forgotten=len(units[FORGET_SUPERSEDED]) + len(units[FORGET_UNUSED]),
        links_found=len(units[CONNECT]),
        skipped=skipped,
    )


def _ended(unit: MemoryChange) -> int:
    return sum(memory.valid_to is not None for memory in unit.memories)


def _batches(units: Iterable[MemoryChange]) -> Iterator[list[MemoryChange]]:
    batch: list[MemoryChange] = []
    size = 0
    for unit in units:
        parts = unit.memories, unit.usage, unit.contradictions, unit.links
        own = 2 * sum(map(len, parts))
        if batch and size + own > OPERATIONS_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(unit)
        size += own
    if batch:
        yield batch
