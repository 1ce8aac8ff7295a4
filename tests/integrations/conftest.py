"""A store for the shims, which declares what each of them is found by."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr import Store, open_store
from ctxmgr.integrations.kinds import KINDS


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path}/shims.db", kinds=KINDS) as store:
        yield store
