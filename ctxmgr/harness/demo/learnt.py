"""The demo's memory: what its session taught, and what the next session's prompt shows of it.

Reads and writes the demo's store, as a user of its own: nobody else's memory changes.
"""

from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final
from uuid import uuid4

from ctxmgr import connect, open_store
from ctxmgr.core.store.contract import Store
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS

LATER: Final = "Totals of receipts are a cent off again. Why could that be?"


def demo_user() -> Principal | None:
    """Return a user of the demo alone; None without the extra that memory needs."""
    if any(find_spec(name) is None for name in ("numpy", "snowballstemmer")):
        return None
    return Principal(user_id=f"demo-{uuid4().hex[:8]}", project_id="tally")


async def what_it_learnt(
    url: str, user: Principal, *, session: str
) -> tuple[Mapping[str, str], ...]:
    """Return what a session taught, and what the prompt of a new one shows."""
    async with await open_store(url, kinds=MEMORY_KINDS) as store:
        taught = await _taught(store, user)
        async with connect(store=store, memory=user, tracking=False) as client:
            later = await client.start(f"{session}-later", system_prompt="You fix scripts.")
            prompt = str(await later.render(LATER))
            await client.pause(later.session_id)
    shown = [line[2:] for line in prompt.splitlines() if line.startswith("- ")]
    fix = next((line for line in shown if " failed: " in line), "nothing")
    return (
        {"asked": "What did the session teach, without a model?", "answer": taught},
        {"asked": "What does a new session's prompt show?", "answer": fix},
    )


async def _taught(store: Store, user: Principal) -> str:
    memories = await LivingMemory(store, user).memories()
    counts = Counter(
        "error fix" if memory.kind == "error_fix" else str(memory.type) for memory in memories
    )
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "nothing"
