"""Living memory in an XTDB database: what was believed when, consolidation, and purging."""

from collections.abc import AsyncIterator
from itertools import count

import httpx
import pytest

from ctxmgr import KINDS, Store, open_store
from ctxmgr.core.sessions.retention import purge_records
from ctxmgr.core.store.contract import AsOf
from ctxmgr.errors import Incorrect
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Episode, Fact
from ctxmgr.memory.records.contradiction import Resolution
from ctxmgr.memory.records.memory import Author, stored_id
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS
from ctxmgr.memory.tiers.assembly import Signals
from tests.memory.conftest import ADA, START
from tests.memory.test_purging import SECRET, carry_out
from tests.xtdb import own_server

pytestmark = pytest.mark.xtdb

xtdb_url = own_server.xtdb_url  # a rewrite reads the whole log, and memories of all users are asked


@pytest.fixture
async def store(xtdb_url: str) -> AsyncIterator[Store]:
    async with await open_store(xtdb_url, kinds={**KINDS, **MEMORY_KINDS}) as store:
        yield store


async def test_the_text_of_a_memory_is_removed_from_every_version(
    memory: LivingMemory, store: Store, xtdb_url: str
) -> None:
    """001-R098, X-C04: as of any time, in what quotes it, and in the log; the record stays."""
    fact = (await memory.add(Fact(key="password", value=SECRET), tags=[SECRET])).memory
    await memory.edit(fact.id, Fact(key="password", value=f"2{SECRET}"))
    other = await memory.add(Fact(key="password", value="swordfish"))
    (pair,) = other.contradictions
    await memory.resolve(pair.id, Resolution.B_WINS, note=f"not {SECRET}")
    episode = (await memory.add(Episode(title=SECRET, full_narrative=SECRET))).memory
    await memory.forget(episode.id, because=f"it is {SECRET}")
    believed = [each.system_time for each in await memory.history(fact.id)]
    server = xtdb_url.removeprefix("xtdb+")

    async def log() -> str:
        url, params = f"{server}/_xtdb/tx-log", {"with-ops?": "true"}
        async with httpx.AsyncClient() as http:
            return (await http.get(url, params=params, timeout=60)).text

    assert SECRET in await log()

    await carry_out(memory, store, [fact.id, episode.id])

    assert SECRET not in await log()
    assert len(await purge_records(store)) == 1
    for instant in believed:
        then = await store.get(stored_id(fact.id), as_of=AsOf(system_time=instant))
        assert then is None or SECRET not in str(then.document)
    states = await memory.history(fact.id)
    assert len(states) == len(believed)
    assert SECRET not in str(states)
    assert SECRET not in str(await memory.contradictions(only_open=False))
    fresh = LivingMemory(store, ADA)
    assert [each.id for each in await fresh.memories()] == [other.memory.id]
    with pytest.raises(Incorrect, match="was purged"):
        await fresh.restore(fact.id)


async def test_memories_are_served_consolidated_and_believed_as_in_sqlite(store: Store) -> None:
    """001-R056, 001-R098: two values in time, a merge, and what a prompt gets."""
    bob = Principal(user_id="bob", project_id="docs")
    memory = LivingMemory(store, bob, now=count(START, 1_000).__next__)
    first = (await memory.add(Fact(key="deploy day", value="Friday"), author=Author.RULE)).memory
    before = (await memory.history(first.id))[0].system_time
    await memory.add(Fact(key="day of deployment", value="Friday"), author=Author.RULE)
    planned = await memory.consolidate(dry_run=True)

    done = await memory.consolidate()

    assert planned.counts == done.counts
    assert (done.counts.deduped, done.counts.forgotten) == (2, 0)
    context = await memory.assemble_context(500, signals=Signals(message="deploy on which day?"))
    assert context.context.count("Friday") == 1
    then = await memory.memories(as_of=AsOf(system_time=before))
    assert [each.id for each in then] == [first.id]
