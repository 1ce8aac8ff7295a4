"""The common part of sandboxes with their own filesystem. Runs commands in the sandbox.

A subclass only defines how a program is run (``_execute``). Commands are checked here, and files in
the sandbox are read by scripts that run inside it:

    read      opens the file once; its type, path and content are those of the open file, so a
              rename in between cannot mix two files
    exists    prints one 0 or 1 per path, so a file name cannot forge an answer

The scripts need ``sh``, ``xargs`` and the GNU tools ``stat``, ``readlink`` and ``head``. They
reveal nothing to the agent that it could not find out itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from ctxmgr.core.files.host_files import (
    PATH_BYTES_MAX,
    READS_MAX,
    VIRTUAL_FILESYSTEMS,
    encode_path,
)
from ctxmgr.core.files.mounts import Mounts
from ctxmgr.core.files.outcomes import (
    FOLDER,
    Fingerprint,
    MissingFile,
    ReadFile,
    Refusal,
    RefusedFile,
    Unreachable,
    Unread,
)
from ctxmgr.core.sandbox import (
    EXISTS_PATHS_MAX,
    Command,
    CommandResult,
    Limits,
    check_command,
)
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes.processes import RunningCommands, shell_words

SCRIPT_SECONDS: Final = 60
"""Time limit of a script: reading 10 MB takes milliseconds, checking 100,000 paths a second."""

HEADER_BYTES_MAX: Final = 3 * PATH_BYTES_MAX
"""Room for the output besides the file's bytes: a path and some numbers."""

MISSING, OTHER_KIND, UNREADABLE, LARGE = 3, 4, 5, 6
"""Exit codes of the script that reads a file."""

READ: Final = """\
export LC_ALL=C
kind=$(stat -Lc %F -- "$1" 2>&1) || { printf %s "$kind"; exit 3; }
case $kind in regular*) ;; *) printf %s "$kind"; exit 4 ;; esac
exec 3<"$1" || exit 5
stat -Lc %F /dev/fd/3 | grep -q ^regular || exit 4
seen=$(stat -Lc '%s %.9Y %.9Z %i' /dev/fd/3) || exit 5
[ "${seen%% *}" -le "$2" ] || { printf %s "${seen%% *}"; exit 6; }
stat -fLc %t /dev/fd/3
echo "$seen"
readlink -z /proc/self/fd/3
head -c "$(($2 + 1))" <&3
printf '\\0'
stat -Lc '%s %.9Y %.9Z %i' /dev/fd/3
"""

EXISTS: Final = (
    "xargs -0 sh -c 'for file; do if [ -f \"$file\" ]; then printf 1; else printf 0; fi; done' sh"
)


class Execute(Protocol):
    """Runs a script in the sandbox."""

    async def __call__(
        self, argv: Sequence[str], *, stdin: bytes | None, output_bytes: int
    ) -> CommandResult: ...


async def read_inside(
    execute: Execute, path: str, *, bytes_max: int, mounts: Mounts
) -> ReadFile | Unread:
    """Read a file in the sandbox, again if it changes while it is read."""
    name = encode_path(path)
    if isinstance(name, RefusedFile):
        return name
    outcome: ReadFile | Unread = Unreachable("never read")
    for _ in range(READS_MAX):
        argv = ("sh", "-c", READ, "sh", path, str(bytes_max))
        ran = await execute(argv, stdin=None, output_bytes=2 * (bytes_max + HEADER_BYTES_MAX))
        outcome = parse_read(ran, bytes_max=bytes_max, mounts=mounts)
        if not isinstance(outcome, ReadFile) or outcome.whole:
            break
    return outcome


async def exist_inside(execute: Execute, paths: Iterable[str]) -> frozenset[str]:
    """Return which paths are regular files in the sandbox."""
    encoded = {path: encode_path(path) for path in paths}
    names = {path: name for path, name in encoded.items() if isinstance(name, bytes)}
    if len(names) > EXISTS_PATHS_MAX:
        raise Incorrect(f"{len(names)} paths; at most {EXISTS_PATHS_MAX} can be checked at once")
    if not names:
        return frozenset()
    stdin = b"".join(name + b"\0" for name in names.values())
    ran = await execute(("sh", "-c", EXISTS), stdin=stdin, output_bytes=4 * len(names) + 1024)
    if ran.exit_code or len(ran.output) != len(names):
        raise Unavailable(f"the sandbox could not check which files exist: {ran.text:.200}")
    return frozenset(
        path for path, is_file in zip(names, ran.output, strict=True) if is_file == ord("1")
    )


def parse_read(ran: CommandResult, *, bytes_max: int, mounts: Mounts) -> ReadFile | Unread:
    """Parse the output of the script that reads a file."""
    if ran.timed_out:
        return Unreachable(f"no answer in {SCRIPT_SECONDS} s")
    if ran.exit_code == LARGE:
        return _too_large(ran.text, bytes_max)
    if ran.exit_code == OTHER_KIND:
        kind = FOLDER if ran.text == "directory" else ran.text
        return RefusedFile(Refusal.NOT_A_FILE, kind or "no longer a regular file")
    if ran.exit_code == MISSING:
        return _missing(ran.text)
    if ran.exit_code:
        return Unreachable(ran.text[:200] or f"exit code {ran.exit_code}")
    return _parse_content(ran.output, bytes_max, mounts)


def _parse_content(output: bytes, bytes_max: int, mounts: Mounts) -> ReadFile | Unread:
    head, _, rest = output.partition(b"\0")
    data, _, after = rest.rpartition(b"\0")
    try:
        magic, before, name = head.split(b"\n", 2)
        size, mtime, ctime, inode = after.split()
        fingerprint = Fingerprint(
            mtime_ns=_nanoseconds(mtime),
            ctime_ns=_nanoseconds(ctime),
            size=int(size),
            inode=int(inode),
        )
        unchanged = before.strip() == after.strip()
        is_virtual = int(magic, 16) in VIRTUAL_FILESYSTEMS
    except ValueError:
        return Unreachable(f"unexpected output of the sandbox's tools: {output[:80]!r}")
    if is_virtual:
        return RefusedFile(Refusal.NOT_A_FILE, "a file that the kernel generates")
    if len(data) > bytes_max:
        return _too_large(str(len(data)), bytes_max)
    try:
        agent_path = name.decode()
    except UnicodeDecodeError:
        return RefusedFile(Refusal.NAME, "the file's name is not valid UTF-8")
    return ReadFile(
        location=mounts.location_of(agent_path),
        agent_path=agent_path,
        fingerprint=fingerprint,
        data=data,
        whole=unchanged and len(data) == fingerprint.size,
    )


def _nanoseconds(text: bytes) -> int:
    seconds, _, fraction = text.partition(b".")
    return int(seconds + fraction.ljust(9, b"0"))


def _missing(message: str) -> Unread:
    if "No such file" in message or "Not a directory" in message:
        return MissingFile(message)
    if "Too many levels" in message:
        return RefusedFile(Refusal.LOOP, message)
    if "too long" in message:
        return RefusedFile(Refusal.NAME, message)
    return Unreachable(message)


def _too_large(size: str, bytes_max: int) -> RefusedFile:
    return RefusedFile(Refusal.TOO_LARGE, f"{size} bytes; {bytes_max} at most")


class IsolatedSandbox(ABC):
    """Implements ``core.sandbox.Sandbox`` except for what depends on the technology."""

    def __init__(self, *, mounts: Mounts, limits: Limits) -> None:
        self._mounts = mounts
        self._limits = limits
        self._running = RunningCommands()

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
    ) -> CommandResult:
        check_command(command, cwd=cwd, timeout_s=timeout_s, stdin=stdin, env=env)
        return await self._execute(
            shell_words(command),
            cwd=cwd,
            timeout_s=timeout_s,
            stdin=stdin,
            env=env or {},
            output_bytes=self._limits.output_bytes,
        )

    async def read(self, path: str, *, bytes_max: int) -> ReadFile | Unread:
        return await read_inside(self._run_script, path, bytes_max=bytes_max, mounts=self._mounts)

    async def exists(self, paths: Iterable[str]) -> frozenset[str]:
        return await exist_inside(self._run_script, paths)

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
    ) -> CommandResult:
        """Run a program in the sandbox until it ends or times out."""

    async def _run_script(
        self, argv: Sequence[str], *, stdin: bytes | None, output_bytes: int
    ) -> CommandResult:
        return await self._execute(
            argv,
            cwd="/",
            timeout_s=SCRIPT_SECONDS,
            stdin=stdin,
            env={},
            output_bytes=output_bytes,
        )
