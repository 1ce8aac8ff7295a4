"""Files that are stored when somebody names them."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ctxmgr.core.tracking.index_plan import IndexPlan
from ctxmgr.core.tracking.kept_files import KeptFiles

if TYPE_CHECKING:
    from ctxmgr.core.tracking.indexing import Indexing


class SlowIndexing:
    """Fails for one path, and stores others only when it may."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_store = asyncio.Event()
        self.read: list[str] = []
        self.stored: list[int] = []

    async def plan_read(self, path: str) -> IndexPlan:
        self.read.append(path)
        self.began.set()
        if path == "/bad":
            raise OSError("cannot be read")
        return IndexPlan.empty()

    async def apply(self, plan: IndexPlan) -> Any:
        await self.may_store.wait()
        self.stored.append(len(self.read))


async def test_a_change_that_is_named_while_the_file_is_stored_is_stored_again() -> None:
    """Otherwise the version before it would be taken for the last one."""
    indexing = SlowIndexing()
    async with KeptFiles(cast("Indexing", indexing)) as kept:
        kept.add([Path("/x")])
        await indexing.began.wait()
        kept.add([Path("/x")])
        indexing.may_store.set()

    assert indexing.read == ["/x", "/x"]


async def test_a_file_that_cannot_be_read_keeps_no_other_from_being_stored() -> None:
    """Nor does it end the task, whatever the error."""
    indexing = SlowIndexing()
    indexing.may_store.set()
    async with KeptFiles(cast("Indexing", indexing)) as kept:
        kept.add([Path("/bad"), Path("/x")])
        await kept.stored()
        kept.add([Path("/y")])

    assert indexing.read == ["/bad", "/x", "/y"]
    assert indexing.stored == [2, 3]
