"""Harness processes of a journey: run to the end or killed while they work."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from tests.components import ROOT

SCRIPT: Final = Path(__file__).with_name("harness_process.py")


async def ask(mode: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run a harness to the end; return what it saw."""
    process = await start(mode, job)
    output, _ = await process.communicate()
    assert process.returncode == 0
    seen: dict[str, Any] = json.loads(output)
    return seen


async def start(mode: str, job: dict[str, Any]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), mode, json.dumps(job)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def work_and_be_killed(job: dict[str, Any], *, after: int | None) -> tuple[int, list[str]]:
    """Let a harness work until it has printed this many lines, then kill it; None: let it finish.

    Returns its exit code and every step acknowledged to it, up to the kill.
    """
    process = await start("work", job)
    assert process.stdout is not None
    lines: list[bytes] = []
    while line := await process.stdout.readline():
        lines.append(line)
        if len(lines) == after:
            process.kill()
    code = await process.wait()
    acknowledged = [line.decode().strip() for line in lines if line.startswith(b"<")]
    return code, [line.removeprefix("< ") for line in acknowledged]
