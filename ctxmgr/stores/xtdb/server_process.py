"""Run a local XTDB server: start it, find it again, stop it. Starts a process; needs Java.

    up      fetch the jars, start in the background, wait until ready    idempotent
    status  whether it runs, and at which URL
    down    stop it and wait until it has ended                          idempotent

A file lock shows whether the server runs: the server inherits it, and the kernel releases it when
the last process ends. A process id alone might already belong to another program.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import orjson

from ctxmgr.core.private_files import make_private_folder
from ctxmgr.errors import Incorrect, Unavailable

FETCH_WAIT_S: Final = 900
"""Time to download 64 MB of jars, and to compile, which takes half a minute on two cores."""

START_WAIT_S: Final = 120
"""A node is ready within 15 s on two busy cores; rebuilding a large index takes longer."""

STOP_WAIT_S: Final = 30
"""Closing RocksDB takes a second or two. A kill afterwards loses nothing acknowledged."""

LOG_LINES: Final = 12
"""Lines of the log that are shown if a start fails."""

LOCK_TRIES: Final = 5
"""Half a second in total; a status command holds the lock only for a moment."""

SHIPPED_CONFIGS: Final = ("rocksdb", "memory", "postgres")

PORT: Final = 3000
"""The port in the shipped configurations."""

_POLL_S: Final = 0.1
_READY: Final = "ctxmgr-xtdb ready "


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    running: bool
    url: str | None
    """URL for ``--store``; None if it is not running, or not ready yet."""
    pid: int | None
    config: str | None
    data_dir: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """What is saved about a start, in addition to the lock."""

    pid: int
    config: str


@dataclass(frozen=True, slots=True, kw_only=True)
class XtdbProcess:
    """The server of these folders."""

    state_dir: Path
    """Lock, process id and log."""
    data_dir: Path
    lib_dir: Path
    """Jars and compiled classes, which can be fetched again. ``CTXMGR_XTDB_LIB`` overrides it."""
    token: str | None = None
    """Token that clients must send; None: everyone who can reach the port has access."""
    say: Callable[[str], None] = lambda _: None

    async def up(self, *, config: str | None = None, port: int | None = None) -> ServerStatus:
        """Start the server if it is not running, and return once it is ready.

        ``config`` is rocksdb, memory, postgres or a file; None: the running one, else rocksdb. Port
        0 takes a free one. Raises ``Incorrect`` if it runs with another configuration,
        ``Unavailable`` with the end of the log if it does not start.
        """
        config = config and _config_name(config)
        if self._alive():
            return await self._join(config)
        config = config or SHIPPED_CONFIGS[0]
        _require_java()
        await self._fetch()
        if port != 0 and (port or config in SHIPPED_CONFIGS):
            _require_port(port or PORT)
        if not await self._start(config, port):
            return await self._join(config)
        try:
            await self._ready()
        except BaseException:
            await self.down()
            raise
        return self.status()

    async def down(self) -> ServerStatus:
        """Stop the server if it runs, and return once it has ended."""
        started = self._remembered()
        if self._alive():
            if started is None:
                raise Unavailable(
                    "another command is starting the server: try again once it is ready"
                )
            self.say(f"stopping process {started.pid}")
            _signal(started.pid, signal.SIGTERM)
            if not await self._gone(STOP_WAIT_S):
                _signal(started.pid, signal.SIGKILL)
                await self._gone(STOP_WAIT_S)
        if started is not None:
            await _reap(started.pid)
        self._file("server.json").unlink(missing_ok=True)
        return self.status()

    def status(self) -> ServerStatus:
        """Return whether the server runs, and its URL."""
        started = self._remembered() if self._alive() else None
        return ServerStatus(
            running=started is not None,
            url=self._url() if started else None,
            pid=started.pid if started else None,
            config=started.config if started else None,
            data_dir=str(self.data_dir),
            log=str(self._file("log")),
        )

    async def _join(self, config: str | None) -> ServerStatus:
        """Wait for a server that another command has started."""
        await self._ready()
        status = self.status()
        if config is not None and status.config != config:
            raise Incorrect(
                f"the server runs with {status.config}, not {config}; "
                "stop it first with: ctxmgr xtdb down"
            )
        return status

    async def _fetch(self) -> None:
        self.say("fetching and compiling the server (only once)")
        process = await asyncio.create_subprocess_exec(
            *("sh", str(shipped("xtdb") / "start"), "--fetch"),
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(FETCH_WAIT_S):
                _, errors = await process.communicate()
        except BaseException as error:
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"the server could not be prepared within {FETCH_WAIT_S} s: check that Maven "
                    "can reach its repository, and start again (downloads are kept)"
                ) from error
            raise
        if process.returncode:
            raise Unavailable(_tail("the server cannot be prepared", errors.decode("utf-8")))

    async def _start(self, config: str, port: int | None) -> bool:
        """Start the server with the lock; False if another command was faster."""
        make_private_folder(self.state_dir)
        make_private_folder(self.data_dir)
        with self._file("lock").open("a", encoding="utf-8") as lock:
            if not await _take_soon(lock.fileno()):
                return False
            os.set_inheritable(lock.fileno(), True)
            self._keep_old_log()
            arguments = ["sh", str(shipped("xtdb") / "start"), config]
            arguments += [] if port is None else ["--port", str(port)]
            self.say(f"starting with {config}")
            started = _Started(pid=self._spawn(arguments), config=config)
            self._file("server.json").write_bytes(orjson.dumps(asdict(started)))
            return True

    def _spawn(self, arguments: list[str]) -> int:
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.posix_spawnp(
            arguments[0],
            arguments,
            self._environment(),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._file("ready")), write, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, str(self._file("log")), write, 0o600),
            ],
            setsid=True,  # Ctrl-C in the terminal must not end it
        )

    async def _ready(self) -> None:
        self.say("waiting for the server")
        deadline = monotonic() + START_WAIT_S
        while self._url() is None:
            if not self._alive():
                raise Unavailable(_tail("the server did not start", self._log()))
            if monotonic() > deadline:
                raise Unavailable(
                    _tail(f"the server was not ready after {START_WAIT_S} s", self._log())
                )
            await asyncio.sleep(_POLL_S)

    async def _gone(self, wait_s: float) -> bool:
        deadline = monotonic() + wait_s
        while self._alive() and monotonic() < deadline:  # noqa: ASYNC110 (a lock cannot be awaited)
            await asyncio.sleep(_POLL_S)
        return not self._alive()

    def _alive(self) -> bool:
        if not self._file("lock").exists():
            return False
        with self._file("lock").open("a", encoding="utf-8") as lock:
            return not _take(lock.fileno())

    def _url(self) -> str | None:
        ready = _read(self._file("ready"))
        return f"xtdb+{ready.removeprefix(_READY).strip()}" if ready.endswith("\n") else None

    def _remembered(self) -> _Started | None:
        text = _read(self._file("server.json"))
        return _Started(**orjson.loads(text)) if text else None

    def _keep_old_log(self) -> None:
        self._file("ready").unlink(missing_ok=True)
        if self._file("log").exists():
            self._file("log").replace(self._file("log.old"))

    def _log(self) -> str:
        return _read(self._file("log"))

    def _file(self, name: str) -> Path:
        return self.state_dir / name

    def _environment(self) -> dict[str, str]:
        ours = {"CTXMGR_XTDB_DATA": str(self.data_dir)}
        if self.token is not None:
            ours["CTXMGR_XTDB_TOKEN"] = self.token
        return {"CTXMGR_XTDB_LIB": str(self.lib_dir), **os.environ, **ours}


def shipped(folder: str) -> Path:
    """Return a folder that is shipped with ctxmgr: in the wheel, or beside it in a checkout."""
    package = Path(__file__).parent.parent.parent
    inside = package / "shipped" / folder
    return inside if inside.is_dir() else package.parent / folder


def _config_name(config: str) -> str:
    if config in SHIPPED_CONFIGS:
        return config
    path = Path(config).absolute()
    if not path.is_file():
        raise Incorrect(f"unknown configuration {config!r} (rocksdb, memory, postgres or a file)")
    return str(path)


def _require_java() -> None:
    if shutil.which("java") is None:
        raise Unavailable("java is missing: install a Java runtime, version 17 or newer")


def _require_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise Incorrect(
                f"port {port} cannot be used ({error}); choose another --port (0: a free one)"
            ) from error


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _take_soon(lock: int) -> bool:
    # A status command holds the lock for a moment; only a server keeps it.
    for _ in range(LOCK_TRIES):
        if _take(lock):
            return True
        await asyncio.sleep(_POLL_S)
    return False


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it may have ended already
        os.killpg(pid, number)


async def _reap(pid: int) -> None:
    # Its lock is released a moment before the process can be waited for.
    deadline = monotonic() + STOP_WAIT_S
    while not _is_reaped(pid) and monotonic() < deadline:  # noqa: ASYNC110 (nothing to await)
        await asyncio.sleep(_POLL_S)


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:  # started by another command: not our child
        return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _tail(what: str, text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()][-LOG_LINES:]
    return "\n".join(
        [f"{what}; the end of its log:" if lines else f"{what}; its log is empty", *lines]
    )
