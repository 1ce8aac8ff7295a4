"""Run a program with a time limit and bounded output. Starts processes.

    start ─► exchange input and output ─► it ended ──────┐
                    │                                    ├─► no process and no pipe is left
                    └── timed out, or cancelled ─► end it

The sandbox defines how a program is ended (``End``), because killing one process may leave its
children. A second cancellation waits until the program has ended.

Of a long output the first and the last half of the limit are kept. The rest is dropped and replaced
by a line that gives its length.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from ctxmgr.core.sandbox import Command, CommandResult
from ctxmgr.errors import Unavailable

MARKER: Final = "\n[… {} bytes of output left out …]\n"

CHUNK_BYTES: Final = 64 * 1024
"""The size of a pipe's buffer on Linux."""

END_SECONDS: Final = 10
"""How long the pipes of a killed program may stay open; it takes milliseconds unless the machine is
swapping."""

End: TypeAlias = Callable[[Process], Awaitable[None]]
"""Ends a program with all its children."""


class BoundedOutput:
    """Keeps ``bytes_max`` bytes of a command's output, besides the marker line."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max - bytes_max // 2
        self._tail_max = bytes_max // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0
        """Bytes added in total."""

    def add(self, data: bytes) -> None:
        """Add the next part of the output."""
        self.total += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room] if room else b""
        rest = data[room:]
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_max:
            self._tail_bytes -= len(self._tail.popleft())

    @property
    def truncated(self) -> bool:
        """Whether a part was dropped."""
        return self.total > self._head_max + self._tail_max

    def kept(self) -> bytes:
        """Return the output, with the marker line if a part was dropped."""
        tail = b"".join(self._tail)
        if not self.truncated:
            return bytes(self._head) + tail
        tail = tail[len(tail) - self._tail_max :]
        left_out = self.total - len(self._head) - len(tail)
        return bytes(self._head) + MARKER.format(left_out).encode() + tail


class RunningCommands:
    """The running commands of a sandbox, as tasks; after ``end_all`` none can be started."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[CommandResult]] = set()
        self._closed = False

    async def run(self, work: Coroutine[Any, Any, CommandResult]) -> CommandResult:
        """Run a command; cancelling the caller ends the command first."""
        if self._closed:
            work.close()
            raise Unavailable("the sandbox is closed")
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._closed and not (caller is not None and caller.cancelling() > 0):
                raise Unavailable("the sandbox was closed while the command ran") from None
            raise

    async def end_all(self) -> None:
        """End every running command, and wait until all have ended."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def shell_words(command: Command) -> tuple[str, ...]:
    """Return a command as a program and its arguments."""
    return ("bash", "-c", command) if isinstance(command, str) else tuple(command)


async def run_program(
    argv: Sequence[str | bytes],
    *,
    timeout_s: float,
    output_bytes: int,
    end: End,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    pass_fds: Sequence[int] = (),
) -> CommandResult:
    """Run a program; raise ``Unavailable`` if it cannot be started.

    Without ``env``, it gets this process's environment; without ``cwd``, its working directory.
    """
    process = await _start(
        argv, end=end, has_input=stdin is not None, env=env, cwd=cwd, pass_fds=pass_fds
    )
    output = BoundedOutput(output_bytes)
    timed_out = False
    exchange = asyncio.ensure_future(_exchange(process, output, stdin))
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.shield(exchange)
    except TimeoutError:
        timed_out = True
    finally:
        await _uninterrupted(_finish(process, exchange, end))
    assert process.returncode is not None, "the process has ended"
    return CommandResult(
        exit_code=exit_code(process.returncode),
        output=output.kept(),
        output_bytes=output.total,
        truncated=output.truncated,
        timed_out=timed_out,
    )


async def kill(process: Process) -> None:
    """Kill a program whose children end with it."""
    with suppress(ProcessLookupError):
        process.kill()


async def kill_group(process: Process) -> None:
    """Kill a program and the rest of its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def exit_code(status: int) -> int:
    """Return the exit code as a shell reports it."""
    return status if status >= 0 else 128 - status


async def _start(
    argv: Sequence[str | bytes],
    *,
    end: End,
    has_input: bool,
    env: Mapping[str, str] | None,
    cwd: str | None,
    pass_fds: Sequence[int],
) -> Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=PIPE if has_input else DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:

        async def abandon() -> None:
            with suppress(OSError, ValueError):
                process = await starting
                exchange = asyncio.ensure_future(_exchange(process, BoundedOutput(1), None))
                await _finish(process, exchange, end)

        await _uninterrupted(abandon())
        raise
    except (OSError, ValueError) as error:
        raise Unavailable(f"{argv[0]!r} cannot be started: {error}") from error


async def _exchange(process: Process, output: BoundedOutput, stdin: bytes | None) -> None:
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


async def _finish(process: Process, exchange: asyncio.Future[None], end: End) -> None:
    if not exchange.done():
        await end(process)
    done, _ = await asyncio.wait([exchange], timeout=END_SECONDS)
    if done:
        await exchange
        return
    # A process that cannot be reached holds the pipe open: kill the program, give up its output.
    exchange.cancel()
    await asyncio.wait([exchange])
    await kill_group(process)
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined] # noqa: SLF001 (no public way)


async def _uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    await task
    if cancelled:
        raise asyncio.CancelledError
