"""What the client asks a sandbox about its files: the scripts that run inside, and their answers.

    read      a file is opened once; what it is, where it is and what it holds is asked of the open
              file, so that a name changed meanwhile cannot mix two of them
    exists    one 0 or 1 for each path, so that no name can forge an answer

Pure but for the running, which is the sandbox's. The scripts need ``sh``, ``xargs`` and the GNU
tools ``stat``, ``readlink`` and ``head``. They tell the agent nothing it could not ask itself.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ctxmgr.core.file_outcomes import Fingerprint, Gone, Read, Refusal, Refused, Unreachable, Unread
from ctxmgr.core.kernel_filesystems import MADE_UP
from ctxmgr.core.mounts import Mounts
from ctxmgr.core.sandbox import EXISTS_PATHS_MAX, Ran
from ctxmgr.errors import Incorrect, Unavailable

QUESTION_SECONDS: Final = 60
"""For one answer: reading 10 MB takes milliseconds, asking for 100,000 paths a second or two."""

READS_MAX: Final = 3
"""How often a file is read that changes meanwhile, as for files of the host."""

PATH_BYTES_MAX: Final = 4_095
"""Linux's PATH_MAX without the NUL at its end."""

HEADER_BYTES_MAX: Final = 3 * PATH_BYTES_MAX
"""Room for what is said besides the file's bytes: a path and some numbers."""

MISSING, OTHER_KIND, CLOSED, LARGE = 3, 4, 5, 6
"""How the script ends where there is nothing to read."""

READ: Final = """\
export LC_ALL=C
said=$(stat -Lc %F -- "$1" 2>&1) || { printf %s "$said"; exit 3; }
case $said in regular*) ;; *) printf %s "$said"; exit 4 ;; esac
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
    "xargs -0 sh -c 'for each; do if [ -f \"$each\" ]; then printf 1; else printf 0; fi; done' sh"
)


class Execute(Protocol):
    """How a sandbox runs a question."""

    async def __call__(
        self, argv: Sequence[str], *, stdin: bytes | None, output_bytes: int
    ) -> Ran: ...


async def read_inside(
    execute: Execute, path: str, *, bytes_max: int, mounts: Mounts
) -> Read | Unread:
    """Read a file in the sandbox, again if it changes meanwhile."""
    refused = _no_path(path)
    if refused is not None:
        return refused
    outcome: Read | Unread = Unreachable("never read")
    for _ in range(READS_MAX):
        argv = ("sh", "-c", READ, "sh", path, str(bytes_max))
        ran = await execute(argv, stdin=None, output_bytes=2 * (bytes_max + HEADER_BYTES_MAX))
        outcome = answer_to_read(ran, bytes_max=bytes_max, mounts=mounts)
        if not isinstance(outcome, Read) or outcome.whole:
            break
    return outcome


async def exist_inside(execute: Execute, paths: Iterable[str]) -> frozenset[str]:
    """Ask which paths are regular files in the sandbox."""
    asked = [path for path in dict.fromkeys(paths) if _no_path(path) is None]
    if len(asked) > EXISTS_PATHS_MAX:
        raise Incorrect(f"{len(asked)} paths in one question; {EXISTS_PATHS_MAX} at most")
    if not asked:
        return frozenset()
    named = b"".join(_encoded(path) + b"\0" for path in asked)
    ran = await execute(("sh", "-c", EXISTS), stdin=named, output_bytes=4 * len(asked) + 1024)
    if ran.exit_code or len(ran.output) != len(asked):
        raise Unavailable(f"the sandbox cannot be asked for files: {ran.text:.200}")
    return frozenset(
        path for path, is_file in zip(asked, ran.output, strict=True) if is_file == ord("1")
    )


def answer_to_read(ran: Ran, *, bytes_max: int, mounts: Mounts) -> Read | Unread:
    """Understand what the script said."""
    if ran.timed_out:
        return Unreachable(f"no answer in {QUESTION_SECONDS} s")
    if ran.exit_code == LARGE:
        return _too_large(ran.text, bytes_max)
    if ran.exit_code == OTHER_KIND:
        return Refused(Refusal.NOT_A_FILE, ran.text or "no regular file any more")
    if ran.exit_code == MISSING:
        return _missing(ran.text)
    if ran.exit_code:
        return Unreachable(ran.text[:200] or f"exit code {ran.exit_code}")
    return _answered(ran.output, bytes_max, mounts)


def _answered(output: bytes, bytes_max: int, mounts: Mounts) -> Read | Unread:
    head, _, rest = output.partition(b"\0")
    data, _, after = rest.rpartition(b"\0")
    try:
        magic, before, name = head.split(b"\n", 2)
        fingerprint, whole = _fingerprint(after), before.strip() == after.strip()
        made_up = int(magic, 16) in MADE_UP
    except ValueError:
        return Unreachable(f"the sandbox's tools answered {output[:80]!r}")
    if made_up:
        return Refused(Refusal.NOT_A_FILE, "a file that the kernel makes up")
    if len(data) > bytes_max:
        return _too_large(str(len(data)), bytes_max)
    try:
        agent_path = name.decode()
    except UnicodeDecodeError:
        return Refused(Refusal.NAME, "the file's name is no UTF-8")
    return Read(
        place=mounts.place_of(agent_path),
        agent_path=agent_path,
        fingerprint=fingerprint,
        data=data,
        whole=whole and len(data) == fingerprint.size,
    )


def _fingerprint(said: bytes) -> Fingerprint:
    size, mtime, ctime, inode = said.split()
    return Fingerprint(
        mtime_ns=_nanoseconds(mtime), ctime_ns=_nanoseconds(ctime), size=int(size), inode=int(inode)
    )


def _nanoseconds(said: bytes) -> int:
    seconds, _, rest = said.partition(b".")
    return int(seconds + rest.ljust(9, b"0"))


def _missing(said: str) -> Unread:
    if "No such file" in said or "Not a directory" in said:
        return Gone(said)
    if "Too many levels" in said:
        return Refused(Refusal.LOOP, said)
    if "too long" in said:
        return Refused(Refusal.NAME, said)
    return Unreachable(said)


def _too_large(size: str, bytes_max: int) -> Refused:
    return Refused(Refusal.TOO_LARGE, f"{size} bytes; {bytes_max} at most")


def _no_path(path: str) -> Refused | None:
    if not path.startswith("/"):
        return Refused(Refusal.NAME, "the path is not absolute")
    if "\0" in path:
        return Refused(Refusal.NAME, "the path holds NUL")
    try:
        name = _encoded(path)
    except UnicodeEncodeError:
        return Refused(Refusal.NAME, "the path is no text")
    if len(name) > PATH_BYTES_MAX:
        return Refused(Refusal.NAME, f"{len(name)} bytes; {PATH_BYTES_MAX} at most")
    return None


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
