"""Start a process of a benchmark, and kill it after a while. Starts processes."""

import asyncio
import sys
from asyncio.subprocess import PIPE


async def lines_until_killed(module: str, *arguments: str, seconds: float) -> list[bytes]:
    """Run a module, kill it so long after its first line, and return its complete lines."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), stdout=PIPE
    )
    assert child.stdout is not None
    first = await child.stdout.readline()
    await asyncio.sleep(seconds)
    child.kill()
    lines = (first + await child.stdout.read()).split(b"\n")
    await child.wait()
    return lines[:-1]
