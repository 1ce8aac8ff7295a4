"""Real XTDB servers for tests, started by the same script that users run.

    with XtdbServer() as server:                     # in memory, on a free port
        httpx.get(server.url + "/_xtdb/status")

    server = XtdbServer()
    server.start(config="rocksdb", data_dir=tmp_path)
    server.kill()                                    # like a power cut
    server.restart()                                 # same data, same port
    server.stop()

Touches processes and the file system. Nothing outlives the interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.components import need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

START = Path(__file__).resolve().parents[2] / "xtdb" / "start"
READY = "ctxmgr-xtdb ready "
READY_TIMEOUT_S = 120.0
"""Two busy cores take some ten seconds; the limit allows for a loaded machine."""
FETCH_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 15.0
PATIENCE_S = 60.0
"""For one call of a store: what is tested is the answer, on however busy a machine. The default of
ten seconds is missed by the largest transactions; ``test_deadline`` tests the time."""
ENDED_BY_SIGTERM = 143
"""The exit status of a JVM that was asked to end and did."""
SHORT_LIVED = {"CTXMGR_XTDB_JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
"""Short-lived servers never recover the cost of the optimising compiler: half their time. Set for
all tests, and kept by fixtures that clear other settings."""

_running: set[XtdbServer] = set()


def require_xtdb() -> None:
    """Skip the test if no server can be started; in CI, fail it."""
    need("java")
    if "CTXMGR_XTDB_LIB" not in os.environ:
        need("maven")


def fetch() -> None:
    """Download the jars and compile the HTTP server, once for all tests."""
    done = subprocess.run(
        [str(START), "--fetch"],
        check=False,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"xtdb/start --fetch failed:\n{done.stderr[-2000:]}")


class XtdbServer:
    """One server process at a time; `url` is valid while it runs."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self._config = "memory"
        self._data_dir: Path | None = None
        self._env: dict[str, str] = {}
        self._args: list[str] = []
        self._own_data_dir: tempfile.TemporaryDirectory[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._stderr_path: Path | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def stderr(self) -> str:
        """The server's log so far."""
        if self._stderr_path is None or not self._stderr_path.exists():
            return ""
        return self._stderr_path.read_text(encoding="utf-8", errors="replace")

    def start(
        self,
        config: str = "memory",
        *,
        data_dir: Path | None = None,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        port: int = 0,
    ) -> Self:
        """Start, and wait until ready. `config`: memory, rocksdb, postgres, or a file.

        Without `data_dir` a temporary one is used, which lasts as long as this object.
        """
        self._config = config
        self._env = dict(env or {})
        self._args = list(args)
        self._data_dir = Path(data_dir) if data_dir is not None else self._temporary_dir()
        self._launch(port)
        return self

    def restart(self) -> Self:
        """Restart with the same settings, data and port."""
        self.stop()
        self._launch(self.port)
        return self

    def stop(self) -> int | None:
        """Stop it with SIGTERM, or kill it after a timeout; return its exit status."""
        if self._process is None:
            return None
        process = self._process
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        self._reap()
        return process.returncode

    def kill(self) -> None:
        """Kill it (SIGKILL); nothing is flushed or closed."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server and remove the temporary data directory."""
        self.stop()
        if self._own_data_dir is not None:
            self._own_data_dir.cleanup()
            self._own_data_dir = None

    def _temporary_dir(self) -> Path:
        if self._own_data_dir is None:
            self._own_data_dir = tempfile.TemporaryDirectory(prefix="xtdb-test-")
        return Path(self._own_data_dir.name)

    def _launch(self, port: int) -> None:
        assert self._process is None, "already started"
        assert self._data_dir is not None, "restart() needs a start() before"
        require_xtdb()
        fetch()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._stderr_path = self._data_dir / "stderr.log"
        command = [str(START), self._config, "--port", str(port)]
        with self._stderr_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--data-dir", str(self._data_dir), *self._args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self._env},
            )
        _running.add(self)
        self._await_ready()

    def _await_ready(self) -> None:
        assert self._process is not None
        self._lines = queue.Queue()
        threading.Thread(
            target=_pump, args=(self._process, self._lines), name="xtdb-stdout", daemon=True
        ).start()
        try:
            line = self._lines.get(timeout=READY_TIMEOUT_S)
        except queue.Empty:
            line = None
        if line is None or not line.startswith(READY):
            self.kill()
            raise RuntimeError(f"XTDB did not start: {self.stderr[-2000:] or line}")
        self.url = line.removeprefix(READY).strip()
        self.port = int(self.url.rsplit(":", 1)[1])

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait()
        if self._process.stdout is not None:
            with contextlib.suppress(OSError):
                self._process.stdout.close()
        self._process = None
        _running.discard(self)


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


@atexit.register
def _kill_all() -> None:
    for server in list(_running):
        server.kill()
