"""The sandbox that is a Docker container. Runs the ``docker`` program.

One container is started for the sandbox and lives as long as the client's end of a pipe, so that
none is left behind even if the client is killed. Commands run in it by ``docker exec``; its limits
on memory and processes are for all of them together, its own filesystem lasts until ``close``.

The image is there already (nothing is pulled), and has ``bash``, ``grep``, ``xargs`` and the GNU
core utilities: ``sandbox/Dockerfile`` makes one.
"""

import asyncio
import os
import uuid
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self

from ctxmgr.core.filesystem_ids import container_filesystem_id
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.sandbox import Bind, Description, Held, Limits, Ran
from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.binds import checked
from ctxmgr.sandboxes.docker_commands import READY, command_line, end_line, run_line
from ctxmgr.sandboxes.processes import kill, run_program
from ctxmgr.sandboxes.walled import Walled

PROGRAM: Final = "docker"
IMAGE: Final = "ctxmgr-sandbox"

START_SECONDS: Final = 60
"""For the engine to make a container: a second, but engines are busy at times."""

STOP_SECONDS: Final = 30
"""For the engine to remove one."""

ANSWER_BYTES: Final = 64 * 1024
"""Of what the engine says."""

ENDINGS_MAX: Final = 20
"""How often a command is looked for to be killed: it may not have started when its time is up."""

ENDING_PAUSE_SECONDS: Final = 0.1


class Docker(Walled):
    """One container. Made by ``start``."""

    def __init__(self, container: Process, *, name: str, limits: Limits, network: bool) -> None:
        super().__init__(mounts=Mounts.of_sandbox((), own_id=name), limits=limits)
        self._container = container
        self._name = name
        self._network = network

    @classmethod
    async def start(
        cls,
        binds: Iterable[Bind],
        *,
        limits: Limits | None = None,
        network: bool = False,
        image: str = IMAGE,
    ) -> Self:
        """Start a container; ``Unavailable`` if the engine or the image is not there."""
        mounted = checked(binds)
        name, limits = f"ctxmgr-{uuid.uuid4().hex}", limits or Limits()
        line = run_line(
            PROGRAM,
            name=name,
            image=image,
            binds=mounted,
            limits=limits,
            network=network,
            user=f"{os.geteuid()}:{os.getegid()}",
        )
        sandbox = cls(await _begun(line), name=name, limits=limits, network=network)
        try:
            await sandbox._ready()
            own_id = container_filesystem_id(await sandbox._container_id())
        except BaseException:
            await sandbox.close()
            raise
        sandbox._mounts = Mounts.of_sandbox((bind.mapping for bind in mounted), own_id=own_id)
        return sandbox

    def describe(self) -> Description:
        return Description(
            name="docker",
            isolates=True,
            network=self._network,
            memory=Held.SANDBOX,
            processes=Held.SANDBOX,
        )

    async def close(self) -> None:
        await self._running.end_all()
        if self._container.stdin is not None:
            self._container.stdin.close()
        await _asked(PROGRAM, "rm", "--force", self._name, timeout_s=STOP_SECONDS)
        await _ended(self._container)

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
        mark = uuid.uuid4().hex

        async def end(process: Process) -> None:
            await self._end(process, mark)

        line = command_line(
            PROGRAM,
            argv,
            name=self._name,
            mark=mark,
            cwd=cwd,
            env=env,
            has_input=stdin is not None,
        )
        work = run_program(
            line, timeout_s=timeout_s, output_bytes=output_bytes, end=end, stdin=stdin
        )
        ran = await self._running.one(work)
        if self._container.returncode is not None:
            raise Unavailable(f"the container has ended: {ran.text.strip():.500}")
        return ran

    async def _end(self, process: Process, mark: str) -> None:
        line = end_line(PROGRAM, name=self._name, mark=mark)
        for _ in range(ENDINGS_MAX):
            await _asked(*line, timeout_s=STOP_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING_PAUSE_SECONDS):
                    await process.wait()
                return
        # It starts processes faster than they are found: it goes, and the container with it.
        await _asked(PROGRAM, "rm", "--force", self._name, timeout_s=STOP_SECONDS)
        await kill(process)

    async def _ready(self) -> None:
        assert self._container.stdout is not None, "started with a pipe"
        said = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                said = await self._container.stdout.readline()
                if said == READY:
                    return
                said += await self._container.stdout.read(ANSWER_BYTES)
        complaint = said.decode("utf-8", "replace").strip() or f"nothing in {START_SECONDS} s"
        raise Unavailable(f"Docker started no container: {complaint:.500}")

    async def _container_id(self) -> str:
        words = (PROGRAM, "inspect", "--format", "{{.Id}}", self._name)
        ran = await _asked(*words, timeout_s=START_SECONDS)
        if ran.exit_code:
            raise Unavailable(f"Docker does not know its container: {ran.text.strip():.500}")
        return ran.text.strip()


async def _begun(line: Sequence[str]) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *line, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
    except OSError as error:
        raise Unavailable(f"{line[0]} cannot be started: {error}") from error


async def _asked(*words: str, timeout_s: float) -> Ran:
    return await run_program(words, timeout_s=timeout_s, output_bytes=ANSWER_BYTES, end=kill)


async def _ended(container: Process) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await container.communicate()
    except TimeoutError:
        await kill(container)
        await container.wait()
