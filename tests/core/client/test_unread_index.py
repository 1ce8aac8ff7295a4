"""A session whose index is read in the background, after its first prompt."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.objects.envelope import session_object_id
from ctxmgr.core.store.contract import Store, Version
from ctxmgr.errors import HashMismatch, Unavailable


class Forging:
    """A real store that returns sessions with a forged index."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.forges = False
        self.wholly_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_many(self, ids: Iterable[str], **asked: Any) -> dict[str, Version]:
        found = await self._store.get_many(ids, **asked)
        for version in found.values():
            if "session_index" in version.document:
                self.wholly_read += 1
                if self.forges:
                    version.document["session_index"].append("forged")
        return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Forging]:
    async with await ctxmgr.open_store(f"sqlite:///{tmp_path}/s.db") as real:
        async with ctxmgr.connect(store=real, tracking=False) as client:
            session = await client.start("s1", system_prompt="")
            await session.record("c1", tool="t", args={}, output="one")
            await session.end_turn("done", user="begin")
        yield Forging(real)


def connected(store: Forging) -> Any:
    return ctxmgr.connect(store=store, tracking=False)  # type: ignore[arg-type]


async def index_of(client: Client) -> list[str]:
    return list((await client.stored_sets("s1")).session_index)


async def test_a_first_prompt_needs_no_index(store: Forging) -> None:
    """Reading and verifying a hundred thousand ids takes longer than the prompt (003-R116)."""
    async with connected(store) as client:
        session = await client.resume("s1", eager=False)
        prompt = await session.render("next")

        assert "one" in prompt
        assert store.wholly_read == 0


async def test_an_unread_index_is_not_an_empty_one(store: Forging) -> None:
    """Reading it too early raises; the sets that are shown are available at once."""
    async with connected(store) as client:
        session = await client.resume("s1", eager=False)

        assert "c1" in session.sets.session_index
        assert client.reconciliation("s1").total is None
        with pytest.raises(Unavailable, match="still being read"):
            len(session.sets.session_index)


async def test_the_index_is_available_once_background_work_is_done(store: Forging) -> None:
    """Background reads can be awaited, and then nothing is missing (003-R114)."""
    async with connected(store) as client:
        session = await client.resume("s1", eager=False)

        await client.reconciliation("s1").wait()

        assert list(session.sets.session_index) == ["c1"]
        assert client.reconciliation("s1").total == client.reconciliation("s1").seen == 1


async def test_the_first_change_waits_for_the_index(store: Forging) -> None:
    """The index only grows; a save without it would lose entries (003-R090)."""
    async with connected(store) as client:
        session = await client.resume("s1", eager=False)
        await session.record("c2", tool="t", args={}, output="two")

        assert list(session.sets.session_index) == ["c1", "c2"]
        assert await index_of(client) == ["c1", "c2"]


async def test_nothing_is_saved_if_the_index_fails_verification(store: Forging) -> None:
    """An index that was not needed for the prompt is verified before anything is written."""
    async with connected(store) as client:
        session = await client.resume("s1", eager=False)
        await session.render("next")
        store.forges = True

        with pytest.raises(HashMismatch):
            await session.end_turn("answered")
        with pytest.raises(HashMismatch):
            await client.reconciliation("s1").wait()

        entries = (await store.history(session_object_id("s1"))).entries
        assert "forged" not in str([entry.document for entry in entries])


async def test_objects_indexed_by_another_client_meanwhile_are_kept(store: Forging) -> None:
    """Two clients on one session are merged, even while one is still reading."""
    async with connected(store) as ours, connected(store) as theirs:
        session = await ours.resume("s1", eager=False)
        other = await theirs.resume("s1")
        await other.record("c2", tool="t", args={}, output="two")

        await session.record("c3", tool="t", args={}, output="three")

        assert await index_of(ours) == ["c1", "c2", "c3"]
