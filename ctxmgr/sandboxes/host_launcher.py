"""Run one command on the host and end all its processes. A program that does not import ctxmgr.

    client ─► launcher ─► command ─► its children, even if they detach themselves

On Linux the launcher adopts every process whose parent has ended, so none escapes. It ends them all
when the command ends, on SIGTERM, and when the client dies. On other systems it reaches only the
command's process group.

It is started for every command, so it imports as little as possible.

    python host_launcher.py MEMORY_BYTES FILE_BYTES FOLDER PROGRAM ARGUMENT…
"""

import ctypes
import os
import resource
import signal
import sys
import time

KILL_SECONDS = 5
"""How long to keep killing processes that start new ones."""

PAUSE_SECONDS = 0.002

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""From <linux/prctl.h>."""

PARENT_FIELD = 1
"""In /proc/PID/stat after the name in brackets: state, then the parent's id."""


class Stopped(BaseException):
    """The client sent SIGTERM. A BaseException, so that ``except Exception`` does not catch it."""


def main(arguments: list[str]) -> int:
    memory_bytes, file_bytes, folder, *command = arguments
    parent = os.getppid()
    signal.signal(signal.SIGTERM, _stop)
    child = 0
    try:
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            return 128 + signal.SIGKILL
        child = os.fork()
        if child == 0:
            _become(command, folder, int(memory_bytes), int(file_bytes))
        while True:
            pid, status = os.wait()
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
    except Stopped:
        return 128 + signal.SIGKILL
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_all(child)


def _stop(_number: int, _frame: object) -> None:
    raise Stopped


def _become(command: list[str], folder: str, memory_bytes: int, file_bytes: int) -> None:
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(folder)
        _limit(resource.RLIMIT_DATA, memory_bytes)
        _limit(resource.RLIMIT_FSIZE, file_bytes)
        _limit(resource.RLIMIT_CORE, 0)
        os.execvp(command[0], command)  # noqa: S606 (the purpose of this program)
    except OSError as error:
        name = command[0] if error.filename is None else os.fsdecode(error.filename)
        os.write(2, f"{name}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) and name != folder else 126)


def _limit(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (value, value))


def _end_all(child: int) -> None:
    until = time.monotonic() + KILL_SECONDS
    if child:
        _kill(-child)
    while _has_children() and time.monotonic() < until:
        for pid in _descendants():
            _kill(pid)
        time.sleep(PAUSE_SECONDS)


def _has_children() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended, or belongs to another user now
        return


def _descendants() -> set[int]:
    if sys.platform != "linux":
        return set()
    parents = {pid: _parent(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}  # noqa: PTH208
    descendants: set[int] = set()
    todo = {os.getpid()}
    while todo:
        todo = {pid for pid, parent in parents.items() if parent in todo} - descendants
        descendants |= todo
    return descendants


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[PARENT_FIELD])
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
