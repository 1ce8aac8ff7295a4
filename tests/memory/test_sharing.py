"""A private memory is shared by its owner, and taken back."""

import pytest

from ctxmgr import Store
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import Visibility
from ctxmgr.memory.records.principal import Principal

BOB = Principal(user_id="bob", project_id="shop")
TABS = Fact(key="indentation", value="tabs", scope="python")
SPACES = Fact(key="indentation", value="4 spaces", scope="python")
START = 1_700_000_000_000


@pytest.fixture
def bobs(store: Store) -> LivingMemory:
    return LivingMemory(store, BOB, now=lambda: START + 1_000_000)


async def test_a_shared_memory_is_seen_by_others_until_it_is_taken_back(
    memory: LivingMemory, bobs: LivingMemory
) -> None:
    """001-R129, 001-R102: who sees it changes, what it says does not, and the history has both."""
    added = (await memory.add(TABS)).memory
    assert await bobs.search("indentation") == []

    shared = await memory.share(added.id)
    again = await memory.share(added.id)

    assert [each.id for each in await bobs.memories()] == [added.id]
    assert [each.id for each, _ in await bobs.search("indentation")] == [added.id]
    assert (shared.known, again.known) == (False, True)
    # What Bob may see of the history begins when it was shared.
    assert len(await bobs.history(added.id)) == 1
    assert await memory.unshare(added.id) == added
    assert await bobs.memories() == []
    assert await bobs.search("indentation") == []
    with pytest.raises(NotFound):
        await bobs.get(added.id)
    private, project = Visibility.USER_PRIVATE, Visibility.PROJECT_SHARED
    states = [version.memory.visibility for version in await memory.history(added.id)]
    assert states == [private, project, private]


async def test_contradictions_are_looked_for_when_a_memory_is_shared(
    memory: LivingMemory, bobs: LivingMemory
) -> None:
    """Bob wrote his after Ada's private one: nobody has compared the two."""
    added = (await memory.add(TABS)).memory
    theirs = await bobs.add(SPACES, visibility=Visibility.PROJECT_SHARED)
    assert theirs.contradictions == ()
    assert await bobs.contradictions() == []

    shared = await memory.share(added.id)

    (pair,) = shared.contradictions
    assert {pair.memory_a, pair.memory_b} == {added.id, theirs.memory.id}
    assert await bobs.contradictions() == [pair]
    await memory.unshare(added.id)
    assert await bobs.contradictions() == []


async def test_only_the_owner_shares_and_takes_back(
    memory: LivingMemory, bobs: LivingMemory, store: Store
) -> None:
    """001-R102: what others see of a memory is up to its user, in its own project."""
    private = (await memory.add(TABS)).memory
    shared = (await memory.add(SPACES, visibility=Visibility.PROJECT_SHARED)).memory
    elsewhere = LivingMemory(store, Principal(user_id="ada", project_id="site"))

    with pytest.raises(NotFound):
        await bobs.share(private.id)
    with pytest.raises(Incorrect, match="a memory of ada"):
        await bobs.unshare(shared.id)
    with pytest.raises(Incorrect, match="belongs to the project shop"):
        await elsewhere.share(private.id)
    assert await memory.get(private.id) == private
    assert await memory.get(shared.id) == shared


async def test_what_cannot_be_shared_or_taken_back(
    memory: LivingMemory, bobs: LivingMemory
) -> None:
    """Forgotten and system memories, and what took the place of another's shared one."""
    forgotten = (await memory.add(Fact(key="editor", value="vim"))).memory
    await memory.forget(forgotten.id)
    system = (
        await memory.add(Fact(key="licence", value="MIT"), visibility=Visibility.SYSTEM)
    ).memory
    old = (await bobs.add(TABS, visibility=Visibility.PROJECT_SHARED)).memory
    new = (await memory.add(SPACES, visibility=Visibility.PROJECT_SHARED)).memory
    await memory.repository.supersede([old.id], new.id, because="decided")

    for refused in (memory.share(forgotten.id), memory.share(system.id), memory.unshare(system.id)):
        with pytest.raises(Incorrect):
            await refused
    with pytest.raises(Incorrect, match="the others would lose both"):
        await memory.unshare(new.id)
