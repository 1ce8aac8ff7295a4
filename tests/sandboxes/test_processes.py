"""One program under a time limit, where the sandbox around it is of no help."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes import processes
from ctxmgr.sandboxes.processes import kill, kill_group, run_program
from tests.contracts.sandbox_steps import SECONDS, pids, until, words


async def test_a_pipe_that_somebody_else_holds_is_let_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process out of reach may not keep the client waiting for its output."""
    monkeypatch.setattr(processes, "END_SECONDS", 0.1)
    script = f"setsid sleep 60 & echo $! >{tmp_path}/pid; echo said; wait"

    ran = await run_program(
        ("sh", "-c", script), timeout_s=1, output_bytes=100, end=kill, env=dict(os.environ)
    )

    os.kill(int((tmp_path / "pid").read_text(encoding="ascii")), signal.SIGKILL)
    assert (ran.timed_out, ran.exit_code, ran.text) == (True, 137, "said\n")


async def test_a_program_that_is_not_there_is_unavailable() -> None:
    """It is the sandbox's own program that is missing, not the agent's."""
    with pytest.raises(Unavailable, match="no-such-program"):
        await run_program(("no-such-program",), timeout_s=1, output_bytes=1, end=kill)


@pytest.mark.parametrize("steps", range(6))
async def test_whenever_it_is_cancelled_nothing_is_left(steps: int) -> None:
    """Also before it has started, and when the caller is in a hurry and cancels twice."""
    mark = f"96{os.getpid()}{int.from_bytes(os.urandom(3), 'big')}"
    work = run_program(
        ("sleep", mark), timeout_s=SECONDS, output_bytes=1, end=kill_group, stdin=b""
    )
    task = asyncio.create_task(work)
    for _ in range(steps):
        await asyncio.sleep(0)

    task.cancel()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(mark in words(pid) for pid in pids()))
