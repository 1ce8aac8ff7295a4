"""Two stores are asked the same questions about random histories. Commits."""

import asyncio
import uuid
from typing import Final

from ctxmgr.bench.stores.agreement import disagreements
from ctxmgr.bench.stores.histories import HISTORY_KIND, random_history
from ctxmgr.core.store.contract import Store

HISTORY_KINDS: Final = {HISTORY_KIND.name: HISTORY_KIND}
AT_ONCE: Final = 8
"""Histories in flight: as many as a client has connections."""


async def differences(one: Store, other: Store, seeds: range) -> list[str]:
    """Return descriptions of the first few differences."""
    mark = uuid.uuid4().hex[:12]
    gate = asyncio.Semaphore(AT_ONCE)

    async def compare(seed: int) -> list[str]:
        async with gate:
            return await disagreements(one, other, random_history(seed, mark=f"{mark}-{seed}"))

    found = [value for several in await asyncio.gather(*map(compare, seeds)) for value in several]
    for difference in found[:5]:
        print(difference)  # noqa: T201 - shown if the test fails
    return [difference.splitlines()[0] for difference in found[:20]]
