"""The door of living memory: add, serve, forget, resolve. Commits.

``LivingMemory`` reads and writes for one principal. A model is asked only if one is given, and only
about contradictions.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.model import Model
from ctxmgr.core.store.contract import LATEST, AsOf, Instant, Store
from ctxmgr.errors import Incorrect
from ctxmgr.memory.consolidation_engine import ConsolidationEngine, ConsolidationReport
from ctxmgr.memory.contradiction_scanner import ContradictionScanner
from ctxmgr.memory.extraction.refusals import RefusedBatch
from ctxmgr.memory.prediction.context_prediction import WorkSignals
from ctxmgr.memory.prediction.linked import linked_memories
from ctxmgr.memory.prediction.related_files import RelatedFiles
from ctxmgr.memory.predictive_engine import PredictiveEngine
from ctxmgr.memory.pruning import prune_records
from ctxmgr.memory.purging import MemoryPurge, is_purged, plan_memory_purge
from ctxmgr.memory.records.bodies import Body, Fact
from ctxmgr.memory.records.contradiction import (
    Contradiction,
    Resolution,
)
from ctxmgr.memory.records.levels import levels_by_rule, ordered
from ctxmgr.memory.records.memory import (
    NOTE_CHARS_MAX,
    Author,
    Memory,
    MemoryKind,
    Origin,
    Visibility,
)
from ctxmgr.memory.records.memory_file import read_memory_file
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MemoryRepository, MemoryVersion, wider
from ctxmgr.memory.resident import ResidentMemories
from ctxmgr.memory.tiers.assembly import RECALL, AssembledContext, Signals, assemble_context
from ctxmgr.memory.tiers.profiles import BUDGET_TOKENS, tier_budgets
from ctxmgr.memory.transfer import (
    ExportedMemories,
    ImportedMemories,
    exported_memories,
    import_memories,
)

FOUND_MAX: Final = 200
"""Memories that a search returns at most: no more are ranked (``relevance.MATCHES_MAX``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedMemory:
    """A memory that was stored, and what it contradicts."""

    memory: Memory
    contradictions: tuple[Contradiction, ...]
    known: bool = False
    """Whether the same was known already, and nothing was stored."""


class LivingMemory:
    """The memories of a user in a project."""

    def __init__(
        self,
        store: Store,
        principal: Principal,
        *,
        model: Model | None = None,
        now: Callable[[], Instant] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``model`` judges contradictions that rules cannot; None: rules alone decide."""
        self._store = store
        self._now = now
        self._counter = TokenCounter()
        self.repository = MemoryRepository(store, principal, now=now)
        self.resident = ResidentMemories(store, self.repository, now=now)
        self.scanner = ContradictionScanner(store, self.resident, model=model, now=now)
        self.related = RelatedFiles()
        """Which files of the project belong together."""
        self.prediction = PredictiveEngine(self.resident, self.related)
        self.principal = principal

    async def add(
        self,
        body: Body,
        *,
        kind: MemoryKind = MemoryKind.NOTE,
        author: Author = Author.PERSON,
        visibility: Visibility = Visibility.USER_PRIVATE,
        valid_from: Instant | None = None,
        original: str | None = None,
        origin: Origin | None = None,
        tags: Sequence[str] = (),
    ) -> AddedMemory:
        """Store a memory, and report what it contradicts.

        A fact that is known already, word for word, is not stored again.
        """
        now = self._now()
        if valid_from is not None and valid_from > now:
            raise Incorrect("a memory cannot become true in the future; add it when it is")
        memory = Memory(
            id=str(uuid.uuid4()),
            body=body,
            kind=kind,
            levels=levels_by_rule(body, self._counter.count, original=original),
            author=author,
            visibility=visibility,
            user_id=self.principal.user_id,
            project_id=self.principal.project_id,
            created_at=now,
            valid_from=now if valid_from is None else valid_from,
            origin=origin or Origin(),
            tags=tuple(dict.fromkeys(tags)),
        )
        await self.resident.refresh()
        known = self.resident.same(memory)
        if known is not None:
            return AddedMemory(memory=known, contradictions=(), known=True)
        await self.repository.add(memory)
        return AddedMemory(memory=memory, contradictions=await self._scanned(memory))

    async def prepare(self) -> None:
        """Load what assembling a prompt needs, so that the first prompt does not wait for it."""
        await self.resident.refresh()
        await asyncio.to_thread(self._rehearse)
        await self.resident.index()

    async def get(self, memory_id: str, *, as_of: AsOf = LATEST) -> Memory:
        return await self.repository.get(memory_id, as_of=as_of)

    async def memories(self, *, as_of: AsOf = LATEST, forgotten: bool = False) -> list[Memory]:
        """Return what holds as of a point, oldest first; with ``forgotten`` everything."""
        if not forgotten:
            return await self.repository.valid(as_of=as_of)
        found = [memory async for memory in self.repository.all(as_of=as_of)]
        return sorted(found, key=lambda memory: (memory.created_at, memory.id))

    async def history(self, memory_id: str) -> list[MemoryVersion]:
        return await self.repository.history(memory_id)

    async def edit(self, memory_id: str, body: Body) -> AddedMemory:
        """Correct a memory as a person: from now on it is theirs, and is never rewritten.

        The correction holds from when the memory did; what was believed before stays in its
        history.
        """

        def corrected(memory: Memory) -> Memory:
            if type(body) is not type(memory.body):
                raise Incorrect(f"{memory_id} is a {memory.type}; it cannot become another type")
            levels = levels_by_rule(body, self._counter.count)
            return replace(memory, body=body, levels=levels, author=Author.PERSON)

        memory = await self.repository.change(memory_id, corrected)
        await self.resident.refresh()
        return AddedMemory(memory=memory, contradictions=await self._scanned(memory))

    async def forget(self, memory_id: str, *, because: str = "forgotten") -> Memory:
        """End a memory now, as a person. It is not served or learnt any more; see ``restore``."""
        _check_note(because)
        now = self._now()

        def ended(memory: Memory) -> Memory:
            if memory.valid_to is not None:
                return memory
            return replace(
                memory,
                valid_to=max(now, memory.valid_from),
                ended_because=because,
                ended_by=Author.PERSON,
            )

        return await self.repository.change(memory_id, ended)

    async def restore(self, memory_id: str) -> Memory:
        """Take back a forget; ``Incorrect`` while the memory that replaced it holds.

        This counts as an access, so that the next consolidation does not forget it again.
        """
        now = self._now()
        memory = await self.repository.get(memory_id)
        if is_purged(memory):
            raise Incorrect(f"{memory_id} was purged, and cannot be restored")
        if memory.superseded_by is not None:
            winner = await self.repository.get(memory.superseded_by)
            if winner.is_valid_at(now):
                raise Incorrect(
                    f"{memory_id} was superseded by {memory.superseded_by}; forget that one first"
                )

        def valid_again(memory: Memory) -> Memory:
            return replace(
                memory, valid_to=None, superseded_by=None, ended_because=None, ended_by=None
            )

        return await self.repository.change(
            memory_id, valid_again, use=lambda usage: usage.restored(now)
        )

    async def share(self, memory_id: str) -> AddedMemory:
        """Let everybody in the project see a private memory, and report what it contradicts."""
        memory = await self._owned(memory_id)
        if memory.visibility is Visibility.SYSTEM:
            raise Incorrect(f"{memory_id} is a memory of the system, which everybody sees")
        if memory.valid_to is not None:
            raise Incorrect(f"{memory_id} was forgotten: restore it first")
        shared = await self.repository.change(
            memory_id, lambda found: replace(found, visibility=Visibility.PROJECT_SHARED)
        )
        return AddedMemory(
            memory=shared, contradictions=await self._scanned(shared), known=shared == memory
        )

    async def unshare(self, memory_id: str) -> Memory:
        """Make a shared memory private to its owner again.

        ``Incorrect`` if it took the place of another shared one: the others would lose both.
        """
        memory = await self._owned(memory_id)
        if memory.visibility is Visibility.SYSTEM:
            raise Incorrect(f"{memory_id} is a memory of the system; it was not shared")
        for old_id in memory.supersedes:
            if await self.repository.is_shared(old_id):
                raise Incorrect(
                    f"{memory_id} took the place of {old_id}, which was shared: the others would "
                    "lose both"
                )
        return await self.repository.change(
            memory_id, lambda found: replace(found, visibility=Visibility.USER_PRIVATE)
        )

    async def plan_purge(self, memory_id: str) -> MemoryPurge:
        """Plan the removal of a forgotten memory's text; ``Incorrect`` if it is refused."""
        memory = await self._owned(memory_id)
        return await plan_memory_purge(self._store, self.repository, memory)

    async def export_file(self, *, private: bool = False) -> ExportedMemories:
        """Return the project's memories as a file; with ``private``, own private ones, too."""
        file = await exported_memories(self.repository, private=private)
        data, root = await asyncio.to_thread(file.to_bytes)
        return ExportedMemories(data=data, root=root, memories=len(file.memories))

    async def import_file(self, data: bytes, *, dry_run: bool = False) -> ImportedMemories:
        """Add the memories of a file to this project; what is known here stays as it is.

        The whole file is checked before the first write. It can be repeated: what was imported
        before is skipped. Contradictions with what is known here are reported, by rules alone.
        """
        file, root = await asyncio.to_thread(read_memory_file, data, now=self._now())
        result = await import_memories(
            self._store,
            self.repository,
            file,
            root=root,
            levels=lambda memory: ordered(memory.levels, count=self._counter.count),
            dry_run=dry_run,
        )
        if dry_run:
            return result
        pairs = [
            pair
            for memory in await self.memories()
            if memory.imported_from == root
            for pair in await self.scanner.scan(memory, by_rule_alone=True)
        ]
        once = {pair.id: pair for pair in pairs}
        found = await self.repository.report(list(once.values()))
        return replace(result, contradictions_found=len(found))

    async def refused(self, *, limit: int = 100) -> list[RefusedBatch]:
        """Return what sessions offered and was not remembered, newest first."""
        return await self.repository.refused(limit=limit)

    async def contradictions(self, *, only_open: bool = True) -> list[Contradiction]:
        return await self.repository.contradictions(only_open=only_open)

    async def resolve(
        self,
        contradiction: str,
        resolution: Resolution,
        *,
        note: str | None = None,
        merged: Body | None = None,
    ) -> Contradiction:
        """Close a contradiction as a person decided; only ``merged`` takes a body."""
        _check_note(note or "")
        if merged is None and resolution is Resolution.MERGED:
            raise Incorrect("the resolution merged needs the text that holds instead of both")
        if merged is not None and resolution is not Resolution.MERGED:
            raise Incorrect(f"only the resolution merged takes a text, not {resolution}")
        pair = await self.repository.contradiction(contradiction)
        if not pair.is_open:
            raise Incorrect(f"the contradiction {pair.id} is resolved already: {pair.resolution}")
        resolved = replace(
            pair, resolution=resolution, resolution_note=note, resolved_at=self._now()
        )
        because = note or f"contradiction {pair.id}"
        match resolution:
            case Resolution.BOTH_VALID:
                await self.repository.close(resolved)
            case Resolution.A_WINS:
                await self.repository.supersede(
                    [pair.memory_b], pair.memory_a, resolved=resolved, because=because
                )
            case Resolution.B_WINS:
                await self.repository.supersede(
                    [pair.memory_a], pair.memory_b, resolved=resolved, because=because
                )
            case Resolution.MERGED:
                assert merged is not None
                await self._merge(pair, merged, resolved, because)
        return resolved

    async def assemble_context(
        self,
        budget: int = BUDGET_TOKENS,
        *,
        signals: Signals | None = None,
        is_shown: Callable[[Memory], bool] = lambda _: False,
        marked: bool = False,
    ) -> AssembledContext:
        """Return the text that a prompt gets from memory, within a budget of tokens.

        Of what the user keeps private in other projects, only preferences are offered.
        ``is_shown`` says of a memory whether the prompt shows it anyway; such ones are left out.
        ``marked`` lines end with the id of their memory.
        """
        signals, now = signals or Signals(), self._now()
        await self.resident.refresh()
        relevance = self.resident.relevance(signals.question())
        pairs = await self.resident.contradictions()
        disputed = [each for pair in pairs for each in (pair.memory_a, pair.memory_b)]
        predicted = await self._predicted(signals, relevance)
        candidates = self.resident.shortlist.candidates(
            matching=[*relevance, *disputed, *predicted],
            path=signals.current_file,
            tier_tokens=tier_budgets(budget, signals.activity),
            now=now,
            is_offered=lambda memory: (
                memory.holds_in(self.principal.project_id) and not is_shown(memory)
            ),
        )
        return assemble_context(
            candidates,
            signals=signals,
            relevance=relevance,
            scores=self.resident.shortlist.usefulness(memory.id for memory in candidates),
            contradictions=pairs,
            count=self._counter.count,
            now=now,
            budget=budget,
            marked=marked,
            predicted=predicted,
        )

    async def _predicted(self, signals: Signals, relevance: Mapping[str, float]) -> dict[str, str]:
        """Return what will be needed beyond what matches, with the reason, the likeliest first."""
        if signals.activity == RECALL:
            return {}
        work = WorkSignals(
            file_opened=signals.current_file,
            related={path: f"probably next, {why}" for path, why in signals.next_files},
        )
        found = self.prediction.for_prompt(work, relevance)
        if signals.branch is not None:
            found |= self.prediction.for_branch(signals.branch)
        if signals.collaborator is not None:
            found |= self.prediction.for_collaborator(signals.collaborator)
        return linked_memories(relevance, await self.resident.links()) | found

    async def search(self, question: str, *, limit: int = 10) -> list[tuple[Memory, float]]:
        """Return the memories that match a question and hold in this project, best first."""
        if not question.strip():
            raise Incorrect("the question is empty; pass words to look for")
        if not 1 <= limit <= FOUND_MAX:
            raise Incorrect(f"the limit is {limit}; pass 1 to {FOUND_MAX}")
        await self.resident.refresh()
        scores = self.resident.relevance(question)
        memories = self.resident.shortlist.memories
        found = [
            (memories[memory_id], score)
            for memory_id, score in scores.items()
            if memories[memory_id].holds_in(self.principal.project_id)
        ]
        return sorted(found, key=lambda entry: (-entry[1], entry[0].id))[:limit]

    async def consolidate(
        self, *, dry_run: bool = False, progress: Callable[[str], None] = lambda _: None
    ) -> ConsolidationReport:
        """Merge, condense, rank, compare, forget and link; a dry run only counts."""
        return await self._consolidated(self._consolidation(progress), dry_run=dry_run)

    async def consolidate_if_due(self) -> ConsolidationReport | None:
        """Consolidate once a day; None if that was done, or there is nothing."""
        engine = self._consolidation(lambda _: None)
        return await self._consolidated(engine) if await engine.is_due(now=self._now()) else None

    async def expand(self, memory_id: str) -> Memory:
        """Return a memory to be shown in full, and count that.

        Only what prompts of this project may show: agents call this, and a beginning of four
        characters can be guessed.
        """
        now, project = self._now(), self.principal.project_id
        found = await self.repository.find_id(
            memory_id, among=lambda each: each.holds_in(project) and each.is_valid_at(now)
        )
        memory = await self.repository.get(found)
        await self.on_memory_retrieved(memory.id)
        return memory

    async def on_memory_retrieved(self, *memory_ids: str) -> None:
        """Count that memories were shown."""
        now = self._now()
        await self.repository.count(
            {memory_id: lambda usage: usage.retrieved(now) for memory_id in memory_ids}
        )

    async def on_memory_cited(self, *memory_ids: str) -> None:
        """Count that memories influenced what the agent did."""
        now = self._now()
        await self.repository.count(
            {memory_id: lambda usage: usage.cited(now) for memory_id in memory_ids}
        )

    async def on_memory_ignored(self, *memory_ids: str) -> None:
        """Count that memories were shown for their relevance, and not used."""
        await self.repository.count(
            {memory_id: lambda usage: usage.ignored() for memory_id in memory_ids}
        )

    async def _consolidated(
        self, engine: ConsolidationEngine, *, dry_run: bool = False
    ) -> ConsolidationReport:
        report = await engine.consolidate(now=self._now(), dry_run=dry_run)
        if not dry_run:
            await prune_records(self._store, self.repository, now=self._now())
        return report

    def _consolidation(self, progress: Callable[[str], None]) -> ConsolidationEngine:
        return ConsolidationEngine(
            self._store, self.repository, count=self._counter.count, progress=progress
        )

    def _rehearse(self) -> None:
        """Load vocabulary and vectors, with a memory that is not stored."""
        now, body = self._now(), Fact(key="rehearsal", value="of a search")
        memory = Memory(
            id=str(uuid.uuid4()),
            body=body,
            kind=MemoryKind.NOTE,
            levels=levels_by_rule(body, self._counter.count),
            author=Author.RULE,
            visibility=Visibility.USER_PRIVATE,
            user_id=self.principal.user_id,
            project_id=self.principal.project_id,
            created_at=now,
            valid_from=now,
        )
        self.resident.pool().rehearse(memory)

    async def _owned(self, memory_id: str) -> Memory:
        """Return a memory of this user in this project; ``Incorrect`` if it is another's."""
        memory = await self.repository.get(memory_id)
        if memory.user_id != self.principal.user_id:
            raise Incorrect(f"{memory_id} is a memory of {memory.user_id}, who alone may do that")
        if memory.project_id != self.principal.project_id:
            raise Incorrect(
                f"{memory_id} belongs to the project {memory.project_id}: do it from there"
            )
        return memory

    async def _scanned(self, memory: Memory) -> tuple[Contradiction, ...]:
        """Report the contradictions of a memory with others that hold."""
        return tuple(await self.repository.report(await self.scanner.scan(memory)))

    async def _merge(
        self, pair: Contradiction, merged: Body, resolved: Contradiction, because: str
    ) -> None:
        one = await self.repository.get(pair.memory_a)
        other = await self.repository.get(pair.memory_b)
        now = self._now()
        new = Memory(
            id=str(uuid.uuid4()),
            body=merged,
            kind=one.kind,
            levels=levels_by_rule(merged, self._counter.count),
            author=Author.PERSON,
            visibility=wider(one.visibility, other.visibility),
            user_id=self.principal.user_id,
            project_id=self.principal.project_id,
            created_at=now,
            valid_from=now,
            tags=one.tags,
        )
        await self.repository.supersede(
            [pair.memory_a, pair.memory_b], new, resolved=resolved, because=because
        )


def _check_note(note: str) -> None:
    if len(note) > NOTE_CHARS_MAX:
        raise Incorrect(f"a note has at most {NOTE_CHARS_MAX} characters, not {len(note):,}")
