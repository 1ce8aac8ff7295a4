"""Several MCP servers and a harness, each with its own process or client, on one SQLite file."""

import asyncio
from pathlib import Path

import ctxmgr
from tests.surfaces.mcp.clients import stdio, value

EACH = 8


async def test_three_servers_and_a_harness_share_one_file(tmp_path: Path, sid: str) -> None:
    """No change is lost, whatever the order; clients need not know of each other."""
    url = f"sqlite:///{tmp_path}/shared.db"
    async with ctxmgr.connect(url, tracking=False) as harness:
        session = await harness.start(sid, system_prompt="")
        ids = [f"call-{server}-{n}" for server in range(3) for n in range(EACH)]
        for object_id in ids:
            await session.record(object_id, tool="t", args={}, output=f"{object_id}\n")

        async def agent(server: int) -> None:
            async with stdio(url, "--session", sid) as client:
                for n in range(EACH):
                    result = await value(client, "pin", object_id=f"call-{server}-{n}")
                    assert result["pinned"] is True

        async def work() -> None:
            for n in range(EACH):
                await session.record(f"late-{n}", tool="t", args={}, output="late\n")

        await asyncio.gather(*(agent(server) for server in range(3)), work())
        stored = await harness.stored_sets(sid)

    assert set(stored.pinned_set) == set(ids)
    assert {f"late-{n}" for n in range(EACH)} <= set(stored.active_set)
