"""Run commands on the host without isolation. Starts processes.

A command has all rights of the client's user: every file, every process and the network. The limits
guard against mistakes; a command can remove them on purpose. This sandbox must be selected by name.
"""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.host_files import HostFiles
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.files.outcomes import ReadFile, SeenFile, Unread
from ctxmgr.core.sandbox import (
    EXISTS_PATHS_MAX,
    Command,
    CommandResult,
    Description,
    Held,
    Limits,
    check_command,
)
from ctxmgr.errors import Incorrect
from ctxmgr.sandboxes import host_launcher
from ctxmgr.sandboxes.cgroups import ControlGroup, make_group
from ctxmgr.sandboxes.processes import RunningCommands, kill_group, run_program, shell_words

STOP_SECONDS: Final = host_launcher.KILL_SECONDS + 1
"""The longest time that the launcher takes to end all processes."""


class Host:
    """Runs commands on the host, without any isolation. Create it with ``start``."""

    def __init__(self, *, limits: Limits, mounts: Mounts, group: ControlGroup | None) -> None:
        self._limits = limits
        self._files = HostFiles(mounts)
        self._group = group
        self._running = RunningCommands()

    @classmethod
    async def start(cls, *, limits: Limits | None = None, host_id: str | None = None) -> Self:
        """Start; ``host_id`` is the filesystem's id, by default ``host_filesystem_id()``."""
        limits = limits or Limits()
        mounts = Mounts.of_host(host_id or host_filesystem_id())
        return cls(limits=limits, mounts=mounts, group=make_group(limits))

    @property
    def mounts(self) -> Mounts:
        return self._files.mounts

    @property
    def filesystem_id(self) -> str:
        return self.mounts.default_filesystem_id

    def describe(self) -> Description:
        return Description(
            name="host",
            isolates=False,
            network=True,
            memory=Held.SANDBOX if self._group else Held.PROCESS,
            processes=Held.SANDBOX if self._group else Held.NOT,
        )

    async def run(
        self,
        command: Command,
        *,
        cwd: str,
        timeout_s: float,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        check_command(command, cwd=cwd, timeout_s=timeout_s, stdin=stdin, env=env)
        line = [
            *(sys.executable, "-I", "-S", str(Path(host_launcher.__file__))),
            *(str(self._limits.memory_bytes), str(self._limits.file_bytes), cwd),
            *shell_words(command),
        ]
        return await self._running.run(
            run_program(
                self._group.joined(line) if self._group else line,
                timeout_s=timeout_s,
                output_bytes=self._limits.output_bytes,
                end=_stop,
                stdin=stdin,
                env={**os.environ, **(env or {})},
            )
        )

    async def read(self, path: str, *, bytes_max: int) -> ReadFile | Unread:
        return await asyncio.to_thread(self._files.read, path, bytes_max=bytes_max)

    async def exists(self, paths: Iterable[str]) -> frozenset[str]:
        unique = list(dict.fromkeys(paths))
        if len(unique) > EXISTS_PATHS_MAX:
            raise Incorrect(
                f"{len(unique)} paths; at most {EXISTS_PATHS_MAX} can be checked at once"
            )

        def existing() -> frozenset[str]:
            return frozenset(
                path for path in unique if isinstance(self._files.look(path), SeenFile)
            )

        return await asyncio.to_thread(existing)

    async def close(self) -> None:
        await self._running.end_all()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)
        self._files.close()


async def _stop(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    await kill_group(process)
