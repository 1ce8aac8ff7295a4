"""Nobody sees more than the three scopes allow, whoever wrote what."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr import KINDS, NotFound, Store, open_store
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import Visibility
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS

PRINCIPALS = st.builds(
    Principal, user_id=st.sampled_from(["ada", "bob"]), project_id=st.sampled_from(["x", "y"])
)
WRITES = st.lists(st.tuples(PRINCIPALS, st.sampled_from(Visibility)), min_size=1, max_size=8)


@given(writes=WRITES, reader=PRINCIPALS)
@settings(max_examples=20, deadline=None)
def test_a_principal_reads_exactly_what_it_may(
    writes: list[tuple[Principal, Visibility]], reader: Principal
) -> None:
    """001-R102, 001-A23: private to the user, shared in the project, system for all."""

    async def read() -> set[str]:
        async with await open_store("sqlite://:memory:", kinds={**KINDS, **MEMORY_KINDS}) as store:
            for number, (writer, visibility) in enumerate(writes):
                fact = Fact(key=f"key {number}", value=str(number))
                await LivingMemory(store, writer).add(fact, visibility=visibility)
            return {
                each.body.value
                for each in await LivingMemory(store, reader).memories()
                if isinstance(each.body, Fact)
            }

    allowed = {
        str(number)
        for number, (writer, visibility) in enumerate(writes)
        if (visibility is Visibility.SYSTEM)
        or (visibility is Visibility.USER_PRIVATE and writer.user_id == reader.user_id)
        or (visibility is Visibility.PROJECT_SHARED and writer.project_id == reader.project_id)
    }
    assert asyncio.run(read()) == allowed


async def test_an_agent_expands_only_what_prompts_of_its_project_may_show(store: Store) -> None:
    """001-R102: four characters of an id can be guessed, and other projects stay private.

    What a person made the agents forget is not shown to them, either.
    """
    here, elsewhere = (
        LivingMemory(store, Principal(user_id="ada", project_id=project)) for project in "xy"
    )
    private = (await elsewhere.add(Fact(key="bank account", value="12345"))).memory
    forgotten = (await here.add(Fact(key="password rule", value="a name"))).memory
    await here.forget(forgotten.id, because="wrong")

    for memory_id in (private.id, private.id[:4], forgotten.id):
        with pytest.raises(NotFound):
            await here.expand(memory_id)

    assert await elsewhere.expand(private.id[:4]) == private
