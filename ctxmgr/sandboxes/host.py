"""No sandbox: commands run on the host, with all that the client's user may do. Starts processes.

It isolates nothing. Every file, every process and the network are within a command's reach, and a
command that wants to can undo the limits on it; they are there for mistakes, not against malice. It
has to be asked for by its name.
"""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.file_outcomes import Read, Seen, Unread
from ctxmgr.core.filesystem_ids import host_filesystem_id
from ctxmgr.core.hostfiles import HostFiles
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.sandbox import (
    EXISTS_PATHS_MAX,
    Command,
    Description,
    Held,
    Limits,
    Ran,
    check_command,
)
from ctxmgr.errors import Incorrect
from ctxmgr.sandboxes import host_launcher
from ctxmgr.sandboxes.cgroups import ControlGroup, make_group
from ctxmgr.sandboxes.processes import kill_group, run_program
from ctxmgr.sandboxes.running import Running, shell_words

STOP_SECONDS: Final = host_launcher.KILL_SECONDS + 1
"""What the launcher takes at most to end everything."""


class Host:
    """The host itself, behind the same contract."""

    def __init__(self, *, limits: Limits, mounts: Mounts, group: ControlGroup | None) -> None:
        self._limits = limits
        self._files = HostFiles(mounts)
        self._group = group
        self._running = Running()

    @classmethod
    async def start(cls, *, limits: Limits | None = None, host_id: str | None = None) -> Self:
        """Make ready to run commands on the host. ``host_id`` None: the machine's."""
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
    ) -> Ran:
        check_command(command, cwd=cwd, timeout_s=timeout_s, stdin=stdin, env=env)
        line = [
            *(sys.executable, "-I", "-S", str(Path(host_launcher.__file__))),
            *(str(self._limits.memory_bytes), str(self._limits.file_bytes), cwd),
            *shell_words(command),
        ]
        return await self._running.one(
            run_program(
                self._group.joined(line) if self._group else line,
                timeout_s=timeout_s,
                output_bytes=self._limits.output_bytes,
                end=_stop,
                stdin=stdin,
                env={**os.environ, **(env or {})},
            )
        )

    async def read(self, path: str, *, bytes_max: int) -> Read | Unread:
        return await asyncio.to_thread(self._files.read, path, bytes_max=bytes_max)

    async def exists(self, paths: Iterable[str]) -> frozenset[str]:
        asked = list(dict.fromkeys(paths))
        if len(asked) > EXISTS_PATHS_MAX:
            raise Incorrect(f"{len(asked)} paths in one question; {EXISTS_PATHS_MAX} at most")
        return await asyncio.to_thread(self._files_among, asked)

    async def close(self) -> None:
        await self._running.end_all()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)
        self._files.close()

    def _files_among(self, paths: list[str]) -> frozenset[str]:
        return frozenset(path for path in paths if isinstance(self._files.look(path), Seen))


async def _stop(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    await kill_group(process)
