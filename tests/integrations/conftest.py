"""Stores of both technologies for the integrations, and names that no other test uses.

The XTDB server is shared by all tests, so sessions, scopes and threads get unique names.
"""

import uuid
from collections.abc import AsyncIterator

import pytest

from ctxmgr import Store, connect, open_store
from ctxmgr.core.client.client import Client
from ctxmgr.integrations.document_kinds import KINDS


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """A store with the document kinds of all integrations."""
    async with await open_store(store_url, kinds=KINDS) as store:
        yield store


@pytest.fixture
async def client(store_url: str) -> AsyncIterator[Client]:
    async with connect(store_url, tracking=False) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A unique name for a session, scope, thread or namespace."""
    return f"n-{uuid.uuid4().hex[:12]}"
