"""A sandbox in a Docker container. Runs the ``docker`` program.

    docker run -i …    the container; its first process ends when the client closes its pipe
    docker exec …      a command in it

One container is started per sandbox. It ends with the client's end of a pipe, so none is left
behind even if the client is killed. The limits on memory and processes apply to all commands
together, and the container's own filesystem lasts until ``close``.

No image is pulled: it must exist and contain ``bash``, ``grep``, ``xargs`` and the GNU core
utilities. ``sandbox/Dockerfile`` builds one.

ctxmgr's own folders are hidden by an empty tmpfs if they lie in a mount. The engine mounts folders
by their paths, once, when the container starts.

A command is marked with an environment variable, and all processes with the mark are killed when it
ends. A process that clears its environment and detaches itself lives until the container ends.
"""

import asyncio
import os
import uuid
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self

from ctxmgr.core.files.filesystem_ids import container_filesystem_id
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.sandbox import Bind, CommandResult, Description, Held, Limits
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.held_mounts import HeldMount, HeldMounts, HiddenFolder, check_binds
from ctxmgr.sandboxes.isolated import IsolatedSandbox
from ctxmgr.sandboxes.processes import kill, run_program

PROGRAM: Final = "docker"
IMAGE: Final = "ctxmgr-sandbox"

START_SECONDS: Final = 60
"""Time limit for starting a container: usually a second, more if the engine is busy."""

STOP_SECONDS: Final = 30
"""Time limit for removing a container."""

REPLY_BYTES: Final = 64 * 1024
"""Size limit of the engine's output."""

END_ATTEMPTS_MAX: Final = 20
"""Attempts to kill a command: it may not have started yet when it times out."""

END_PAUSE_SECONDS: Final = 0.1

LABEL: Final = "ctxmgr.sandbox"
MARK: Final = "CTXMGR_COMMAND"
READY: Final = b"ready\n"

FIRST: Final = "echo ready; exec 3<&0; cat <&3 >/dev/null & wait"
"""The first process: it ends when the client closes the pipe or dies, and reaps zombies."""

SWEEP: Final = f"""\
for ((round = 0; round < 9; round++)); do
  killed=
  for file in /proc/[0-9]*/environ; do
    while IFS= read -r -d '' variable; do
      if [[ $variable == "{MARK}=$mark" ]]; then kill -9 "${{file//[!0-9]/}}"; killed=1; fi
    done <"$file"
  done
  [[ $killed ]] || break
done
"""
"""Uses only bash builtins: if a command has used up all processes, no program can be started."""

COMMAND: Final = f"""\
exec 2>&1
mark=$1
cd -- "$2" || exit 126
shift 2
exec 3>&1 >/dev/null 2>&1
env {MARK}="$mark" "$@" >&3 2>&3 3>&-
status=$?
{SWEEP}
exit $status
"""
"""Joins output and errors inside the container: Docker would deliver them out of order."""

END: Final = f"exec 2>/dev/null\nmark=$1\n{SWEEP}"

ENVIRONMENT: Final[Mapping[str, str]] = {
    "HOME": "/tmp",  # noqa: S108 (the container's own)
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "USER": "agent",
}


def run_line(
    program: str,
    *,
    name: str,
    image: str,
    steps: Sequence[HeldMount | HiddenFolder],
    limits: Limits,
    network: bool,
    user: str,
) -> list[str]:
    """Return the command line that starts the container."""
    return [
        *(program, "run", "--interactive", "--rm", "--pull", "never"),
        *("--name", name, "--label", LABEL, "--hostname", "sandbox", "--user", user),
        *("--network", "bridge" if network else "none"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
        *("--pids-limit", str(limits.processes)),
        *("--ulimit", f"fsize={limits.file_bytes}", "--ulimit", "core=0"),
        *(word for step in steps for word in ("--mount", _mount(step))),
        *("--workdir", "/", "--entrypoint", "/bin/sh", image, "-c", FIRST),
    ]


def command_line(
    program: str,
    argv: Sequence[str],
    *,
    name: str,
    mark: str,
    cwd: str,
    env: Mapping[str, str],
    has_input: bool,
) -> list[str]:
    """Return the command line that runs a command in the container."""
    variables = {**ENVIRONMENT, **env}
    return [
        *(program, "exec", *(("--interactive",) if has_input else ())),
        *(word for key, value in variables.items() for word in ("--env", f"{key}={value}")),
        *(name, "bash", "-c", COMMAND, "bash", mark, cwd),
        *argv,
    ]


def end_line(program: str, *, name: str, mark: str) -> list[str]:
    """Return the command line that kills a command in the container."""
    return [program, "exec", name, "bash", "-c", END, "bash", mark]


def _mount(step: HeldMount | HiddenFolder) -> str:
    for path in (step.source, step.target):
        if '"' in path or "\n" in path:
            raise Incorrect(f"Docker cannot mount {path!r:.200}")
    if isinstance(step, HiddenFolder):
        fields = ["type=tmpfs", f"target={step.target}", "tmpfs-mode=0500"]
    else:
        fields = ["type=bind", f"source={step.source}", f"target={step.target}"]
        fields += [] if step.writable else ["readonly"]
    return ",".join(f'"{field}"' for field in fields)  # Docker parses the value as a CSV line


class Docker(IsolatedSandbox):
    """A Docker container. Create it with ``start``."""

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
        """Start a container; ``Unavailable`` if the engine or the image is missing."""
        binds = check_binds(binds)
        held = await asyncio.to_thread(HeldMounts.open, binds)
        name, limits = f"ctxmgr-{uuid.uuid4().hex}", limits or Limits()
        try:
            line = run_line(
                PROGRAM,
                name=name,
                image=image,
                steps=held.steps,
                limits=limits,
                network=network,
                user=f"{os.geteuid()}:{os.getegid()}",
            )
            container = await asyncio.create_subprocess_exec(
                *line, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
        except OSError as error:
            raise Unavailable(f"{PROGRAM} cannot be started: {error}") from error
        finally:
            held.close()
        sandbox = cls(container, name=name, limits=limits, network=network)
        try:
            await sandbox._wait_until_ready()
            own_id = container_filesystem_id(await sandbox._container_id())
        except BaseException:
            await sandbox.close()
            raise
        mappings = [*(bind.mapping for bind in binds), *held.hiding_mappings(own_id)]
        sandbox._mounts = Mounts.of_sandbox(mappings, own_id=own_id)
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
        await _call(PROGRAM, "rm", "--force", self._name, timeout_s=STOP_SECONDS)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._container.communicate()
        except TimeoutError:
            await kill(self._container)
            await self._container.wait()

    async def _execute(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        timeout_s: float,
        output_bytes: int,
        stdin: bytes | None,
        env: Mapping[str, str],
    ) -> CommandResult:
        mark = uuid.uuid4().hex

        async def end(process: Process) -> None:
            sweep = end_line(PROGRAM, name=self._name, mark=mark)
            for _ in range(END_ATTEMPTS_MAX):
                await _call(*sweep, timeout_s=STOP_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout(END_PAUSE_SECONDS):
                        await process.wait()
                    return
            # It starts processes faster than they are killed: remove the whole container.
            await _call(PROGRAM, "rm", "--force", self._name, timeout_s=STOP_SECONDS)
            await kill(process)

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
        ran = await self._running.run(work)
        if self._container.returncode is not None:
            raise Unavailable(f"the container has ended: {ran.text.strip():.500}")
        return ran

    async def _wait_until_ready(self) -> None:
        assert self._container.stdout is not None, "started with a pipe"
        output = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                output = await self._container.stdout.readline()
                if output == READY:
                    return
                output += await self._container.stdout.read(REPLY_BYTES)
        reason = output.decode("utf-8", "replace").strip() or f"no output in {START_SECONDS} s"
        raise Unavailable(f"Docker could not start the container: {reason:.500}")

    async def _container_id(self) -> str:
        words = (PROGRAM, "inspect", "--format", "{{.Id}}", self._name)
        ran = await _call(*words, timeout_s=START_SECONDS)
        if ran.exit_code:
            raise Unavailable(f"Docker cannot inspect its container: {ran.text.strip():.500}")
        return ran.text.strip()


async def _call(*words: str, timeout_s: float) -> CommandResult:
    return await run_program(words, timeout_s=timeout_s, output_bytes=REPLY_BYTES, end=kill)
