"""What the sandboxes that have walls share: their own filesystem is asked by commands inside it.

Each says how a program is run in it (``_execute``); what a command is checked for, and how files
are read and looked for, is the same behind every wall.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from ctxmgr.core.file_outcomes import Read, Unread
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.sandbox import Command, Limits, Ran, check_command
from ctxmgr.sandboxes.questions import QUESTION_SECONDS, exist_inside, read_inside
from ctxmgr.sandboxes.running import Running, shell_words


class Walled(ABC):
    """Most of the contract ``core.sandbox.Sandbox``; the rest is its technology's."""

    def __init__(self, *, mounts: Mounts, limits: Limits) -> None:
        self._mounts = mounts
        self._limits = limits
        self._running = Running()

    @property
    def mounts(self) -> Mounts:
        return self._mounts

    @property
    def filesystem_id(self) -> str:
        return self._mounts.default_filesystem_id

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
        return await self._execute(
            shell_words(command),
            cwd=cwd,
            timeout_s=timeout_s,
            stdin=stdin,
            env=env or {},
            output_bytes=self._limits.output_bytes,
        )

    async def read(self, path: str, *, bytes_max: int) -> Read | Unread:
        return await read_inside(self._ask, path, bytes_max=bytes_max, mounts=self._mounts)

    async def exists(self, paths: Iterable[str]) -> frozenset[str]:
        return await exist_inside(self._ask, paths)

    @abstractmethod
    async def _execute(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        timeout_s: float,
        output_bytes: int,
        stdin: bytes | None,
        env: Mapping[str, str],
    ) -> Ran:
        """Run a program inside, to its end or the end of its time."""

    async def _ask(self, argv: Sequence[str], *, stdin: bytes | None, output_bytes: int) -> Ran:
        return await self._execute(
            argv,
            cwd="/",
            timeout_s=QUESTION_SECONDS,
            stdin=stdin,
            env={},
            output_bytes=output_bytes,
        )
