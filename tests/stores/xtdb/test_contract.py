"""XTDB passes the store contract. One server in memory serves all tests."""

from collections.abc import AsyncIterator

import pytest

from ctxmgr.stores.xtdb.store import XtdbStore
from tests.contracts.namespace import Namespace
from tests.contracts.store_contract import (
    ReopenedStoreContract,
    SharedStoreContract,
    StoreContract,
)
from tests.contracts.store_rewrite import RewriteContract
from tests.contracts.store_two_clients import Reopen
from tests.xtdb import own_server
from tests.xtdb.servers import PATIENCE_S

xtdb_url = own_server.xtdb_url  # it writes more than all others together


@pytest.mark.xtdb
class TestXtdb(StoreContract, SharedStoreContract, ReopenedStoreContract, RewriteContract):
    @pytest.fixture
    async def store(self, xtdb_url: str, namespace: Namespace) -> AsyncIterator[XtdbStore]:
        async with await XtdbStore.open(
            xtdb_url, kinds=namespace.kinds, timeout_s=PATIENCE_S
        ) as store:
            yield store

    @pytest.fixture
    async def another_store(self, xtdb_url: str, namespace: Namespace) -> AsyncIterator[XtdbStore]:
        async with await XtdbStore.open(
            xtdb_url, kinds=namespace.kinds, timeout_s=PATIENCE_S
        ) as another:
            yield another

    @pytest.fixture
    def reopen(self, xtdb_url: str) -> Reopen:
        return lambda kinds: XtdbStore.open(xtdb_url, kinds=kinds, timeout_s=PATIENCE_S)
