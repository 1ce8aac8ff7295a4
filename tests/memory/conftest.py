"""A store with the kinds of living memory, and two users of two projects."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from ctxmgr import KINDS, Store, open_store
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS

ADA = Principal(user_id="ada", project_id="shop")
START = 1_700_000_000_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(f"sqlite:///{tmp_path}/s.db", kinds={**KINDS, **MEMORY_KINDS})
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def memory(store: Store) -> LivingMemory:
    """Ada's memory in the shop project; each reading of its clock is a second later."""
    return LivingMemory(store, ADA, now=count(START, 1_000).__next__)
