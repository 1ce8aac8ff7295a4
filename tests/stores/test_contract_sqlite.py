"""SQLite keeps the promises of every store: in a file, and in memory, where one handle is all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.stores.sqlite import SqliteStore
from tests.contracts.contract_sharing import Reopen
from tests.contracts.corner import Corner
from tests.contracts.store_contract import (
    ReopenedStoreContract,
    SharedStoreContract,
    StoreContract,
)


class TestSqliteFile(StoreContract, SharedStoreContract, ReopenedStoreContract):
    crowd = 1_500

    @pytest.fixture
    async def store(self, tmp_path: Path, corner: Corner) -> AsyncIterator[SqliteStore]:
        async with await SqliteStore.open(tmp_path / "store.db", kinds=corner.kinds) as store:
            yield store

    @pytest.fixture
    async def another_store(
        self, tmp_path: Path, corner: Corner, store: SqliteStore
    ) -> AsyncIterator[SqliteStore]:
        async with await SqliteStore.open(tmp_path / "store.db", kinds=corner.kinds) as another:
            yield another

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        return lambda kinds: SqliteStore.open(tmp_path / "store.db", kinds=kinds)


class TestSqliteMemory(StoreContract):
    @pytest.fixture
    async def store(self, corner: Corner) -> AsyncIterator[SqliteStore]:
        async with await SqliteStore.open(":memory:", kinds=corner.kinds) as store:
            yield store
