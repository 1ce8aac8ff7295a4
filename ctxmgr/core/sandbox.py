"""Sandbox: run commands and read files where the agent works. Contract.

    harness ── command ─► Sandbox ── isolated, within its limits ──────► CommandResult
    client ─── path ────► Sandbox ── with its links and permissions ──► ReadFile, or why not

Failures inside the sandbox are outcomes: an exit code, ``timed_out``, an ``Unread``. Exceptions
mean that nothing ran: ``Incorrect`` for an invalid request, ``Unavailable`` if the sandbox cannot
be created or has ended.

A command ends with every process that it started. None is alive when ``run`` returns or raises,
whether the command ended, timed out or was cancelled, so a server that a command starts in the
background does not outlive it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.outcomes import ReadFile, Unread
from ctxmgr.errors import Incorrect

TIMEOUT_SECONDS_MAX: Final = 24 * 60 * 60
"""The longest timeout: a day. A larger value is a mistake in units."""

STDIN_BYTES_MAX: Final = 16 * 1024 * 1024
"""The input of one command: more than the largest file that is read for an agent."""

EXISTS_PATHS_MAX: Final = 100_000
"""Paths in one call of ``exists``: ten times the files of a large checkout."""

Command: TypeAlias = str | Sequence[str]
"""A string is run by the shell; a sequence is a program and its arguments, without a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the commands in a sandbox. ``Description`` says how each is enforced."""

    memory_bytes: int = 2 * 1024**3
    """Enough for a compiler or a test run; a leak ends before the host swaps."""
    processes: int = 512
    """Threads count too: a language server alone has dozens."""
    output_bytes: int = 256 * 1024
    """Kept of one command's output, half from its start and half from its end."""
    file_bytes: int = 4 * 1024**3
    """Size of any one file that is written. What all of them fill is not limited."""

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "processes", "output_bytes", "file_bytes"):
            if getattr(self, name) < 1:
                raise Incorrect(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A directory or file of the host that is mounted in the sandbox."""

    mapping: MountMapping
    """Where it is on the host, and where the agent sees it."""
    writable: bool
    """False: the sandbox can only read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The outcome of a command."""

    exit_code: int
    """128 plus the signal number if a signal ended it."""
    output: bytes = field(repr=False)
    """Standard output and error, interleaved as they were written. Of a long output, the start and
    the end are kept, with a line between them that says how much is left out."""
    output_bytes: int
    """How much the command wrote in total."""
    truncated: bool
    """Whether ``output`` is shorter than that."""
    timed_out: bool
    """Whether the command was ended because its time was up."""

    @property
    def text(self) -> str:
        """The output as text; invalid UTF-8 is replaced."""
        return self.output.decode("utf-8", "replace")


class Held(StrEnum):
    """What a limit applies to."""

    SANDBOX = "sandbox"
    """All commands that run at the same time together."""
    COMMAND = "command"
    """Each command with all its processes."""
    PROCESS = "process"
    """Each process."""
    NOT = "not"
    """Nothing: the limit is not enforced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a sandbox isolates and how it enforces limits.

    Time and output are limited for each command in every sandbox.
    """

    name: str
    isolates: bool
    """False: commands run on the host with all rights of the client's user."""
    network: bool
    """Whether commands can use the network."""
    memory: Held
    """What the limit on memory applies to."""
    processes: Held
    """What the limit on processes applies to."""


class Sandbox(Protocol):
    """Runs an agent's commands and reads files as the agent sees them.

    Commands may run concurrently. A command ends with every process that it started. An isolating
    sandbox hides the folders of ctxmgr that lie in its mounts, and its ``mounts`` say so: a client
    is not opened on one that shows them.
    """

    @property
    def mounts(self) -> Mounts:
        """The mounts it was started with, and its own filesystem as the default."""
        ...

    @property
    def filesystem_id(self) -> str:
        """The id of the sandbox's own filesystem, or of the host's if it isolates nothing."""
        ...

    def describe(self) -> Description:
        """Return what this sandbox isolates and how it enforces limits."""
        ...

    async def run(
        self,
        command: Command,
        *,
        cwd: str,
        timeout_s: float,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command until it ends or its time is up.

        A string is run by the shell; a sequence is a program and its arguments. A missing directory
        or program is an exit code, as in a shell; ``Unavailable`` means that nothing ran. ``env``
        is added to the few variables that the sandbox sets.
        """
        ...

    async def read(self, path: str, *, bytes_max: int) -> ReadFile | Unread:
        """Read a regular file as the agent would, following links."""
        ...

    async def exists(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the paths that are regular files."""
        ...

    async def close(self) -> None:
        """End every command and remove the sandbox's own filesystem. May be called twice."""
        ...


def check_command(
    command: Command,
    *,
    cwd: str,
    timeout_s: float,
    stdin: bytes | None,
    env: Mapping[str, str] | None,
) -> None:
    """Raise ``Incorrect`` for a command that no sandbox can run."""
    if not command:
        raise Incorrect("the command is empty")
    if not cwd.startswith("/"):
        raise Incorrect(f"the command's directory {cwd!r:.200} is not absolute")
    if not 0 < timeout_s <= TIMEOUT_SECONDS_MAX:
        raise Incorrect(f"timeout_s must be between 0 and {TIMEOUT_SECONDS_MAX}, not {timeout_s}")
    if stdin is not None and len(stdin) > STDIN_BYTES_MAX:
        raise Incorrect(f"{len(stdin)} bytes of input; {STDIN_BYTES_MAX} at most are allowed")
    words = [command] if isinstance(command, str) else list(command)
    for name, value in (env or {}).items():
        if not name or "=" in name:
            raise Incorrect(f"{name!r:.200} is not a valid name of a variable")
        words += [name, value]
    for word in [*words, cwd]:
        if "\0" in word:
            raise Incorrect(f"{word!r:.200} contains NUL, which is not allowed in an argument")
