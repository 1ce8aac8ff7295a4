"""The text of a forgotten memory is removed for good; a record of it is left."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ctxmgr import Store
from ctxmgr.core.sessions.retention import PurgePlan, purge, purge_records
from ctxmgr.errors import Incorrect
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Body, Episode, Fact, Pattern, Workflow
from ctxmgr.memory.records.contradiction import Resolution
from ctxmgr.memory.records.memory import Visibility, stored_id
from ctxmgr.memory.records.principal import Principal

SECRET = "xyzzy-plugh"
BODIES: tuple[Body, ...] = (
    Fact(key="password", value=SECRET, reason=SECRET),
    Episode(title=SECRET, full_narrative=SECRET, problem=SECRET),
    Pattern(name=SECRET, trigger=SECRET, template={"a": SECRET}, hint=SECRET),
    Workflow(name=SECRET, trigger=SECRET, steps=(SECRET,), hint=SECRET),
)


def _bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("s.db*"))


async def carry_out(memory: LivingMemory, store: Store, memory_ids: Sequence[str]) -> int:
    planned = {memory_id: await memory.plan_purge(memory_id) for memory_id in memory_ids}
    plan = PurgePlan(
        sessions=(),
        documents={key: new for each in planned.values() for key, new in each.documents.items()},
        hashes={stored_id(memory_id): each.hashes for memory_id, each in planned.items()},
        text_bytes=sum(each.text_bytes for each in planned.values()),
        kept=(),
    )
    return await purge(store, plan)


async def test_nothing_of_the_text_is_left_in_the_store(
    memory: LivingMemory, store: Store, tmp_path: Path
) -> None:
    """Every version, the contradictions that quote it, search and prompts; the record stays."""
    added = [(await memory.add(body, tags=[SECRET])).memory for body in BODIES]
    await memory.edit(added[0].id, Fact(key="password", value=f"2{SECRET}"))
    other = await memory.add(Fact(key="password", value="swordfish"))
    (pair,) = other.contradictions
    await memory.resolve(pair.id, Resolution.B_WINS, note=f"not {SECRET}")
    for each in added[1:]:
        await memory.forget(each.id, because=f"it is {SECRET}")

    assert SECRET.encode() in await asyncio.to_thread(_bytes_of, tmp_path)

    number = await carry_out(memory, store, [each.id for each in added])

    assert [(each["n"], each["objects"]) for each in await purge_records(store)] == [(number, 4)]
    assert SECRET.encode() not in await asyncio.to_thread(_bytes_of, tmp_path)
    assert [each.id for each in await memory.memories()] == [other.memory.id]
    fresh = LivingMemory(store, memory.principal)
    for served in (memory, fresh):
        found = await served.search(SECRET)
        assert SECRET not in (await served.assemble_context(2_000)).context
        assert [each.id for each, _ in found] in ([], [other.memory.id])
    for before in added:
        left = await memory.get(before.id)
        assert (left.id, left.type, left.valid_from) == (before.id, before.type, before.valid_from)
        assert left.valid_to is not None
        assert len(await memory.history(before.id)) > 1
        assert (await memory.plan_purge(before.id)).documents == {}
        with pytest.raises(Incorrect, match="was purged"):
            await memory.restore(before.id)
    exported = await memory.export_file(private=True)
    assert exported.memories == 1


async def test_a_purge_is_refused_for_what_is_still_needed(
    memory: LivingMemory, store: Store
) -> None:
    """What is not forgotten, what an open contradiction is about, and what is another user's."""
    bobs = LivingMemory(store, Principal(user_id="bob", project_id="shop"))
    shared = Visibility.PROJECT_SHARED
    one = (await memory.add(Fact(key="db", value="PostgreSQL 14"), visibility=shared)).memory
    other = await memory.add(Fact(key="db", value="PostgreSQL 15"), visibility=shared)
    (pair,) = other.contradictions

    with pytest.raises(Incorrect, match="is not forgotten"):
        await memory.plan_purge(one.id)
    await memory.forget(one.id)
    with pytest.raises(Incorrect, match=f"the contradiction {pair.id} about"):
        await memory.plan_purge(one.id)
    await memory.resolve(pair.id, Resolution.BOTH_VALID)
    with pytest.raises(Incorrect, match="a memory of ada"):
        await bobs.plan_purge(one.id)
    assert (await memory.plan_purge(one.id)).hashes
