"""Two stores that share no code give the same answers to random histories."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from ctxmgr.bench.stores.agreement import disagreements
from ctxmgr.bench.stores.histories import HISTORY_KIND, random_history
from ctxmgr.core.store.contract import Store
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.components import LONG

HISTORIES: Final = 2_000 if LONG else 60
AT_ONCE: Final = 8
"""Histories in flight: as many as a client has connections."""
KINDS: Final = {HISTORY_KIND.name: HISTORY_KIND}


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Store]:
    path = tmp_path / "store.db"
    async with await SqliteStore.open(path, kinds=KINDS, durability="normal") as store:
        yield store


@pytest.fixture
async def remote(xtdb_url: str) -> AsyncIterator[Store]:
    async with await XtdbStore.open(xtdb_url, kinds=KINDS) as store:
        yield store


async def test_sqlite_agrees_with_itself_and_with_the_rules(
    embedded: Store, tmp_path: Path
) -> None:
    """The rules are implemented a second time, as simply as possible, for comparison (003-A26)."""
    async with await SqliteStore.open(":memory:", kinds=KINDS) as other:
        assert await _differences(embedded, other, range(1_000, 1_040)) == []


@pytest.mark.xtdb
@pytest.mark.timeout(3_600 if LONG else 300)
async def test_random_histories_get_the_same_answers_from_both_stores(
    embedded: Store, remote: Store
) -> None:
    """Moving data from one store to the other must not change its meaning (003-R016, 003-A26)."""
    assert await _differences(embedded, remote, range(HISTORIES)) == []


async def _differences(one: Store, other: Store, seeds: range) -> list[str]:
    """Return descriptions of the first few differences."""
    mark = uuid.uuid4().hex[:12]
    gate = asyncio.Semaphore(AT_ONCE)

    async def compare(seed: int) -> list[str]:
        async with gate:
            return await disagreements(one, other, random_history(seed, mark=f"{mark}-{seed}"))

    differences = [
        value for several in await asyncio.gather(*map(compare, seeds)) for value in several
    ]
    for difference in differences[:5]:
        print(difference)  # noqa: T201 - shown if the test fails
    return [difference.splitlines()[0] for difference in differences[:20]]
