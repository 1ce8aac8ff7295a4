"""What tests of sandboxes share: limits, commands, and which processes are alive."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ctxmgr.core.files.mounts import MountMapping
from ctxmgr.core.sandbox import Bind, CommandResult, Limits, Sandbox

SECONDS: Final = 60
"""For a command that ends by itself at once, and for a container on a busy machine to start."""

LIMITS: Final = Limits(
    memory_bytes=64 * 1024**2, processes=40, output_bytes=4_000, file_bytes=8 * 1024**2
)
BYTES_MAX: Final = 100_000


def bind(agent: str, host: Path, *, writable: bool = True) -> Bind:
    mapping = MountMapping(agent_prefix=agent, canonical_prefix=str(host), filesystem_id="h")
    return Bind(mapping=mapping, writable=writable)


async def shell(sandbox: Sandbox, command: str, **others: object) -> CommandResult:
    return await sandbox.run(command, **{"cwd": "/", "timeout_s": SECONDS, **others})  # type: ignore[arg-type]


def pids() -> list[int]:
    return [int(process.name) for process in Path("/proc").glob("[0-9]*")]


def words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
    except (OSError, UnicodeDecodeError):
        return []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 (processes of a sandbox set no event)
            await asyncio.sleep(0.01)


async def none(left: Callable[[], list[int]]) -> bool:
    # They are killed when ``run`` returns, but the kernel takes a moment to remove them.
    await until(lambda: not left())
    return True
