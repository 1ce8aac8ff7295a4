"""The sandbox that bubblewrap makes of Linux's namespaces. Starts a process for every command.

Each command has walls of its own, built from one profile in tens of milliseconds; what lasts from
one to the next are the mounts and ``/tmp``, which is a folder of the host's that ``close`` removes.
All else is read-only.

Memory and processes are held for the whole sandbox where the client may make a control group. Else
memory is held for each process, and processes for each command, unless the client is root, whom the
kernel does not count: ``describe`` says which.
"""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.filesystem_ids import container_filesystem_id, host_filesystem_id
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.sandbox import Bind, Description, Held, Limits, Ran
from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.binds import checked
from ctxmgr.sandboxes.bubblewrap_profile import (
    Walls,
    inner_line,
    options,
    parse_profile,
    profile_mappings,
)
from ctxmgr.sandboxes.cgroups import ControlGroup, make_group
from ctxmgr.sandboxes.processes import kill, run_program
from ctxmgr.sandboxes.walled import Walled

PROGRAM: Final = "bwrap"
TRIAL_SECONDS: Final = 30
"""For bubblewrap to say its options, and once for making walls; it needs milliseconds."""

HELP_BYTES: Final = 64 * 1024
STATUS_BYTES: Final = 4_096
"""Of what bubblewrap reports beside the output: two short lines."""

_OUTSIDE: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}


class Bubblewrap(Walled):
    """One sandbox. Made by ``start``."""

    def __init__(self, walls: Walls, *, mounts: Mounts, group: ControlGroup | None) -> None:
        super().__init__(mounts=mounts, limits=walls.limits)
        self._walls = walls
        self._group = group

    @classmethod
    async def start(
        cls,
        binds: Iterable[Bind],
        *,
        limits: Limits | None = None,
        network: bool = False,
        host_id: str | None = None,
        profile: Path | None = None,
    ) -> Self:
        """Make a sandbox; ``Unavailable`` says what the machine lacks for it.

        ``host_id`` None: the machine's. ``profile`` None: the one that is shipped.
        """
        mounted = checked(binds)
        text = (profile or shipped_profile()).read_text(encoding="utf-8")
        parsed = parse_profile(text, known=await _help())
        mounts = _mounts(parsed, mounted, host_id=host_id or host_filesystem_id())
        limits = limits or Limits()
        walls = Walls(
            profile=parsed, binds=mounted, scratch=_scratch(), network=network, limits=limits
        )
        sandbox = cls(walls, mounts=mounts, group=make_group(limits))
        try:
            await sandbox.run(("true",), cwd="/", timeout_s=TRIAL_SECONDS)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    def describe(self) -> Description:
        per_command = Held.COMMAND if os.geteuid() else Held.NOT
        return Description(
            name="bubblewrap",
            isolates=True,
            network=self._walls.network,
            memory=Held.SANDBOX if self._group else Held.PROCESS,
            processes=Held.SANDBOX if self._group else per_command,
        )

    async def close(self) -> None:
        await self._running.end_all()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)
        await asyncio.to_thread(_remove, self._walls.scratch)

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
        with _open_files() as (reading, writing, given):
            words = options(self._walls, env=env, status_fd=writing)
            os.pwrite(given, b"".join(os.fsencode(word) + b"\0" for word in words), 0)
            inner = inner_line(self._walls.limits, argv, cwd=cwd)
            line = [PROGRAM, "--args", str(given), "--", *inner]
            ran = await self._running.one(
                run_program(
                    self._group.joined(line) if self._group else line,
                    timeout_s=timeout_s,
                    output_bytes=output_bytes,
                    end=kill,
                    stdin=stdin,
                    env=_OUTSIDE,
                    pass_fds=(writing, given),
                )
            )
            return _checked(ran, _said(reading))


def shipped_profile() -> Path:
    """Where the profile is: in the wheel, or beside the package in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "shipped" / "sandbox"
    return (inside if inside.is_dir() else package.parent / "sandbox") / "bubblewrap.profile"


@contextmanager
def _open_files() -> Iterator[tuple[int, int, int]]:
    """Open both ends of the pipe for bubblewrap's report, and the file for its options."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        given = os.memfd_create("options")
        try:
            yield reading, writing, given
        finally:
            os.close(given)
    finally:
        os.close(reading)
        os.close(writing)


def _checked(ran: Ran, status: bytes) -> Ran:
    # Bubblewrap reports an exit code only of a command that it came to start.
    if b'"exit-code"' in status or ran.timed_out or ran.exit_code > 128:  # noqa: PLR2004 (a signal)
        return ran
    raise Unavailable(f"bubblewrap made no sandbox: {ran.text.strip() or ran.exit_code!s:.500}")


def _said(status_fd: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(status_fd, STATUS_BYTES)
    return b""


async def _help() -> str:
    ran = await run_program(
        (PROGRAM, "--help"),
        timeout_s=TRIAL_SECONDS,
        output_bytes=HELP_BYTES,
        end=kill,
        env=_OUTSIDE,
    )
    return ran.text


def _mounts(profile: Sequence[Sequence[str]], binds: Sequence[Bind], *, host_id: str) -> Mounts:
    taken = frozenset(bind.mapping.agent_prefix for bind in binds)
    system = [
        mapping
        for mapping in profile_mappings(profile, host_id=host_id, taken=taken)
        if Path(mapping.canonical_prefix).exists()
    ]
    own_id = container_filesystem_id(f"bubblewrap:{uuid.uuid4().hex}")
    return Mounts.of_sandbox([*(bind.mapping for bind in binds), *system], own_id=own_id)


def _scratch() -> str:
    folder = Path(tempfile.mkdtemp(prefix="ctxmgr-sandbox-"))
    (folder / "tmp").mkdir(mode=0o700)
    user, group = os.geteuid(), os.getegid()
    (folder / "passwd").write_text(f"agent:x:{user}:{group}:agent:/tmp:/bin/sh\n", encoding="ascii")
    (folder / "group").write_text(f"agent:x:{group}:\n", encoding="ascii")
    return str(folder)


def _remove(folder: str) -> None:
    # The agent may have taken its own folders' rights away.
    for root, names, _ in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=not Path(folder).exists())
