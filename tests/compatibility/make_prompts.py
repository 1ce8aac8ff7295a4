"""Record prompts of the current renderers: `python -m tests.compatibility.make_prompts`.

Each bundle has one session, named after the renderer whose prompts it recorded. Add a bundle when a
renderer gets a new number, and never replace one: the old number must go on proving its prompts. If
`test_recorded_prompts` fails after a change of what is rendered, the change needs a new number.
"""

import asyncio
import re
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

import ctxmgr
from ctxmgr.core.client import live_session
from ctxmgr.core.economy import planner, stream
from ctxmgr.core.economy.policy import Economy
from tests.core.builders.clients import with_clock
from tests.core.client.test_compactions import turn
from tests.core.client.test_resumed_economy import Clock, work

PROMPTS: Final = Path(__file__).parent / "fixtures" / "prompts"
TURNS: Final = 30
SECRET: Final = "ghp_" + "a1B2c3D4e5F6" * 3
DIGEST: Final = re.compile(r"^(?:user: )?\[#\d+ (?:bash|read) .*\]$", re.MULTILINE)


async def economy(folder: Path) -> None:
    """Record digests, folds, holes, references and masks."""
    clock, dice = Clock(), Random(1)
    async with ctxmgr.connect(
        f"sqlite:///{folder}/e.db", tracking=False, directory=str(folder)
    ) as opened:
        client = with_clock(opened, clock)
        policy = Economy(model="gpt-4o")
        session = await client.start("economy-2", system_prompt="Be careful.", policy=policy)
        digests = 0
        for number in range(1, TURNS + 1):
            clock.now += 400 if number % 5 == 0 else 30
            prompt = await session.render(f"Question {number}: my token is {SECRET}.")
            digests += bool(DIGEST.search(prompt))
            await work(session, dice)
        assert digests > TURNS // 3
        await client.pause("economy-2")
        await client.export_session("economy-2", path=PROMPTS / "economy-2.bundle")


async def compaction(folder: Path) -> None:
    """Record prompts that begin with a summary."""
    policy = Economy(window_tokens=4_000)
    name = "economy-2+compaction"
    async with ctxmgr.connect(f"sqlite:///{folder}/c.db", tracking=False, policy=policy) as client:
        session = await client.start("s-compaction", system_prompt="Be careful.")
        prompts = [await turn(session) for _ in range(TURNS)]
        assert "are summarised here" in prompts[-1]
        await client.pause("s-compaction")
        await client.export_session("s-compaction", path=PROMPTS / f"{name}.bundle")


async def compact(folder: Path, renderer: str) -> None:
    """Record masked prompts of the compact form."""
    name = renderer.replace("/", "-")
    with patch.object(live_session, "COMPACT_RENDERER", renderer):
        async with ctxmgr.connect(
            f"sqlite:///{folder}/{name}.db", tracking=False, policy="compact"
        ) as client:
            session = await client.start(name, system_prompt="Be careful.")
            for number in range(1, 9):
                await session.render(f"Question {number}: my token is {SECRET}.")
                await work(session, Random(number))
            await client.pause(name)
            await client.export_session(name, path=PROMPTS / f"{name}.bundle")


async def record() -> None:
    """Write the bundles."""
    PROMPTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work_folder, ExitStack() as patches:
        for module in (planner, stream):
            patches.enter_context(patch.object(module, "DIGEST_AGE", 6))
        patches.enter_context(patch.object(planner, "DIGEST_CALLS_MIN", 8))
        patches.enter_context(patch.object(planner, "DIGEST_EVERY", 2))
        folder = Path(work_folder)
        await economy(folder)
        await compaction(folder)
        for renderer in ("compact/2", "compact/3"):
            await compact(folder, renderer)


if __name__ == "__main__":
    asyncio.run(record())
