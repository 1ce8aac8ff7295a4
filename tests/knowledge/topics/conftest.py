"""A store for the log and the firings of topics."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr import Store, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await open_store(f"sqlite:///{tmp_path}/store.db")
    try:
        yield store
    finally:
        await store.close()
