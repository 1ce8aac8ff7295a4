"""Two stores that share no code give the same answers to random histories."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from ctxmgr.core.store.contract import Store
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.components import LONG
from tests.contracts.random_histories import HISTORY_KINDS, differences
from tests.xtdb import own_server

xtdb_url = own_server.xtdb_url  # thousands of transactions

HISTORIES: Final = 2_000 if LONG else 25


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Store]:
    path = tmp_path / "store.db"
    async with await SqliteStore.open(path, kinds=HISTORY_KINDS, durability="normal") as store:
        yield store


@pytest.fixture
async def remote(xtdb_url: str) -> AsyncIterator[Store]:
    async with await XtdbStore.open(xtdb_url, kinds=HISTORY_KINDS) as store:
        yield store


async def test_sqlite_agrees_with_itself_and_with_the_rules(
    embedded: Store, tmp_path: Path
) -> None:
    """The rules are implemented a second time, as simply as possible, for comparison (003-A26)."""
    async with await SqliteStore.open(":memory:", kinds=HISTORY_KINDS) as other:
        assert await differences(embedded, other, range(1_000, 1_040)) == []


@pytest.mark.xtdb
@pytest.mark.timeout(3_600 if LONG else 300)
async def test_random_histories_get_the_same_answers_from_both_stores(
    embedded: Store, remote: Store
) -> None:
    """Moving data from one store to the other must not change its meaning (003-R016, 003-A26)."""
    assert await differences(embedded, remote, range(HISTORIES)) == []
