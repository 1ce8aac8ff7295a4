"""SQLite passes the store contract, in a file and in memory (with a single handle)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.stores.sqlite.store import SqliteStore
from tests.contracts.namespace import Namespace
from tests.contracts.store_contract import (
    ReopenedStoreContract,
    SharedStoreContract,
    StoreContract,
)
from tests.contracts.store_rewrite import RewriteContract
from tests.contracts.store_two_clients import Reopen


class TestSqliteFile(StoreContract, SharedStoreContract, ReopenedStoreContract, RewriteContract):
    crowd = 1_500

    @pytest.fixture
    async def store(self, tmp_path: Path, namespace: Namespace) -> AsyncIterator[SqliteStore]:
        async with await SqliteStore.open(tmp_path / "store.db", kinds=namespace.kinds) as store:
            yield store

    @pytest.fixture
    async def another_store(
        self, tmp_path: Path, namespace: Namespace, store: SqliteStore
    ) -> AsyncIterator[SqliteStore]:
        async with await SqliteStore.open(tmp_path / "store.db", kinds=namespace.kinds) as another:
            yield another

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        return lambda kinds: SqliteStore.open(tmp_path / "store.db", kinds=kinds)


class TestSqliteMemory(StoreContract):
    @pytest.fixture
    async def store(self, namespace: Namespace) -> AsyncIterator[SqliteStore]:
        async with await SqliteStore.open(":memory:", kinds=namespace.kinds) as store:
            yield store
