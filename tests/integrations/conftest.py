"""Stores for the shims, of either technology, and names that no other test uses.

The XTDB server is shared by all tests, so whatever a framework lets us name is named anew.
"""

import uuid
from collections.abc import AsyncIterator

import pytest

from ctxmgr import Store, connect, open_store
from ctxmgr.core.client import Client
from ctxmgr.integrations.kinds import KINDS


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """A store that declares what each shim finds by."""
    async with await open_store(store_url, kinds=KINDS) as store:
        yield store


@pytest.fixture
async def client(store_url: str) -> AsyncIterator[Client]:
    async with connect(store_url, tracking=False) as client:
        yield client


@pytest.fixture
def name() -> str:
    """Of a session, a scope, a thread or a namespace."""
    return f"n-{uuid.uuid4().hex[:12]}"
