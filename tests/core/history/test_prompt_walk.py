"""Prompts rebuilt incrementally, compared with the same prompts rebuilt one by one."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.context.assembly import Block, Context
from ctxmgr.core.context.tokens import vocabulary
from ctxmgr.core.history.as_of import prompt_as_of
from ctxmgr.core.history.cache_breaks import CallCost, call_costs
from ctxmgr.core.history.reading import read_chat, read_prompts
from ctxmgr.core.store.contract import Delete, Put, Store
from ctxmgr.errors import Corrupt, NotFound
from tests.core.builders.random_sessions import Volatile, Worker, steps

JOINT_TOKENS: Final = 1
"""How far counts may differ where two paragraphs meet (docs/tokens.md)."""

COUNT: Final = vocabulary("gpt-4o").count


def _common(one: str, two: str) -> str:
    """Return the common beginning of two texts, character by character."""
    pairs = enumerate(zip(one, two, strict=False))
    return one[: next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))]


def _block_at(context: Context, position: int) -> Block | None:
    """Return the block at a character; text before a block belongs to it."""
    text, at = context.text(), 0
    for block in context.blocks():
        at = text.index(block.text, at) + len(block.text)
        if position < at:
            return block
    return None


def _keys(context: Context) -> set[tuple[str, str | None]]:
    return {(str(block.section), block.object_id) for block in context.blocks()}


Difference: TypeAlias = tuple[str, int | None, str | None, str | None]
"""Change, first byte, section, object; the object is omitted for a conversation."""


def _text_difference(before: Context, now: Context) -> Difference:
    """Return how two prompts differ, computed from their texts only."""
    kept = _common(before.text(), now.text())
    if kept == before.text():
        return "appended", None, None, None
    old, new = _block_at(before, len(kept)), _block_at(now, len(kept))
    assert old is not None
    change = _change(before, now, old, new)
    reported = new if new is not None and change != "removed" else old
    return (
        change,
        len(kept.encode()),
        str(reported.section),
        _object(reported.section, reported.object_id),
    )


def _change(before: Context, now: Context, old: Block, new: Block | None) -> str:
    if new is None:
        return "removed"
    one, other = (old.section, old.object_id), (new.section, new.object_id)
    if one == other:
        return "changed"
    if other not in _keys(before):
        return "new"
    return "moved" if one in _keys(now) else "removed"


def _object(section: str | None, object_id: str | None) -> str | None:
    return None if section == "chat" else object_id


async def _rebuilt_alone(store: Store, session_id: str, turns: int) -> list[Context]:
    return [await prompt_as_of(store, session_id, turn=n) for n in range(1, turns + 1)]


async def _costs(store: Store, session_id: str, *, first: int = 1) -> list[CallCost]:
    chat = await read_chat(store, session_id)
    read = await read_prompts(store, chat, first=first, last=chat.turn_count)
    made = ((record.n, prompt) for record, prompt in read.prompts(count=COUNT))
    return list(call_costs(made, count=COUNT))


def _agree(counted: int, text: str) -> bool:
    """Whether a sum over blocks equals the count of the whole text, up to paragraph joints."""
    return abs(counted - COUNT(text)) <= JOINT_TOKENS * (1 + text.count("\n\n"))


async def _compare(store: Store, session_id: str) -> None:
    costs = await _costs(store, session_id)
    rebuilt = await _rebuilt_alone(store, session_id, len(costs))
    for cost, context in zip(costs, rebuilt, strict=True):
        assert _agree(cost.prompt_tokens, context.text())
    for cost, (before, now) in zip(costs[1:], pairwise(rebuilt), strict=True):
        reported = (
            cost.change,
            cost.first_byte,
            cost.section,
            _object(cost.section, cost.object_id),
        )
        assert reported == _text_difference(before, now)
        assert _agree(cost.cached_tokens, _common(before.text(), now.text()))


async def _work(done: list[tuple[str, int]], folder: Path) -> None:
    url = f"sqlite:///{folder}/s.db"
    async with ctxmgr.connect(url, tracking=False, contributors=[Volatile()]) as client:
        name = await Worker(client, folder).work(done)
        await _compare(client.store, name)
        last = (await read_chat(client.store, name)).turn_count
        assert (await _costs(client.store, name, first=last))[0].change == "first"
        await client.export_session(name, path=folder / "s.bundle")
        async with ctxmgr.connect(f"sqlite:///{folder}/other.db", tracking=False) as other:
            await other.store.commit([Put({"xt/id": "x", "type": "x"})])
            await other.import_session(folder / "s.bundle")
            assert await _costs(other.store, name) == await _costs(client.store, name)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_a_walk_rebuilds_every_prompt_as_it_was_sent(done: list[tuple[str, int]]) -> None:
    """In both layouts and mixed ones, with forks, resumes and deletions, local and imported."""
    with TemporaryDirectory() as folder:
        asyncio.run(_work(done, Path(folder)))


async def _worked(client: Client, folder: Path) -> str:
    done = [("plain", 1), ("write", 1), ("plain", 2), ("economy", 1), ("economy", 2)]
    return await Worker(client, folder).work(done)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        yield client


@pytest.mark.parametrize("field", ["active", "contributions", "policy"])
async def test_an_altered_record_fails_verification(
    client: Client, tmp_path: Path, field: str
) -> None:
    """A timeline of prompts that were never sent would be worse than none (003-R005)."""
    name = await _worked(client, tmp_path)
    number = 3 if field == "policy" else 2
    version = await client.store.get(f"turn:{name}:{number}")
    assert version is not None
    forged = {
        "active": [],
        "contributions": [{"slot": "stable", "name": "x", "text": "x"}],
        "policy": {**(version.document["policy"] or {}), "pool": ["id=x type=file\n"]},
    }
    await client.store.commit([Put({**version.document, field: forged[field]})])

    with pytest.raises(Corrupt):
        await _costs(client.store, name)


@pytest.mark.parametrize("lost", ["views", "notices", "masks", "pool"])
async def test_a_policy_with_a_missing_field_is_refused(
    client: Client, tmp_path: Path, lost: str
) -> None:
    """A missing field is an error, not a default."""
    name = await _worked(client, tmp_path)
    version = await client.store.get(f"turn:{name}:3")
    assert version is not None
    policy = {key: value for key, value in version.document["policy"].items() if key != lost}
    await client.store.commit([Put({**version.document, "policy": policy})])

    with pytest.raises(Corrupt, match="does not say how its prompt was made"):
        await _costs(client.store, name)


async def test_the_error_for_a_missing_record_names_the_turn(
    client: Client, tmp_path: Path
) -> None:
    """A gap must not look like a shorter session."""
    name = await _worked(client, tmp_path)
    await client.store.commit([Delete(f"turn:{name}:2")])

    with pytest.raises(NotFound, match=f"turn:{name}:2"):
        await _costs(client.store, name)
