"""What is kept in memory follows the store, whoever writes to it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

import pytest

from ctxmgr import Store
from ctxmgr.core.store.contract import Put, Query, Version
from ctxmgr.memory import relevance
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Episode, Fact
from ctxmgr.memory.records.link import LinkKind, link_between, stored_link
from ctxmgr.memory.records.memory import MemoryKind, Origin, Visibility
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.tiers.assembly import Signals

START = 1_700_000_000_000
ADA = Principal(user_id="ada", project_id="shop")


async def test_another_writer_is_seen_by_the_next_question(
    store: Store, memory: LivingMemory
) -> None:
    """PG-27: what is added, corrected, used and forgotten elsewhere reaches the next prompt."""
    elsewhere = LivingMemory(store, ADA, now=count(START - 600_000, 1_000).__next__)
    assert (await memory.assemble_context()).context == ""

    added = await elsewhere.add(Fact(key="port", value="8080"), kind=MemoryKind.INSTRUCTION)
    first = await memory.assemble_context()
    await elsewhere.edit(added.memory.id, Fact(key="port", value="9090"))
    second = await memory.search("which port?")
    await elsewhere.forget(added.memory.id)

    assert "port: 8080" in first.context
    assert [each.levels.summary for each, _ in second] == ["port: 9090"]
    assert (await memory.assemble_context()).context == ""
    assert await memory.search("which port?") == []


async def test_links_that_change_while_they_are_read_are_complete(
    store: Store, memory: LivingMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts of two sessions are made at once: one reads links, the other takes in new ones."""
    one, other = [
        (await memory.add(Fact(key=key, value="1"))).memory.id for key in ("port", "host")
    ]
    link = link_between(
        one, other, LinkKind.RELATED_TO, strength=1.0, reason="r", detected_at=START
    )
    await store.commit([Put(stored_link(link))])
    found = memory.repository.found

    async def interrupted(query: Query) -> AsyncIterator[Version]:
        async for version in found(query):
            await store.commit([Put(stored_link(replace(link, strength=0.5)))])
            await memory.resident.refresh()
            yield version

    await memory.resident.refresh()
    monkeypatch.setattr(memory.repository, "found", interrupted)

    assert (await memory.resident.links()).keys() == {one, other}


async def test_what_others_keep_private_is_not_taken_in(store: Store, memory: LivingMemory) -> None:
    """001-A23: also when it becomes private later."""
    bob = LivingMemory(
        store, Principal(user_id="bob", project_id="shop"), now=count(START).__next__
    )
    await memory.assemble_context()
    secret = Fact(key="salary", value="secret")
    await bob.add(secret)
    await bob.add(Fact(key="office", value="Berlin"), visibility=Visibility.PROJECT_SHARED)

    found = await memory.search("salary in the office")

    assert [each.levels.summary for each, _ in found] == ["office: Berlin"]


async def test_episodes_of_a_session_are_searched_together(memory: LivingMemory) -> None:
    """An answer next to the question that was asked is found, though it shares no word with it."""
    turns = ["Which database do we take?", "The elephant one, since it has extensions.", "Lunch."]
    for turn, text in enumerate(turns, start=1):
        await memory.add(
            Episode(title=text, full_narrative=text), origin=Origin(session_id="s1", turn=turn)
        )
    await memory.add(Episode(title="Weather", full_narrative="It rained."))

    found = await memory.search("database")

    assert [each.levels.full for each, _ in found][:2] == turns[:2]
    assert (
        "elephant"
        in (await memory.assemble_context(signals=Signals(message="Which database?"))).context
    )


async def test_many_small_changes_are_merged(memory: LivingMemory) -> None:
    """However often memories change, a search looks at few segments and at no old text."""
    for number in range(12):
        added = await memory.add(Fact(key=f"service {number}", value=f"port {8000 + number}"))
        assert (await memory.search(f"service {number}"))[0][0].id == added.memory.id
    await memory.edit(added.memory.id, Fact(key="service 11", value="port 9999"))

    assert await memory.search("8011") == []
    assert (await memory.search("9999"))[0][0].id == added.memory.id
    assert len(memory.resident.pool()._parts) <= 3


async def test_the_first_question_finds_everything_indexed(
    store: Store, memory: LivingMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt waits two seconds for memory; to index 10,000 memories takes longer."""
    added = await memory.add(Fact(key="test runner", value="pytest"))
    fresh = LivingMemory(store, ADA, now=count(START + 1_000_000).__next__)
    await fresh.prepare()

    def late(*_: object) -> None:
        raise AssertionError("indexed by the first question")

    monkeypatch.setattr(relevance, "build", late)
    assert [each.id for each, _ in await fresh.search("which test runner?")] == [added.memory.id]
