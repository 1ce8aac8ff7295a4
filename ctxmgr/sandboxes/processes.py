"""One program, run to its end under a time limit, its output bounded. Starts processes.

    start ─► feed and drain ─► it ended ───────────────────────┐
                    │                                          ├─► no process, no pipe left
                    └── time is up, or the caller cancelled ─► end it

How a program is ended is its sandbox's business (``End``): killing what we started may leave what
it started. A second cancellation waits until that is done.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from ctxmgr.core.sandbox import Ran
from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.output import BoundedOutput

CHUNK_BYTES: Final = 64 * 1024
"""A pipe's buffer on Linux: more is never there at once."""

END_SECONDS: Final = 10
"""How long a killed program's pipes may stay open: the kernel needs milliseconds, and longer only
on a machine that swaps."""

End: TypeAlias = Callable[[Process], Awaitable[None]]


async def run_program(
    argv: Sequence[str | bytes],
    *,
    timeout_s: float,
    output_bytes: int,
    end: End,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Ran:
    """Run a program; ``Unavailable`` if it cannot be started. ``env`` None: as ours."""
    process = await _start(argv, end=end, has_input=stdin is not None, env=env, pass_fds=pass_fds)
    output = BoundedOutput(output_bytes)
    timed_out = False
    talking = asyncio.ensure_future(_talk(process, output, stdin))
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.shield(talking)
    except TimeoutError:
        timed_out = True
    finally:
        await _undisturbed(_finish(process, talking, end))
    assert process.returncode is not None, "it was waited for"
    return Ran(
        exit_code=exit_code(process.returncode),
        output=output.kept(),
        output_bytes=output.total,
        truncated=output.truncated,
        timed_out=timed_out,
    )


async def kill(process: Process) -> None:
    """End a program that takes all it started with it."""
    with suppress(ProcessLookupError):
        process.kill()


async def kill_group(process: Process) -> None:
    """Kill the program and whatever stayed in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def exit_code(status: int) -> int:
    """Say the end of a process as shells do."""
    return status if status >= 0 else 128 - status


async def _start(
    argv: Sequence[str | bytes],
    *,
    end: End,
    has_input: bool,
    env: Mapping[str, str] | None,
    pass_fds: Sequence[int],
) -> Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=PIPE if has_input else DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=env,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _undisturbed(_abandon(starting, end))
        raise
    except (OSError, ValueError) as error:
        raise Unavailable(f"{argv[0]!r} cannot be started: {error}") from error


async def _abandon(starting: asyncio.Future[Process], end: End) -> None:
    with suppress(OSError, ValueError):
        process = await starting
        talking = asyncio.ensure_future(_talk(process, BoundedOutput(1), None))
        await _finish(process, talking, end)


async def _talk(process: Process, output: BoundedOutput, stdin: bytes | None) -> None:
    async with asyncio.TaskGroup() as group:
        if process.stdin is not None:
            group.create_task(_feed(process.stdin, stdin or b""))
        assert process.stdout is not None, "started with a pipe"
        while data := await process.stdout.read(CHUNK_BYTES):
            output.add(data)
    await process.wait()


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it may end without reading
        pipe.write(data)
        await pipe.drain()
    pipe.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await pipe.wait_closed()


async def _finish(process: Process, talking: asyncio.Future[None], end: End) -> None:
    if not talking.done():
        await end(process)
    done, _ = await asyncio.wait([talking], timeout=END_SECONDS)
    if done:
        await talking
        return
    # Somebody out of reach holds the pipe: what we started is killed, and its output let go.
    talking.cancel()
    await asyncio.wait([talking])
    await kill_group(process)
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined] # noqa: SLF001 (there is no other way)


async def _undisturbed(work: Coroutine[Any, Any, None]) -> None:
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    await task
    if cancelled:
        raise asyncio.CancelledError
