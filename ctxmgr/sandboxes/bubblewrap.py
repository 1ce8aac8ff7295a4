"""A sandbox of Linux namespaces, made by bubblewrap. Starts a process for every command.

    bwrap  profile  /tmp  user  network  mounts  environment
    └── prlimit   limits of each process
        └── sh    changes to the command's directory
            └── the command

Each command gets its own namespaces, built from one profile in tens of milliseconds. The mounts and
``/tmp`` persist between commands; ``/tmp`` is a folder of the host that ``close`` removes. The rest
is read-only. The host's folders are opened when the sandbox starts and bound by descriptor for
every command, so a link that replaces one of them changes nothing.

Memory and processes are limited for the whole sandbox if the client can create a control group.
Otherwise memory is limited per process and processes per command, unless the client is root, whose
processes the kernel does not count. ``describe`` reports which applies.

Environment variables are set by bwrap, not for bwrap: the command's ``LD_PRELOAD`` must not load
anything outside the sandbox. The options are passed in a file, because every user of the host can
read the command line, and the agent could read the host's paths there. A system call filter keeps
commands from the client's keyring, and from creating files that others would run with its rights.
"""

import asyncio
import os
import platform
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.files.filesystem_ids import container_filesystem_id, host_filesystem_id
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.sandbox import Bind, CommandResult, Description, Held, Limits
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.cgroups import ControlGroup, make_group
from ctxmgr.sandboxes.held_mounts import HeldMount, HeldMounts, HiddenFolder, check_binds
from ctxmgr.sandboxes.isolated import IsolatedSandbox
from ctxmgr.sandboxes.processes import kill, run_program
from ctxmgr.sandboxes.scratch_folder import ScratchFolder
from ctxmgr.sandboxes.system_call_filter import filter_program

OPTIONAL: Final = frozenset({"--disable-userns"})
"""Options that are left out if the installed bubblewrap does not have them."""

BIND_BY_DESCRIPTOR: Final = "--ro-bind-fd"
"""Without it a sandbox is not started: a folder named by its path could be replaced by a link."""

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

KEY_LISTS: Final = ("/proc/keys", "/proc/key-users")
"""Files that list the keys of the client's user."""

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
    held: HeldMounts
    scratch: int
    """The open folder of the host that is the sandbox's ``/tmp``."""
    network: bool
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFiles:
    """The open files of one command that bubblewrap reads and writes."""

    status: int
    """It writes its report here."""
    options: int
    passwd: int
    group: int
    system_calls: int

    @property
    def fds(self) -> tuple[int, ...]:
        return (self.status, self.options, self.passwd, self.group, self.system_calls)


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


def options(config: BubblewrapProfile, *, env: Mapping[str, str], files: CommandFiles) -> list[str]:
    """Return bubblewrap's options for a command."""
    variables = {**ENVIRONMENT, **env}
    if config.network:
        network = [word for file in NETWORK_FILES for word in ("--ro-bind-try", file, file)]
    else:
        network = ["--unshare-net"]
    hidden = [folder.target for folder in config.held.hidden]
    return [
        *("--json-status-fd", str(files.status), "--seccomp", str(files.system_calls)),
        *(word for option in config.profile for word in option),
        *(
            word
            for file in KEY_LISTS
            if Path(file).exists()
            for word in ("--ro-bind", "/dev/null", file)
        ),
        *("--bind-fd", str(config.scratch), "/tmp"),  # noqa: S108 (the sandbox's own)
        *("--perms", "0644", "--ro-bind-data", str(files.passwd), "/etc/passwd"),
        *("--perms", "0644", "--ro-bind-data", str(files.group), "/etc/group"),
        *network,
        *(word for step in config.held.steps for word in _mounting(step)),
        *(word for path in ["/", *hidden] for word in ("--remount-ro", path)),
        "--clearenv",
        *(word for name, value in variables.items() for word in ("--setenv", name, value)),
    ]


def _mounting(step: HeldMount | HiddenFolder) -> tuple[str, ...]:
    if isinstance(step, HiddenFolder):
        return ("--perms", "0500", "--tmpfs", step.target)
    return ("--bind-fd" if step.writable else "--ro-bind-fd", str(step.fd), step.target)


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
        self,
        config: BubblewrapProfile,
        *,
        mounts: Mounts,
        scratch: ScratchFolder,
        group: ControlGroup | None,
    ) -> None:
        super().__init__(mounts=mounts, limits=config.limits)
        self._config = config
        self._scratch = scratch
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
        binds = check_binds(binds)
        text = (profile or shipped_profile()).read_text(encoding="utf-8")
        bwrap_help = await run_program(
            (PROGRAM, "--help"),
            timeout_s=TRIAL_SECONDS,
            output_bytes=HELP_BYTES,
            end=kill,
            env=_OUTER_ENVIRONMENT,
        )
        if BIND_BY_DESCRIPTOR not in bwrap_help.text:
            raise Unavailable(
                f"this bubblewrap lacks {BIND_BY_DESCRIPTOR}: install version 0.10, or an older "
                "one with the fix of CVE-2024-42472"
            )
        parsed, limits = parse_profile(text, supported=bwrap_help.text), limits or Limits()
        with ExitStack() as undo:
            scratch = ScratchFolder()
            undo.callback(scratch.remove)
            held = await asyncio.to_thread(HeldMounts.open, binds, hidden=[scratch.path])
            undo.callback(held.close)
            config = BubblewrapProfile(
                profile=parsed, held=held, scratch=scratch.fd, network=network, limits=limits
            )
            mounts = _mounts(parsed, binds, held, host_id=host_id or host_filesystem_id())
            sandbox = cls(config, mounts=mounts, scratch=scratch, group=make_group(limits))
            undo.pop_all()
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
        await asyncio.to_thread(self._scratch.remove)
        self._config.held.close()

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
        self._config.held.check()
        with command_files(user=os.geteuid(), group=os.getegid()) as (status_read, files):
            words = options(self._config, env=env, files=files)
            os.pwrite(files.options, b"".join(os.fsencode(word) + b"\0" for word in words), 0)
            inner = inner_line(self._config.limits, argv, cwd=cwd)
            line = [PROGRAM, "--args", str(files.options), "--", *inner]
            held = (mount.fd for mount in self._config.held.mounts)
            ran = await self._running.run(
                run_program(
                    self._group.joined(line) if self._group else line,
                    timeout_s=timeout_s,
                    output_bytes=output_bytes,
                    end=kill,
                    stdin=stdin,
                    env=_OUTER_ENVIRONMENT,
                    cwd="/",
                    pass_fds=(*files.fds, self._config.scratch, *held),
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
def command_files(*, user: int, group: int) -> Iterator[tuple[int, CommandFiles]]:
    """Open the end of the status pipe to read from, and the files for bubblewrap."""
    with ExitStack() as closing:

        def opened(fd: int) -> int:
            closing.callback(os.close, fd)
            return fd

        def holding(name: str, data: bytes) -> int:
            fd = opened(os.memfd_create(name))
            os.pwrite(fd, data, 0)
            return fd

        status_read, status_write = map(opened, os.pipe())
        os.set_blocking(status_read, False)
        yield (
            status_read,
            CommandFiles(
                status=status_write,
                options=holding("options", b""),
                passwd=holding("passwd", f"agent:x:{user}:{group}:agent:/tmp:/bin/sh\n".encode()),
                group=holding("group", f"agent:x:{group}:\n".encode()),
                system_calls=holding("system calls", filter_program(platform.machine())),
            ),
        )


def _mounts(
    profile: Sequence[Sequence[str]], binds: Sequence[Bind], held: HeldMounts, *, host_id: str
) -> Mounts:
    taken = frozenset(bind.mapping.agent_prefix for bind in binds)
    system = [
        mapping
        for mapping in profile_mappings(profile, host_id=host_id, taken=taken)
        if Path(mapping.canonical_prefix).exists()
    ]
    own_id = container_filesystem_id(f"bubblewrap:{uuid.uuid4().hex}")
    mappings = [*(bind.mapping for bind in binds), *system, *held.hiding_mappings(own_id)]
    return Mounts.of_sandbox(mappings, own_id=own_id)
