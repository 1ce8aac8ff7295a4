"""A sandbox of Linux namespaces, made by bubblewrap. Starts a process for every command.

    bwrap  profile  /tmp  user  network  mounts  environment
    └── prlimit   limits of each process
        └── sh    changes to the command's directory
            └── the command

Each command gets its own namespaces, built from one profile in tens of milliseconds. The mounts and
``/tmp`` persist between commands; ``/tmp`` is a folder of the host that ``close`` removes. The rest
is read-only.

Memory and processes are limited for the whole sandbox if the client can create a control group.
Otherwise memory is limited per process and processes per command, unless the client is root, whose
processes the kernel does not count. ``describe`` reports which applies.

Environment variables are set by bwrap, not for bwrap: the command's ``LD_PRELOAD`` must not load
anything outside the sandbox. The options are passed in a file, because every user of the host can
read the command line, and the agent could read the host's paths there.
"""

import asyncio
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.files.filesystem_ids import container_filesystem_id, host_filesystem_id
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.sandbox import Bind, CommandResult, Description, Held, Limits
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.cgroups import ControlGroup, make_group
from ctxmgr.sandboxes.isolated import IsolatedSandbox, check_binds
from ctxmgr.sandboxes.processes import kill, run_program

OPTIONAL: Final = frozenset({"--disable-userns"})
"""Options that are left out if the installed bubblewrap does not have them."""

ENVIRONMENT: Final[Mapping[str, str]] = {
    "HOME": "/tmp",  # noqa: S108 (the sandbox's own)
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "TERM": "dumb",
    "TMPDIR": "/tmp",  # noqa: S108
    "USER": "agent",
}

CD_AND_RUN: Final = 'cd -- "$1" || exit 126; shift; exec "$@"'

NETWORK_FILES: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
"""Files for name resolution, mounted if the network is allowed."""

PROGRAM: Final = "bwrap"
TRIAL_SECONDS: Final = 30
"""Time limit for ``bwrap --help`` and for the first command; both take milliseconds."""

HELP_BYTES: Final = 64 * 1024
STATUS_BYTES: Final = 4_096
"""Size limit of bubblewrap's status report, which is two short lines."""

_OUTER_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
_BIND: Final = re.compile(r"--ro-bind(-try)?|--bind(-try)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapProfile:
    """The configuration that all commands of a sandbox share."""

    profile: tuple[tuple[str, ...], ...]
    binds: tuple[Bind, ...]
    """Outer mounts first."""
    scratch: str
    """A folder of the host with the sandbox's ``tmp``, ``passwd`` and ``group``."""
    network: bool
    limits: Limits


def parse_profile(text: str, *, supported: str) -> tuple[tuple[str, ...], ...]:
    """Parse a profile; ``supported`` is bubblewrap's help, which lists its options."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    parsed: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            parsed.append([word])
        elif not parsed:
            raise Incorrect(f"a bubblewrap profile must begin with an option, not {word!r:.80}")
        else:
            parsed[-1].append(word)
    return tuple(
        tuple(option) for option in parsed if option[0] not in OPTIONAL or option[0] in supported
    )


def profile_mappings(
    profile: Sequence[Sequence[str]], *, host_id: str, taken: frozenset[str]
) -> Iterator[MountMapping]:
    """Yield the folders of the host that the profile mounts, except those of ``/proc``."""
    for option, *paths in profile:
        if not _BIND.fullmatch(option) or paths[1] in taken or paths[1].startswith("/proc/"):
            continue
        yield MountMapping(agent_prefix=paths[1], canonical_prefix=paths[0], filesystem_id=host_id)


def options(config: BubblewrapProfile, *, env: Mapping[str, str], status_fd: int) -> list[str]:
    """Return bubblewrap's options for a command."""
    variables = {**ENVIRONMENT, **env}
    if config.network:
        network = [word for file in NETWORK_FILES for word in ("--ro-bind-try", file, file)]
    else:
        network = ["--unshare-net"]
    binds = [
        (
            "--bind" if bind.writable else "--ro-bind",
            bind.mapping.canonical_prefix,
            bind.mapping.agent_prefix,
        )
        for bind in config.binds
    ]
    return [
        *("--json-status-fd", str(status_fd)),
        *(word for option in config.profile for word in option),
        *("--bind", f"{config.scratch}/tmp", "/tmp"),  # noqa: S108 (the sandbox's own)
        *("--ro-bind", f"{config.scratch}/passwd", "/etc/passwd"),
        *("--ro-bind", f"{config.scratch}/group", "/etc/group"),
        *network,
        *(word for bind in binds for word in bind),
        *("--remount-ro", "/", "--clearenv"),
        *(word for name, value in variables.items() for word in ("--setenv", name, value)),
    ]


def inner_line(limits: Limits, argv: Sequence[str], *, cwd: str) -> list[str]:
    """Return the command line that bubblewrap starts."""
    # RLIMIT_DATA instead of address space: runtimes reserve far more addresses than they use, and
    # Node and Java do not start with a limit on those.
    return [
        *("prlimit", f"--data={limits.memory_bytes}", f"--nproc={limits.processes}"),
        *(f"--fsize={limits.file_bytes}", "--core=0", "--"),
        *("/bin/sh", "-c", CD_AND_RUN, "sh", cwd, *argv),
    ]


class Bubblewrap(IsolatedSandbox):
    """A sandbox of Linux namespaces, started by ``bwrap``. Create it with ``start``."""

    def __init__(
        self, config: BubblewrapProfile, *, mounts: Mounts, group: ControlGroup | None
    ) -> None:
        super().__init__(mounts=mounts, limits=config.limits)
        self._config = config
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
        """Start a sandbox; ``Unavailable`` says what the machine lacks.

        ``host_id`` is the id of the host's filesystem, by default ``host_filesystem_id()``;
        ``profile`` is a file of bwrap options, by default the one that is shipped.
        """
        mounted = check_binds(binds)
        text = (profile or shipped_profile()).read_text(encoding="utf-8")
        bwrap_help = await run_program(
            (PROGRAM, "--help"),
            timeout_s=TRIAL_SECONDS,
            output_bytes=HELP_BYTES,
            end=kill,
            env=_OUTER_ENVIRONMENT,
        )
        parsed = parse_profile(text, supported=bwrap_help.text)
        mounts = _mounts(parsed, mounted, host_id=host_id or host_filesystem_id())
        limits = limits or Limits()
        config = BubblewrapProfile(
            profile=parsed, binds=mounted, scratch=_scratch(), network=network, limits=limits
        )
        sandbox = cls(config, mounts=mounts, group=make_group(limits))
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
            network=self._config.network,
            memory=Held.SANDBOX if self._group else Held.PROCESS,
            processes=Held.SANDBOX if self._group else per_command,
        )

    async def close(self) -> None:
        await self._running.end_all()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)
        await asyncio.to_thread(_remove, self._config.scratch)

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
        with _open_files() as (status_read, status_write, options_file):
            words = options(self._config, env=env, status_fd=status_write)
            os.pwrite(options_file, b"".join(os.fsencode(word) + b"\0" for word in words), 0)
            inner = inner_line(self._config.limits, argv, cwd=cwd)
            line = [PROGRAM, "--args", str(options_file), "--", *inner]
            ran = await self._running.run(
                run_program(
                    self._group.joined(line) if self._group else line,
                    timeout_s=timeout_s,
                    output_bytes=output_bytes,
                    end=kill,
                    stdin=stdin,
                    env=_OUTER_ENVIRONMENT,
                    pass_fds=(status_write, options_file),
                )
            )
            status = b""
            with suppress(BlockingIOError):
                status = os.read(status_read, STATUS_BYTES)
        # Bubblewrap reports an exit code only if it started the command.
        signalled = ran.exit_code > 128  # noqa: PLR2004
        if b'"exit-code"' in status or ran.timed_out or signalled:
            return ran
        reason = ran.text.strip() or f"exit code {ran.exit_code}"
        raise Unavailable(f"bubblewrap could not create the sandbox: {reason:.500}")


def shipped_profile() -> Path:
    """Return the path of the default profile: in the wheel, or beside the package."""
    package = Path(__file__).parent.parent
    inside = package / "shipped" / "sandbox"
    return (inside if inside.is_dir() else package.parent / "sandbox") / "bubblewrap.profile"


@contextmanager
def _open_files() -> Iterator[tuple[int, int, int]]:
    """Open both ends of the pipe for bubblewrap's status, and the file for its options."""
    status_read, status_write = os.pipe()
    try:
        os.set_blocking(status_read, False)
        options_file = os.memfd_create("options")
        try:
            yield status_read, status_write, options_file
        finally:
            os.close(options_file)
    finally:
        os.close(status_read)
        os.close(status_write)


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
    # The agent may have removed its own permissions on folders.
    for root, names, _ in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=not Path(folder).exists())
