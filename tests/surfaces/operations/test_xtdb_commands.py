"""`ctxmgr xtdb up|down|status` with a real server: started, found again, and stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import psutil
import pytest
from click.testing import CliRunner, Result

from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests.xtdb.servers import require_xtdb

Run = Callable[..., Result]

IN_MEMORY = ("--config", "memory", "--port", "0", "--json")

pytestmark = pytest.mark.xtdb


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a command line with folders that the tests of this module share."""
    folder = tmp_path_factory.mktemp("shared")
    places = {f"XDG_{name}_HOME": str(folder / name) for name in ("DATA", "STATE", "CONFIG")}
    return lambda *arguments: CliRunner().invoke(COMMANDS, list(arguments), env=places)


@pytest.fixture(scope="module")
def server(beside: Run) -> Iterator[dict[str, Any]]:
    """A server in memory on a free port, which no test stops."""
    require_xtdb()
    yield _json(beside("xtdb", "up", *IN_MEMORY))
    assert beside("xtdb", "down").exit_code == 0


def test_up_prints_the_url_of_a_server_that_answers(server: dict[str, Any]) -> None:
    """One command starts an XTDB server, without Clojure (003-R198: in memory as well)."""
    url = server["url"].removeprefix("xtdb+")

    reply = httpx.get(f"{url}/_xtdb/status", headers={"Accept": "application/edn"})
    assert reply.status_code == 200


def test_a_second_up_finds_the_same_server(beside: Run, server: dict[str, Any]) -> None:
    """A script may run `up` without checking first."""
    assert _json(beside("xtdb", "up", "--json")) == server
    assert _json(beside("xtdb", "status", "--json")) == server


def test_up_with_another_configuration_is_refused(beside: Run, server: dict[str, Any]) -> None:
    """A request for RocksDB must not be served from memory."""
    result = beside("xtdb", "up", "--config", "rocksdb")

    assert result.exit_code == 2
    assert "ctxmgr xtdb down" in result.stderr


def test_down_leaves_no_process_even_after_a_crash(ctxmgr: Run) -> None:
    """After a crash a process id is unreliable, but the lock is not. No child stays."""
    require_xtdb()
    killed = _json(ctxmgr("xtdb", "up", *IN_MEMORY))["pid"]
    os.kill(killed, signal.SIGKILL)
    os.waitpid(killed, 0)
    assert _json(ctxmgr("xtdb", "status", "--json"))["running"] is False
    again = _json(ctxmgr("xtdb", "up", *IN_MEMORY))["pid"]

    first = _json(ctxmgr("xtdb", "down", "--json"))
    second = _json(ctxmgr("xtdb", "down", "--json"))

    assert first["running"] is second["running"] is False
    with pytest.raises(ProcessLookupError):
        os.kill(again, 0)


def test_a_configuration_that_fails_shows_the_last_log_lines(ctxmgr: Run, home: Path) -> None:
    """The reason is in the log, which users should not have to look for."""
    require_xtdb()
    broken = home / "broken.edn"
    broken.write_text('{:xtdb/tx-log {:xtdb/module "no.such/module"}}', encoding="utf-8")

    result = ctxmgr("xtdb", "up", "--config", str(broken), "--port", "0")

    assert result.exit_code == 6
    assert "the end of its log:" in result.stderr
    assert "no/such" in result.stderr
    assert _json(ctxmgr("xtdb", "status", "--json"))["running"] is False


def test_the_error_for_a_port_in_use_names_it(ctxmgr: Run) -> None:
    """Port 3000 is popular; the user can choose another."""
    require_xtdb()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        result = ctxmgr("xtdb", "up", "--config", "memory", "--port", str(port))

    assert result.exit_code == 2
    assert f"port {port} cannot be used" in result.stderr


def test_an_unknown_configuration_is_refused(ctxmgr: Run) -> None:
    """A mistyped name must not start an empty database under another configuration."""
    result = ctxmgr("xtdb", "up", "--config", "rocks")

    assert result.exit_code == 2
    assert "rocksdb, memory, postgres or a file" in result.stderr


def test_without_java_the_error_says_to_install_it(
    ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the most common reason for a failed start."""
    monkeypatch.setenv("PATH", "/nowhere")

    result = ctxmgr("xtdb", "up")

    assert result.exit_code == 6
    assert "java is missing: install" in result.stderr


def test_without_maven_the_error_says_to_install_it(
    ctxmgr: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is needed only once, to download the jars."""
    require_xtdb()
    monkeypatch.setenv("CTXMGR_XTDB_LIB", str(home / "lib"))
    monkeypatch.setenv("PATH", _path_without("mvn", home / "bin"))

    result = ctxmgr("xtdb", "up", "--config", "memory")

    assert result.exit_code == 6
    assert "mvn is missing: install Maven" in result.stderr


def test_an_interrupted_start_leaves_no_server(home: Path) -> None:
    """A user who gives up waiting does not want the server either."""
    require_xtdb()
    started = home / "state" / "ctxmgr" / "xtdb" / "server.json"
    program = Path(sys.executable).with_name("ctxmgr")
    with subprocess.Popen([program, "xtdb", "up", *IN_MEMORY], start_new_session=True) as command:
        deadline = monotonic() + 60
        while not started.exists() and monotonic() < deadline:
            time.sleep(0.01)

        command.send_signal(signal.SIGTERM)

        assert command.wait(60) == 143
    assert not started.exists()


def test_the_demo_starts_and_stops_a_server(ctxmgr: Run) -> None:
    """One command shows the demo on XTDB, with nothing to clean up (003-R192)."""
    require_xtdb()
    before = set(psutil.Process().children(recursive=True))

    result = _json(ctxmgr("demo", "--xtdb", "--json"))

    assert result["store"].startswith("XTDB 1.24.3")
    assert result["fixed"]
    assert result["proven"]
    assert not any("xtdb+" in item["how"] for item in result["try_next"])  # it is gone
    assert set(psutil.Process().children(recursive=True)) <= before


def _json(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def _path_without(name: str, folder: Path) -> str:
    """Create a folder with links to all programs of PATH except one."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(":"):
        if Path(directory).is_dir():
            for program in Path(directory).iterdir():
                link = folder / program.name
                if program.name != name and not link.is_symlink():
                    link.symlink_to(program)
    return str(folder)
