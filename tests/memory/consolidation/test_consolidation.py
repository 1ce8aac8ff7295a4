"""Consolidation merges, condenses, ranks, compares, forgets and links, and says so beforehand."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ctxmgr import KINDS, Commit, Put, Store, open_store
from ctxmgr import app as app_module
from ctxmgr.app import App
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.core.store.contract import Operation
from ctxmgr.memory.consolidation_engine import ConsolidationEngine, ConsolidationReport
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Episode, Fact
from ctxmgr.memory.records.contradiction import Resolution
from ctxmgr.memory.records.link import LinkKind
from ctxmgr.memory.records.memory import Author, Memory, MemoryKind, Origin
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.records.usage import USAGE
from ctxmgr.memory.repository import MEMORY_KINDS, MemoryRepository
from ctxmgr.memory.tiers.ranking import DAY_MS
from ctxmgr.settings import load_settings

ADA = Principal(user_id="ada", project_id="shop")
START = 1_700_000_000_000


class _Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def memory(store: Store, clock: _Clock) -> LivingMemory:
    return LivingMemory(store, ADA, now=clock)


def _engine(store: Store, clock: _Clock, said: list[str] | None = None) -> ConsolidationEngine:
    progress = (lambda _: None) if said is None else said.append
    repository = MemoryRepository(store, ADA, now=clock)
    return ConsolidationEngine(store, repository, count=TokenCounter().count, progress=progress)


async def _run(store: Store, clock: _Clock, *, days: int, dry: bool = False) -> ConsolidationReport:
    now = START + days * DAY_MS
    clock.now = max(clock.now, now)
    return await _engine(store, clock).consolidate(now=now, dry_run=dry)


async def _fill(memory: LivingMemory) -> dict[str, Memory]:
    """Memories of which every step has something to do after 100 days."""
    bodies = {
        "pytest": (Fact(key="test runner", value="pytest", confidence=0.6), MemoryKind.DECISION),
        "same": (Fact(key="runner of tests", value="use pytest"), MemoryKind.DECISION),
        "rule": (Fact(key="indentation", value="tabs"), MemoryKind.NOTE),
        "other": (Fact(key="indent", value="4 spaces"), MemoryKind.NOTE),
        "story": (
            Episode(title="Gateway timeouts", full_narrative="The payment gateway timed out."),
            MemoryKind.NOTE,
        ),
    }
    added = {}
    for name, (body, kind) in bodies.items():
        stored = await memory.add(
            body, kind=kind, author=Author.AGENT, origin=Origin(session_id="s", turn=1)
        )
        added[name] = stored.memory
    await memory.on_memory_retrieved(added["pytest"].id, added["same"].id)
    return added


async def test_facts_that_say_the_same_become_one(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R058, 001-A12: the best is kept in a new memory, both originals stay as superseded."""
    added = await _fill(memory)

    report = await _run(store, clock, days=1)

    assert report.counts.deduped == 2
    (merged,) = [each for each in await memory.memories() if each.supersedes]
    assert set(merged.supersedes) == {added["pytest"].id, added["same"].id}
    assert isinstance(merged.body, Fact)
    assert (merged.body.value, merged.body.confidence) == ("use pytest", 1.0)
    for name in ("pytest", "same"):
        old = await memory.get(added[name].id)
        assert (old.superseded_by, old.valid_to is None) == (merged.id, False)
    usage = (await memory.repository.usage([merged.id]))[merged.id]
    assert usage.retrieval_count == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Fact(key="port", value="8080"), Fact(key="port", value="8081")),
        (Fact(key="mock", value="use mocks"), Fact(key="mock", value="do not use mocks")),
        (Fact(key="db", value="PostgreSQL"), Fact(key="db", value="PostgreSQL 15")),
        (Fact(key="db", value="x", scope="api"), Fact(key="db", value="x", scope="web")),
        (
            Fact(key="timeout", value="30 s", scope="payment service"),
            Fact(key="timeout", value="30 s", scope="payment provider"),
        ),
        (Fact(key="node version", value="20"), Fact(key="number of nodes", value="20")),
        (
            Fact(key="API", value="https://api.shop.io"),
            Fact(key="API", value="https://shop.io/api"),
        ),
    ],
)
async def test_facts_that_differ_are_not_merged(
    store: Store, memory: LivingMemory, clock: _Clock, one: Fact, other: Fact
) -> None:
    """001-R058: another number, sort, address or scope, a negation or more detail."""
    await memory.add(one, author=Author.AGENT)
    await memory.add(other, author=Author.AGENT)

    assert (await _run(store, clock, days=1)).counts.deduped == 0


async def test_what_a_person_wrote_wins_and_is_not_rewritten(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """A person's text stays, is never condensed or forgotten, and ends what repeats it."""
    own = (await memory.add(Fact(key="test runner", value="pytest", confidence=0.1))).memory
    learnt = await memory.add(Fact(key="runner for tests", value="pytest"), author=Author.AGENT)
    story = Episode(title="The move", full_narrative="We moved to Berlin.")
    told = (await memory.add(story)).memory

    await _run(store, clock, days=400)

    kept = await memory.get(own.id)
    assert replace(kept, supersedes=()) == own
    assert (await memory.get(learnt.memory.id)).superseded_by == own.id
    assert await memory.get(told.id) == told


async def test_episodes_get_shorter_with_age(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R059, 001-R060, 001-A13: summarised after 7 days, compressed after 30."""
    episode = Episode(title="Short title", full_narrative="A long story about the gateway.")
    added = (await memory.add(episode, author=Author.AGENT)).memory

    levels = []
    for days in (6, 8, 29, 31):
        await _run(store, clock, days=days)
        levels.append((await memory.get(added.id)).condensed)

    assert levels == [0, 1, 1, 2]
    shown = (await memory.search("gateway"))[0][0]
    assert shown.levels.full == "A long story about the gateway."


async def test_what_was_shown_in_vain_becomes_cold_until_it_is_used(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R061, 001-R045: rankings follow use; cold memories are served only when they match."""
    fact = Fact(key="colour of the logo", value="teal")
    added = (await memory.add(fact, kind=MemoryKind.CONVENTION, author=Author.AGENT)).memory
    for _ in range(10):
        await memory.on_memory_retrieved(added.id)
        await memory.on_memory_ignored(added.id)

    demoted = await _run(store, clock, days=60)
    unasked = await memory.assemble_context()
    await memory.on_memory_cited(added.id)
    promoted = await _run(store, clock, days=61)

    assert (demoted.counts.demoted, promoted.counts.promoted) == (1, 1)
    assert unasked.context == ""
    assert "teal" in (await memory.assemble_context()).context


async def test_unused_memories_are_forgotten_after_90_days(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R064, 001-A09, 001-A13: never used, and not in an open contradiction."""
    added = await _fill(memory)

    assert (await _run(store, clock, days=89)).counts.forgotten == 0
    report = await _run(store, clock, days=91)

    ended = await memory.get(added["story"].id)
    assert report.counts.forgotten == 1
    assert ended.ended_because == "not used in 90 days"
    assert (await memory.get(added["rule"].id)).valid_to is None
    assert await memory.restore(ended.id)


async def test_a_memory_whose_use_cannot_be_read_is_not_forgotten(
    tmp_path: Path, clock: _Clock
) -> None:
    """It was used, as far as anybody knows."""
    unchecked = {name: replace(kind, check=None) for name, kind in MEMORY_KINDS.items()}
    async with await open_store(f"sqlite:///{tmp_path}/m.db", kinds=unchecked) as store:
        memory = LivingMemory(store, ADA, now=clock)
        unused, used = [
            (await memory.add(Fact(key=key, value="x"), author=Author.AGENT)).memory.id
            for key in ("port", "owner")
        ]
        await store.commit([Put({"xt/id": f"{USAGE}:{used}", "type": USAGE, "memory_id": used})])

        await _run(store, clock, days=91)

        assert (await memory.get(used)).valid_to is None
        assert (await memory.get(unused)).valid_to is not None


async def test_what_a_person_restored_stays(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """The night after a restore does not take the memory away again."""
    added = await _fill(memory)
    assert (await _run(store, clock, days=91)).counts.forgotten == 1
    await memory.restore(added["story"].id)

    assert (await _run(store, clock, days=92)).counts.forgotten == 0
    assert (await memory.get(added["story"].id)).valid_to is None


async def test_superseded_memories_are_ended(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R063: whatever wrote it, a memory that was superseded does not hold any more."""
    old = (await memory.add(Fact(key="a", value="1"), author=Author.AGENT)).memory
    new = (await memory.add(Fact(key="b", value="2"), author=Author.AGENT)).memory
    await memory.repository.change(old.id, lambda each: replace(each, superseded_by=new.id))

    report = await _run(store, clock, days=1)

    assert report.counts.forgotten == 1
    assert (await memory.get(old.id)).valid_to is not None
    (link,) = await memory.repository.links(old.id)
    assert (link.memory_a, link.kind) == (new.id, LinkKind.SUPERSEDES)
    assert link.reason == f"{new.id[:8]} took the place of {old.id[:8]}"


async def test_memories_of_one_turn_and_about_one_thing_are_linked(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R065, 001-A24: links are documents with both memories, a kind and a strength."""
    added = await _fill(memory)
    fix = Fact(key="gateway timed out", value="raise the payment timeout")
    fixed = await memory.add(fix, kind=MemoryKind.ERROR_FIX, author=Author.AGENT)

    await _run(store, clock, days=1)

    links = await memory.repository.links(added["story"].id)
    assert {link.kind for link in links} == {LinkKind.PART_OF, LinkKind.SOLVED_BY}
    (solved,) = [link for link in links if link.kind is LinkKind.SOLVED_BY]
    assert (solved.memory_a, solved.memory_b) == (added["story"].id, fixed.memory.id)
    stranger = MemoryRepository(store, Principal(user_id="eve", project_id="shop"), now=clock)
    assert await stranger.links() == []


async def test_the_reason_of_a_link_has_words_and_not_stems(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """A person reads it: "always" and "prices", not "alway" and "pric"."""
    one = Fact(key="prices of the shop", value="always stored in cents")
    other = Fact(key="prices in reports", value="always rounded")
    added = (await memory.add(one, author=Author.AGENT)).memory
    await memory.add(other, author=Author.AGENT)

    await _run(store, clock, days=1)

    (link,) = await memory.repository.links(added.id)
    assert link.reason == "both have always, prices"


async def test_a_dry_run_counts_what_the_real_run_does(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R111, 001-A20: nothing is changed, and all counts are equal."""
    await _fill(memory)
    before = (await store.status()).sequence

    dry = await _run(store, clock, days=100, dry=True)
    between = (await store.status()).sequence
    real = await _run(store, clock, days=100)

    assert before == between
    assert (dry.counts, dry.details) == (real.counts, real.details)
    assert all(
        asdict(real.counts)[name]
        for name in ("deduped", "compressed", "forgotten", "links_found", "summarised")
    )


async def test_a_second_run_changes_nothing(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R057: consolidation is idempotent."""
    await _fill(memory)
    await _run(store, clock, days=100)
    before = [each async for each in memory.repository.all()]

    again = await _run(store, clock, days=100)

    assert not any(asdict(again.counts).values())
    assert [each async for each in memory.repository.all()] == before


async def test_the_six_steps_run_in_order(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R057, 001-R137: and each is announced before it begins."""
    said: list[str] = []

    await _engine(store, clock, said).consolidate(now=START)

    assert [line.split("step ")[1] for line in said[1:]] == [
        "1 of 6, merge similar facts",
        "2 of 6, summarise episodes",
        "2 of 6, compress episodes",
        "3 of 6, adjust rankings",
        "4 of 6, scan for contradictions",
        "5 of 6, forget what was superseded",
        "5 of 6, forget what is not used",
        "6 of 6, discover connections",
    ]


@pytest.mark.parametrize("commits", [1, 3, 5])
async def test_an_interrupted_run_is_completed_by_the_next(commits: int) -> None:
    """001-R057: whatever had been written before, the end is the same."""

    async def after(stop: int | None) -> list[Memory]:
        clock = _Clock()
        kinds = {**KINDS, **MEMORY_KINDS}
        async with await open_store("sqlite://:memory:", kinds=kinds) as store:
            memory = LivingMemory(store, ADA, now=clock)
            await _fill(memory)
            if stop is not None:
                engine = _engine(_Interrupted(store, stop), clock)  # type: ignore[arg-type]
                with pytest.raises(asyncio.CancelledError):
                    await engine.consolidate(now=START + 100 * DAY_MS)
            await _run(store, clock, days=100)
            return [each async for each in memory.repository.all()]

    def told(memories: list[Memory]) -> list[tuple[object, ...]]:
        return sorted(
            (each.levels.full, each.condensed, each.valid_to or 0, each.superseded_by is None)
            for each in memories
        )

    assert told(await after(commits)) == told(await after(None))


class _Interrupted:
    """A store whose user presses Ctrl-C at a commit."""

    def __init__(self, store: Store, commits: int) -> None:
        self._store, self._left = store, commits

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        self._left -= 1
        if self._left == 0:
            raise asyncio.CancelledError
        return await self._store.commit(operations, key=key)


async def test_what_somebody_else_changed_meanwhile_is_left_alone(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """Two writers at once: consolidation gives way, says so, and the rest is done."""
    added = await _fill(memory)
    edited = Fact(key="test runner", value="unittest")

    class _Meddling(_Interrupted):
        async def commit(
            self, operations: Iterable[Operation], *, key: str | None = None
        ) -> Commit:
            self._left -= 1
            if self._left == 0:
                await memory.edit(added["pytest"].id, edited)
            return await self._store.commit(operations, key=key)

    engine = _engine(_Meddling(store, 1), clock)  # type: ignore[arg-type]
    report = await engine.consolidate(now=START + 100 * DAY_MS)

    assert report.counts.skipped == 1
    assert (await memory.get(added["pytest"].id)).body == edited
    assert (await memory.get(added["story"].id)).valid_to is not None


async def test_a_run_is_due_once_a_day_and_only_if_there_is_something(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R046, 001-R056: the scheduler asks, and one run a night is enough."""
    engine = _engine(store, clock)
    empty = await engine.is_due(now=START)
    await _fill(memory)

    due = await engine.is_due(now=START)
    await engine.consolidate(now=START)

    assert (empty, due) == (False, True)
    assert not await engine.is_due(now=START + 1_000)
    assert await engine.is_due(now=START + DAY_MS)


async def test_contradictions_that_slipped_in_are_found(
    store: Store, memory: LivingMemory, clock: _Clock
) -> None:
    """001-R062: also between memories that were written without the scanner, once."""
    one = (await memory.add(Fact(key="port", value="1"), author=Author.AGENT)).memory
    other = replace(
        one, id="00000000-0000-4000-8000-000000000001", body=Fact(key="port", value="2")
    )
    await memory.repository.add(other)
    abroad = replace(
        one,
        id="00000000-0000-4000-8000-000000000002",
        body=Fact(key="port", value="3"),
        project_id="elsewhere",
    )
    await LivingMemory(
        store, Principal(user_id="ada", project_id="elsewhere"), now=clock
    ).repository.add(abroad)

    report = await _run(store, clock, days=1)

    assert report.counts.contradictions_found == 1
    (pair,) = await memory.contradictions()
    assert {pair.memory_a, pair.memory_b} == {one.id, other.id}
    assert (await _run(store, clock, days=2)).counts.contradictions_found == 0


async def test_a_server_consolidates_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `ctxmgr serve` runs is this code, and it goes on after an error.

    Rows: 001-R003, 001-R056, PG-28.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app_module, "LIFECYCLE_SECONDS", 0.0)
    done = asyncio.Event()
    calls: list[int] = []
    due = LivingMemory.consolidate_if_due

    async def watched(memory: LivingMemory) -> ConsolidationReport | None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no disk")
        report = await due(memory)
        done.set()
        return report

    monkeypatch.setattr(LivingMemory, "consolidate_if_due", watched)
    async with App(load_settings(store=f"sqlite:///{tmp_path}/a.db")) as app:
        memory = await app.memory()
        await _fill(memory)
        running = asyncio.create_task(app.run_consolidation())
        await asyncio.wait_for(done.wait(), 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        assert any(each.supersedes for each in await memory.memories())


async def test_a_merge_keeps_what_a_person_said_is_both_valid(
    memory: LivingMemory, store: Store, clock: _Clock
) -> None:
    """001-A07: a pair that was settled is not reported again under the id of the merged fact."""
    first = Fact(key="database", value="PostgreSQL")
    added = await memory.add(first, author=Author.AGENT, kind=MemoryKind.DECISION)
    other = await memory.add(
        Fact(key="database", value="Redis"), author=Author.AGENT, kind=MemoryKind.DECISION
    )
    (pair,) = other.contradictions
    await memory.resolve(pair.id, Resolution.BOTH_VALID, note="one is a cache")
    same = Fact(key="db", value="use PostgreSQL")
    again = await memory.add(same, author=Author.AGENT, kind=MemoryKind.DECISION)
    for each in again.contradictions:
        await memory.resolve(each.id, Resolution.BOTH_VALID)

    dry = await _run(store, clock, days=1, dry=True)
    report = await _run(store, clock, days=1)

    assert dry.counts == report.counts
    assert (report.counts.deduped, report.counts.contradictions_found) == (2, 0)
    assert await memory.contradictions() == []
    merged = (await memory.get(added.memory.id)).superseded_by
    settled = [
        each
        for each in await memory.contradictions(only_open=False)
        if merged in (each.memory_a, each.memory_b)
    ]
    assert [(each.resolution, each.is_open) for each in settled] == [(Resolution.BOTH_VALID, False)]
