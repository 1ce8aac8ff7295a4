"""Sandbox: run a command and read a file where the agent lives. Contract.

    harness ── command ─► Sandbox ── in its walls, under its limits ─► Ran
    client ─── path ────► Sandbox ── with its links, its rights ─────► Read, or why not

What goes wrong inside is an outcome: an exit code, a ``timed_out``, an ``Unread``. Errors are for
what never ran: ``Incorrect`` for a request that no sandbox could take, ``Unavailable`` where the
sandbox itself cannot be made or has ended.

A command ends with everything it started. Nothing of it is alive when ``run`` returns or raises,
whether it ended by itself, its time was up or the caller was cancelled; so a server that a command
starts in the background does not outlive it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from ctxmgr.core.file_outcomes import Read, Unread
from ctxmgr.core.mounts import MountMapping, Mounts
from ctxmgr.errors import Incorrect

KILLED: Final = 137
"""The exit code of what was killed: 128 and the number of SIGKILL, as shells say it."""

TIMEOUT_SECONDS_MAX: Final = 24 * 60 * 60
"""Of one command: a day. A longer one is a mistake in units."""

STDIN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Given to one command: more than the largest file that is read for an agent."""

EXISTS_PATHS_MAX: Final = 100_000
"""In one question: ten times the files of a large checkout that one listing may name."""

Command: TypeAlias = str | Sequence[str]
"""Text is for the shell; a sequence is a program and its arguments, which no shell touches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What commands may use. How far each is held, ``Description`` says."""

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
                raise Incorrect(f"a sandbox needs {name} of 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A folder or file of the host's that is mounted in the sandbox."""

    mapping: MountMapping
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a command."""

    exit_code: int
    """128 and the signal's number for what a signal ended."""
    output: bytes = field(repr=False)
    """Standard output and error as they were written, mixed; of a long one, start and end with a
    line between them that says how much is left out."""
    output_bytes: int
    """How much it wrote in all."""
    truncated: bool
    timed_out: bool

    @property
    def text(self) -> str:
        """The output for a reader: what is no UTF-8 is replaced."""
        return self.output.decode("utf-8", "replace")


class Held(StrEnum):
    """How far a limit reaches."""

    SANDBOX = "sandbox"
    """All commands that run at once share it."""
    COMMAND = "command"
    PROCESS = "process"
    NOT = "not"
    """It is not held here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a sandbox keeps apart. Time and output are limited in every one, for each command."""

    name: str
    isolates: bool
    """False: commands run on the host with all that the client's user may do."""
    network: bool
    memory: Held
    processes: Held


class Sandbox(Protocol):
    """Where an agent's commands run. Commands may run at once; ``close`` ends them all."""

    @property
    def mounts(self) -> Mounts:
        """What it was started with: its binds, and its own filesystem as the default."""
        ...

    @property
    def filesystem_id(self) -> str:
        """The id of its own filesystem, or the host's where there is no sandbox."""
        ...

    def describe(self) -> Description: ...

    async def run(
        self,
        command: Command,
        *,
        cwd: str,
        timeout_s: float,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a command to its end, or to the end of its time.

        A folder that does not exist and a program that is not found are outcomes, as in a shell.
        ``env`` is added to the sandbox's own few variables. Without ``stdin`` there is none.
        """
        ...

    async def read(self, path: str, *, bytes_max: int) -> Read | Unread:
        """Read a regular file as the agent would, through all links."""
        ...

    async def exists(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those that are regular files; what can be no path is none."""
        ...

    async def close(self) -> None:
        """End every command and remove the sandbox's own filesystem. Twice does no harm."""
        ...


def check_command(
    command: Command,
    *,
    cwd: str,
    timeout_s: float,
    stdin: bytes | None,
    env: Mapping[str, str] | None,
) -> None:
    """Raise ``Incorrect`` for what no sandbox can run."""
    if not command:
        raise Incorrect("an empty command")
    if not cwd.startswith("/"):
        raise Incorrect(f"the command's folder {cwd!r:.200} is not absolute")
    if not 0 < timeout_s <= TIMEOUT_SECONDS_MAX:
        raise Incorrect(f"timeout_s is between 0 and {TIMEOUT_SECONDS_MAX}, not {timeout_s}")
    if stdin is not None and len(stdin) > STDIN_BYTES_MAX:
        raise Incorrect(f"{len(stdin)} bytes of input; {STDIN_BYTES_MAX} at most")
    words = [command] if isinstance(command, str) else list(command)
    for name, value in (env or {}).items():
        if not name or "=" in name:
            raise Incorrect(f"{name!r:.200} cannot name a variable")
        words += [name, value]
    for word in [*words, cwd]:
        if "\0" in word:
            raise Incorrect(f"{word!r:.200} holds NUL, which no argument can")
