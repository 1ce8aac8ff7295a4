"""Containers that represent machines: the server's and a client's.

A client's machine has its own host name, file system, home and network address, and nothing of the
host but our code and its run-time dependencies, installed for the container's own Python. Touches
the Docker engine, the package index and the file system.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import HttpWaitStrategy

from tests.components import ROOT
from tests.xtdb.servers import SHORT_LIVED

INSTALL_SECONDS: Final = 120
"""To install the dependencies from the package index; 8 s on an idle machine."""

SERVER_PORT: Final = 3000
SERVER_NAME: Final = "xtdb"
SERVER_SECONDS: Final = 120
"""For the server to respond; 6 s on an idle machine."""

FOREVER: Final = ["sleep", "infinity"]


class Server:
    """An XTDB server in a container, reachable from the host by a published port."""

    def __init__(self, image: str, *, network: Network) -> None:
        ready = HttpWaitStrategy(SERVER_PORT, "/_xtdb/status").with_startup_timeout(SERVER_SECONDS)
        self._container = (
            DockerContainer(image)
            .with_network(network)
            .with_network_aliases(SERVER_NAME)
            .with_exposed_ports(SERVER_PORT)
            .with_envs(**SHORT_LIVED)
            .waiting_for(ready)
        )

    @property
    def url(self) -> str:
        """The URL of the store for the host."""
        return f"xtdb+http://127.0.0.1:{self._container.get_exposed_port(SERVER_PORT)}"

    @property
    def inner_url(self) -> str:
        """The URL of the store for other containers."""
        return f"xtdb+http://{SERVER_NAME}:{SERVER_PORT}"

    def __enter__(self) -> Self:
        self._container.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._container.stop()


class Machine:
    """The machine of a client. Programs run in it one after the other."""

    def __init__(self, image: str, *, network: Network, packages: Path) -> None:
        self._packages = packages
        self._container = (
            DockerContainer(image)
            .with_command(FOREVER)
            .with_network(network)
            .with_kwargs(hostname="another-machine", init=True)
            .with_env("PYTHONPATH", "/code:/packages")
            .with_env("PYTHONPYCACHEPREFIX", "/tmp/bytecode")
            .with_env("HOME", "/home/another")
            .with_volume_mapping(ROOT / "ctxmgr", "/code/ctxmgr")
            .with_volume_mapping(ROOT / "tests", "/code/tests")
            .with_volume_mapping(packages, "/packages")
        )

    def __enter__(self) -> Self:
        self._container.start()
        try:
            version = self._exec(
                ["python3", "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
            )
            _install(self._packages, python_version=version.strip())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._container.stop()

    @property
    def command(self) -> list[str]:
        """The prefix of a command that makes it run in this machine."""
        return ["docker", "exec", "--interactive", self._container.get_container_id()]

    def hostname(self) -> str:
        """The host name of this machine."""
        return self._exec(["hostname"]).strip()

    def _exec(self, command: list[str]) -> str:
        status, output = self._container.exec(command)
        text = output.decode()
        assert status == 0, text[-4000:]
        return text


def _install(target: Path, *, python_version: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--target", str(target), "--only-binary=:all:", "--python-version", python_version),
            *project["dependencies"],
            *project["optional-dependencies"]["xtdb"],
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
