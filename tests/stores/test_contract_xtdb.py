"""XTDB keeps the promises of every store. One server in memory serves all tests."""

from collections.abc import AsyncIterator

import pytest

from ctxmgr.stores.xtdb import XtdbStore
from tests.contracts.contract_sharing import Reopen
from tests.contracts.corner import Corner
from tests.contracts.store_contract import (
    ReopenedStoreContract,
    SharedStoreContract,
    StoreContract,
)


@pytest.mark.xtdb
class TestXtdb(StoreContract, SharedStoreContract, ReopenedStoreContract):
    @pytest.fixture
    async def store(self, xtdb_url: str, corner: Corner) -> AsyncIterator[XtdbStore]:
        async with await XtdbStore.open(xtdb_url, kinds=corner.kinds) as store:
            yield store

    @pytest.fixture
    async def another_store(self, xtdb_url: str, corner: Corner) -> AsyncIterator[XtdbStore]:
        async with await XtdbStore.open(xtdb_url, kinds=corner.kinds) as another:
            yield another

    @pytest.fixture
    def reopen(self, xtdb_url: str) -> Reopen:
        return lambda kinds: XtdbStore.open(xtdb_url, kinds=kinds)
