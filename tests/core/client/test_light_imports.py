"""What a program that resumes a plain session has to import."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
import ctxmgr

async def main(url):
    async with ctxmgr.connect(url, tracking=False) as client:
        live = await client.start("s1", system_prompt="Be careful.")
        await live.render("hello")
        await live.end_turn("hello")

asyncio.run(main(sys.argv[1]))
print(*sorted(sys.modules))
"""

NOT_NEEDED = {
    "pydantic",
    "splintr",
    "importlib.resources",
    "ctxmgr.core.client.live_economy",
    "ctxmgr.core.client.tracker_loop",
    "ctxmgr.core.discovery.discover",
    "ctxmgr.core.economy.stream",
    "ctxmgr.core.events.derive",
    "ctxmgr.core.history.as_of",
    "ctxmgr.core.model",
    "ctxmgr.core.secrets.known_forms",
    "ctxmgr.core.sessions.bundle_io",
}


def test_a_plain_session_loads_only_what_it_uses(tmp_path: Path) -> None:
    """A short command spends most of its time importing, and people wait for it."""
    url = f"sqlite:///{tmp_path}/s.db"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, check=True
    )

    assert not NOT_NEEDED & set(run.stdout.split())
