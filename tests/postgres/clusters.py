"""A private PostgreSQL cluster for tests: its own directory, port and password.

    with PostgresCluster() as cluster:
        XtdbServer().start("postgres", env=cluster.environment)

Touches processes and the file system. PostgreSQL refuses to run as root, so root runs it as
another user; the directory is outside pytest's, which only root may enter. It does not sync
to disk: no test crashes the database itself.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from tests.components import postgres_programs

PROGRAM_SECONDS: Final = 60
"""For a PostgreSQL program to end; initdb takes 2 s on an idle machine."""

SERVER_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "50",
}

_Identity: TypeAlias = dict[str, Any]
"""The user, group and groups of a child, as ``subprocess`` names them."""


class PostgresCluster:
    """One server with one empty database."""

    def __init__(self) -> None:
        programs = postgres_programs()
        assert programs is not None, 'a test that needs this asks need("postgres") first'
        self._programs = programs
        self._owner = _unprivileged_user() if os.geteuid() == 0 else None
        self._directory = Path(tempfile.mkdtemp(prefix="ctxmgr-postgres-"))
        self.port = _free_port()
        self._password = secrets.token_urlsafe(12)
        self._server: subprocess.Popen[Any] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Connection settings, in the variables that every PostgreSQL client reads."""
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGDATABASE": "xtdb",
            "PGUSER": "xtdb",
            "PGPASSWORD": self._password,
        }

    def __enter__(self) -> Self:
        try:
            self._create()
            self._start()
            self._run("createdb", "--maintenance-db=postgres", "xtdb")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)  # immediate shutdown, including its children
            self._server.wait(PROGRAM_SECONDS)
        shutil.rmtree(self._directory)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _create(self) -> None:
        password_file = self._directory / "password"
        password_file.write_text(self._password)
        if self._owner is not None:
            for path in (self._directory, password_file):
                os.chown(path, self._owner.pw_uid, self._owner.pw_gid)
        self._run(
            *("initdb", "--no-sync", "--locale=C", "--encoding=UTF8", "--username=xtdb"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}", f"--pgdata={self._data}"),
        )
        settings = {**SERVER_SETTINGS, "port": str(self.port)}
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _start(self) -> None:
        with self._log.open("a") as output:
            server = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                **self._as_owner(),
            )
        self._server = server
        deadline = time.monotonic() + PROGRAM_SECONDS
        while self._status("pg_isready", "--quiet") != 0:
            assert server.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> None:
        status = self._status(program, *arguments)
        assert status == 0, f"{program}: {self._log.read_text()[-2000:]}"

    def _status(self, program: str, *arguments: str) -> int:
        """Run one of PostgreSQL's programs as the owner."""
        with self._log.open("a") as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                timeout=PROGRAM_SECONDS,
                env={**os.environ, **self.environment},
                **self._as_owner(),
            )
        return done.returncode

    def _as_owner(self) -> _Identity:
        if self._owner is None:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}


def _unprivileged_user() -> pwd.struct_passwd:
    """The user of the package, or else ``nobody``."""
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
