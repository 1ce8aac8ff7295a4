"""One program under a time limit, without help from a sandbox."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes import processes
from ctxmgr.sandboxes.processes import kill, kill_group, run_program
from tests.contracts.sandbox_steps import SECONDS, pids, until, words


async def test_a_pipe_held_by_another_process_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that cannot be killed must not keep the client waiting."""
    monkeypatch.setattr(processes, "END_SECONDS", 0.1)
    script = f"setsid sleep 60 & echo $! >{tmp_path}/pid; echo hello; wait"

    ran = await run_program(
        ("sh", "-c", script), timeout_s=5, output_bytes=100, end=kill, env=dict(os.environ)
    )

    os.kill(int((tmp_path / "pid").read_text(encoding="ascii")), signal.SIGKILL)
    assert (ran.timed_out, ran.exit_code, ran.text) == (True, 137, "hello\n")


async def test_a_missing_program_is_unavailable() -> None:
    """The sandbox's program is missing, not the agent's."""
    with pytest.raises(Unavailable, match="no-such-program"):
        await run_program(("no-such-program",), timeout_s=1, output_bytes=1, end=kill)


@pytest.mark.parametrize("steps", range(6))
async def test_a_cancellation_at_any_time_leaves_no_process(steps: int) -> None:
    """Also before the start, and if the caller cancels twice."""
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
