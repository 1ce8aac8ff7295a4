"""The process that has imported everything and forks a `ctxmgr` for every request.

Runs as a program: ``python -m tests.warm.forking SOCKET``. It ends when its standard input does,
and kills what it forked. A command is killed when its launcher is gone.
"""

import atexit
import gc
import importlib
import marshal
import os
import selectors
import signal
import socket
import sys
import threading
from typing import IO, Final, NoReturn

from ctxmgr.surfaces.terminal.cli import main as ctxmgr
from tests.warm.launcher import LENGTH_BYTES

IMPORTED: Final = (
    "anyio._backends._asyncio",
    "ctxmgr.app",
    "ctxmgr.core.client.live_economy",
    "ctxmgr.core.client.tracker_loop",
    "ctxmgr.core.discovery.discover",
    "ctxmgr.core.secrets.known_forms",
    "ctxmgr.harness.run",
    "ctxmgr.memory.repository",
    "ctxmgr.models.anthropic",
    "ctxmgr.models.openai",
    "ctxmgr.search.piece_index",
    "ctxmgr.stores.sqlite.store",
    "ctxmgr.surfaces.catalogue.operations",
    "ctxmgr.surfaces.http.server",
    "ctxmgr.surfaces.mcp.serve",
    "ctxmgr.surfaces.mcp.transports",
    "ctxmgr.surfaces.terminal.command",
    "httpx",
)
BACKLOG: Final = 64


def main(path: str) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    Forking(path).run()


class Forking:
    """Commands by the connection of their launcher."""

    def __init__(self, path: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{path}.new")
        self.listener.listen(BACKLOG)
        os.rename(f"{path}.new", path)  # noqa: PTH104 (it appears when it listens)
        self.wakeup, waking = socket.socketpair()
        waking.setblocking(False)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.waking = waking
        self.commands: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()
        for source in (self.listener, self.wakeup, sys.stdin):
            self.selector.register(source, selectors.EVENT_READ)

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is sys.stdin:
                    self._end()
                elif key.fileobj is self.listener:
                    self._fork()
                elif key.fileobj is self.wakeup:
                    self.wakeup.recv(4096)
                    self._reap()
                else:
                    self._abandoned(key.fd)

    def _fork(self) -> None:
        connection, _ = self.listener.accept()
        received, streams, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 3)
        length = int.from_bytes(received, "big")
        with connection.makefile("rb") as asking:
            asked = asking.read(length)
        if not asked or len(asked) < length:  # the launcher was killed before it had asked
            for descriptor in (*streams, connection.detach()):
                os.close(descriptor)
            return
        words, environment, folder, mask = marshal.loads(asked)
        process_id = os.fork()
        if process_id == 0:
            signal.set_wakeup_fd(-1)
            for each in (self.listener, self.wakeup, self.waking, connection):
                each.close()
            for each in self.commands.values():
                each.close()
            self.selector.close()
            _run(words, environment, folder, mask, streams)
        for stream in streams:
            os.close(stream)
        self.commands[process_id] = connection
        try:
            connection.sendall(f"{process_id}\n".encode())
        except BrokenPipeError:  # it was killed after that
            os.kill(process_id, signal.SIGKILL)
            connection.close()
        else:
            self.selector.register(connection, selectors.EVENT_READ)

    def _reap(self) -> None:
        while self.commands:
            process_id, status = os.waitpid(-1, os.WNOHANG)
            if process_id == 0:
                return
            connection = self.commands.pop(process_id)
            if connection.fileno() < 0:
                continue
            self.selector.unregister(connection)
            try:
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            except BrokenPipeError:  # the launcher was killed just now
                continue
            finally:
                connection.close()

    def _abandoned(self, descriptor: int) -> None:
        for process_id, connection in self.commands.items():
            if connection.fileno() == descriptor:
                os.kill(process_id, signal.SIGKILL)
                self.selector.unregister(connection)
                connection.close()
                return

    def _end(self) -> NoReturn:
        for process_id in self.commands:
            os.kill(process_id, signal.SIGKILL)
        os._exit(0)


def _run(
    words: list[str],
    environment: dict[bytes, bytes],
    folder: bytes,
    mask: int,
    streams: list[int],
) -> NoReturn:
    """Be the command that was asked for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(folder)
    os.umask(mask)
    sys.argv = ["ctxmgr", *words]
    sys.stdin = sys.__stdin__ = _stream(0, "r")
    sys.stdout = sys.__stdout__ = _stream(1, "w")
    sys.stderr = sys.__stderr__ = _stream(2, "w")
    code: object = 0
    try:
        ctxmgr()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    if isinstance(code, str):
        sys.stderr.write(code + "\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _stream(number: int, mode: str) -> IO[str]:
    errors = "backslashreplace" if number == 2 else "strict"
    stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    if mode == "w":
        stream.reconfigure(line_buffering=number == 2 or stream.isatty())
    return stream


if __name__ == "__main__":
    main(sys.argv[1])
