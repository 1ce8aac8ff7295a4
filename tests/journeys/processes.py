"""Harness processes of a journey: asked for what they see, or killed while they work."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from tests.components import ROOT

SCRIPT: Final = Path(__file__).with_name("harness_process.py")


async def ask(mode: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run a harness to its end; return what it saw."""
    process = await start(mode, job)
    told, _ = await process.communicate()
    assert process.returncode == 0
    seen: dict[str, Any] = json.loads(told)
    return seen


async def start(mode: str, job: dict[str, Any]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), mode, json.dumps(job)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def work_and_be_killed(job: dict[str, Any], *, after: int | None) -> tuple[int, list[str]]:
    """Let a harness work until it has said so many lines, then kill it; None: let it end.

    Returns its exit code and what was acknowledged to it, also in its last moment.
    """
    process = await start("work", job)
    assert process.stdout is not None
    said: list[bytes] = []
    while line := await process.stdout.readline():
        said.append(line)
        if len(said) == after:
            process.kill()
    code = await process.wait()
    acknowledged = [line.decode().strip() for line in said if line.startswith(b"<")]
    return code, [line.removeprefix("< ") for line in acknowledged]
