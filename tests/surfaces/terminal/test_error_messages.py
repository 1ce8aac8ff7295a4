"""Errors on the command line: one line with the cause, the remedy, and an exit code."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import Result

from ctxmgr import errors
from ctxmgr.core.store.urls import redact_url, redact_urls
from ctxmgr.surfaces.error_answers import ANSWERS, line, remedy

Run = Callable[..., Result]


def test_every_error_has_an_exit_code() -> None:
    """Scripts branch on exit codes; an error without one would look like a bug."""
    named = [item for item in vars(errors).values() if isinstance(item, type)]
    kinds = [entry for entry in named if issubclass(entry, errors.CtxmgrError)]

    assert {kind.code for kind in kinds} == set(ANSWERS)


@pytest.mark.parametrize(
    ("url", "exit_code", "message"),
    [
        ("mongodb://host", 2, "unknown kind of store 'mongodb'; use a path, or one of: sqlite:///"),
        ("host:3000", 2, "is neither a path nor a store URL; use a path, or one of: sqlite:///"),
        ("store.db", 3, "no store at store.db; create one with `ctxmgr demo --store store.db`"),
        ("xtdb+http://[::1", 2, "invalid URL"),
        ("xtdb+http://:3000", 2, "host"),
        ("sqlite:///no/such/folder/store.db", 3, "no store at no/such/folder/store.db; create one"),
        ("xtdb+http://127.0.0.1:9", 6, "127.0.0.1:9"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_clear_line(
    ctxmgr: Run, url: str, exit_code: int, message: str
) -> None:
    """The user learns how to correct a mistyped URL."""
    result = ctxmgr("status", "--store", url)

    assert result.exit_code == exit_code, result.stderr
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "todo"),
    [
        (errors.Incorrect("no model given: use --model"), ""),
        (errors.Incorrect("the limit must be 1 to 20, not 0"), ""),
        (errors.Incorrect("unknown tool 'x' (one of: a, b)"), ""),
        (errors.Incorrect("the task is empty"), ""),
        (errors.NotFound("no session x; `ctxmgr sessions` lists them"), ""),
        (errors.NotFound("x was never written"), ""),
        (errors.Unavailable("the server did not answer"), "nothing was written; retry later"),
        (errors.Denied("x sets store: read it, then run `ctxmgr trust`"), ""),
        (errors.Unavailable("x was never read: run `ctxmgr activate` with --mount"), ""),
        (RuntimeError("inside; check it"), "run it again with -v and report the output"),
    ],
)
def test_an_error_has_one_remedy(error: Exception, todo: str) -> None:
    """The general one is for messages that have none of their own."""
    assert remedy(error) == todo
    assert line(error).endswith(f"; {todo}" if todo else str(error))


PLANTED = "hunter2-planted"
"""A password that no output may contain."""

PLANTED_URLS = [
    f"xtdb+http://me:{PLANTED}@127.0.0.1:9",
    f"xtdb+http://{PLANTED}@127.0.0.1:9",
    f"xtdb+https://me:{PLANTED}@127.0.0.1:9,me:{PLANTED}@127.0.0.1:8",
    f"xtdb+http://me:{PLANTED}",
    f"xtdb+http://me:a/{PLANTED}@127.0.0.1:9",
    f"xtdb+http://me:a#{PLANTED}@127.0.0.1:9",
    f"xtdb+http://me:a?{PLANTED}@127.0.0.1:9",
    f"xtdb+http://127.0.0.1:9?password={PLANTED}",
    f"xtdb+http://127.0.0.1:9#{PLANTED}",
    f"xtdb+http://[me:{PLANTED}@127.0.0.1:9",
    f"xtdb+http://me:{PLANTED}@127.0.0.1:port",
    f"xtdb+http://me:{PLANTED}@",
    f"xtdb+http:/me:{PLANTED}@127.0.0.1:9",
    f"http://me:{PLANTED}@127.0.0.1:9",
    f"postgres://me:{PLANTED}@127.0.0.1/x",
    f"me:{PLANTED}@127.0.0.1:9",
    f"sqlite://me:{PLANTED}@host/x.db",
    f"sqlite:///me:{PLANTED}@host/x.db",
    f"sqlite:///x.db?key={PLANTED}",
]


@pytest.mark.parametrize("url", PLANTED_URLS)
def test_no_command_shows_the_password_of_a_store(
    ctxmgr: Run, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Screens are shared and logs are kept; a mistyped URL holds the password as well."""
    monkeypatch.setenv("CTXMGR_STORE", url)
    monkeypatch.setenv("CTXMGR_BASE_URL", url)
    monkeypatch.setenv("CTXMGR_TOKEN", PLANTED)
    monkeypatch.setenv("CTXMGR_ANTHROPIC_API_KEY", PLANTED)
    monkeypatch.setattr("ctxmgr.models.transport.TRIES_MAX", 1)
    Path("ctxmgr.toml").write_text(f'store = "{url}"\ntoken = "{PLANTED}"\n', encoding="utf-8")
    commands = [("status",), ("status", "--json"), ("sessions",), ("trust",), ("trust", "--json")]
    commands += [("run", "x", "--model", "m", "--store", "sqlite://:memory:", "--sandbox", "host")]

    for command in commands:
        for verbose in ((), ("-vv",), ("-vv", "--log-json")):
            result = ctxmgr(*verbose, *command)
            assert PLANTED not in result.output + result.stderr, command
            assert result.exit_code != 70, result.output


def test_doctor_shows_no_password(ctxmgr: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is what people paste into a report."""
    monkeypatch.setenv("CTXMGR_BASE_URL", f"https://h/v1?key={PLANTED}")
    monkeypatch.setenv("CTXMGR_TOKEN", PLANTED)
    monkeypatch.setenv("COLUMNS", "400")  # a wrapped password would not be noticed
    for flags in ((), ("--json",)):
        result = ctxmgr("doctor", "--store", PLANTED_URLS[0], *flags)

        assert result.exit_code == 0
        assert "127.0.0.1:9" in result.output
        assert PLANTED not in result.output


@pytest.mark.parametrize("url", PLANTED_URLS)
def test_a_url_is_shown_without_its_password(url: str) -> None:
    """One function for every place that shows a URL, in a text as well."""
    assert PLANTED not in redact_url(url)
    assert redact_url(redact_url(url)) == redact_url(url)
    if "://" in url:
        assert PLANTED not in redact_urls(f"cannot open '{url}': it is closed")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////home/me@work/agent.db",
        "sqlite://:memory:",
        "xtdb+http://127.0.0.1:3000",
        "xtdb+https://a:3000,b:3000/behind/proxy",
        "http://[::1]:8000/v1",
        "https://api.example.org/v1",
    ],
)
def test_a_url_without_a_password_is_shown_whole(url: str) -> None:
    """The person has to see which store it is."""
    assert redact_url(url) == url
    assert redact_urls(f"it is at {url} now") == f"it is at {url} now"


def test_a_wrong_password_is_denied(ctxmgr: Run, door_that_asks_for_a_password: str) -> None:
    """Retrying does not help, so it must not look like an unavailable server."""
    result = ctxmgr("status", "--store", door_that_asks_for_a_password)

    assert result.exit_code == 5, result.stderr
    assert "guess" not in result.stderr


def test_a_file_that_is_not_a_database_is_not_changed(ctxmgr: Run, home: Path) -> None:
    """A mistyped path must not overwrite another file."""
    letter = home / "letter.txt"
    letter.write_text("Dear Ada,\n" * 1000, encoding="utf-8")

    result = ctxmgr("store", "status", "--store", str(letter))

    assert (result.exit_code, result.stderr) == (2, f"ctxmgr: {letter} is not a ctxmgr store\n")
    assert letter.read_text(encoding="utf-8").startswith("Dear Ada")


def test_another_programs_database_is_not_a_store(ctxmgr: Run) -> None:
    """It is neither damaged nor changed."""
    with sqlite3.connect("other.db") as other:
        other.execute("CREATE TABLE notes (text)")

    result = ctxmgr("store", "status", "--store", "other.db")

    assert result.exit_code == 2
    assert "other.db is not a ctxmgr store" in result.stderr


def test_a_directory_is_not_a_store(ctxmgr: Run) -> None:
    """The message says what it is."""
    result = ctxmgr("store", "status", "--store", "..")

    assert result.exit_code == 2
    assert result.stderr.endswith("is a directory, not a ctxmgr store\n")


def test_the_default_store_that_does_not_exist_yet_says_who_creates_it(ctxmgr: Run) -> None:
    """A new user has asked for no id and no path."""
    result = ctxmgr("sessions")

    assert result.exit_code == 3
    assert result.stderr.startswith("ctxmgr: no store at ")
    assert result.stderr.endswith("yet; `ctxmgr run` creates it\n")


def test_a_port_in_use_names_the_way_out(ctxmgr: Run) -> None:
    """The server is what could not start; nothing that runs needs checking."""
    assert ctxmgr("store", "vacuum").exit_code == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = ctxmgr("serve", "--port", str(port))

    assert result.exit_code == 6
    assert result.stderr == f"ctxmgr: port {port} is in use; use --port 0 for a free one\n"


def test_a_mistyped_name_lists_the_nearest(ctxmgr: Run) -> None:
    """Whoever mistypes sees at once what it should have been."""
    assert ctxmgr("demo", "--store", "demo.db").exit_code == 0
    listed = json.loads(ctxmgr("sessions", "--store", "demo.db", "--json").stdout)["sessions"]
    name, later = sorted(session["session_id"] for session in listed)

    unknown = ctxmgr("log", "dmo", "--store", "demo.db")
    shown = ctxmgr("show", "tallly.conf", "--session", name, "--store", "demo.db")
    pinned = ctxmgr("pin", name, "tally.cnf", "--store", "demo.db")

    assert unknown.stderr == f"ctxmgr: no session dmo (nearest: {name}, {later})\n"
    for result in (shown, pinned):
        assert result.exit_code == 3
        assert f"session {name} has seen no tall" in result.stderr
        assert "(nearest: " in result.stderr
        assert "tally.conf" in result.stderr
        assert "--session" not in result.stderr


def test_a_damaged_file_is_corrupt(ctxmgr: Run, home: Path) -> None:
    """Damage is reported with the remedy and never as an empty store."""
    path = home / "store.db"
    started = ctxmgr("harness", "start", "s1", "--store", f"sqlite:///{path}")
    assert started.exit_code == 0, started.stderr
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)

    result = ctxmgr("status", "--store", f"sqlite:///{path}")

    assert result.exit_code == 8, result.stderr
    assert "damaged" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="drops the rights of a child by its user id")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_read_only_file_can_be_read_and_not_written(ctxmgr: Run, home: Path) -> None:
    """An archive can still be queried; a write is denied."""
    path = home / "store.db"
    for command in (("demo",), ("vacuum",), ("status",)):
        assert ctxmgr(*command, "--store", f"sqlite:///{path}").exit_code == 0
    for folder in home.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    path.chmod(0o444)
    home.chmod(0o555)

    codes = [
        _as_unprivileged_user(
            lambda name=name: ctxmgr(name, "--store", f"sqlite:///{path}").exit_code
        )
        for name in ("status", "vacuum", "demo")
    ]

    assert codes == [0, 5, 5]


def test_an_unknown_id_is_not_found(ctxmgr: Run) -> None:
    """A missing object is not an empty document."""
    assert ctxmgr("vacuum").exit_code == 0

    assert ctxmgr("get", "nobody").exit_code == 3
    assert ctxmgr("history", "nobody").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("find", "file", "name=x"), "does not declare the field 'name'"),
        (("find", "file", "char_count"), "write FIELD=VALUE"),
        (("find", "file", "char_count=many"), "char_count must be integer"),
        (("find", "file", "--cursor", "nonsense"), "invalid cursor"),
        (("find", "file", "--limit", "0"), "limit must be 1 to"),
        (("get", "x", "--sequence", "1", "--system-time", "1"), "give one of them"),
        (("get", "x", "--valid-time", "yesterday"), "ISO 8601"),
        (("bench", "nothing"), "'nothing' is not"),
        (("no-such-command",), "No such command"),
    ],
)
def test_an_invalid_request_is_the_callers_fault(
    ctxmgr: Run, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2 means that a retry will not help; the line says what to change."""
    assert ctxmgr("vacuum").exit_code == 0

    result = ctxmgr(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr


def test_a_usage_error_is_json_with_json(ctxmgr: Run) -> None:
    """A program that asked for JSON gets JSON, whatever is wrong."""
    for words in (
        ("turn", "s1", "abc", "--json"),
        ("--json", "turn", "s1", "abc"),
        ("sessions", "--json", "--limt", "3"),
        ("no-such-command", "--json"),
        ("--json", "show"),
    ):
        result = ctxmgr(*words)

        assert result.exit_code == 2, words
        error = json.loads(result.stderr)["error"]
        assert error["code"] == "incorrect"
        assert set(error) == {"code", "fault", "message", "next"}
        assert result.stdout == ""


def test_an_error_as_json_has_its_code(ctxmgr: Run) -> None:
    """Programs get the same message as people, with a code."""
    result = json.loads(ctxmgr("get", "nobody", "--json").stderr)["error"]

    assert result["code"] == "not_found"
    assert set(result) == {"code", "fault", "message", "next"}


def test_a_bug_in_ctxmgr_is_reported_as_one() -> None:
    """Users must not look for their own mistake in our bug."""
    assert line(KeyError("x")).startswith("ctxmgr: a bug in ctxmgr: KeyError")


def test_the_error_for_invalid_settings_names_the_file(ctxmgr: Run) -> None:
    """A setting that cannot be read is reported; a partly parsed file is not used."""
    Path("ctxmgr.toml").write_text("store = ", encoding="utf-8")

    result = ctxmgr("status")

    assert result.exit_code == 2
    assert "ctxmgr.toml is not valid TOML" in result.stderr


def test_log_lines_are_json_on_request(ctxmgr: Run) -> None:
    """Log collectors get one object per line, with the traceback under -v."""
    logged = ctxmgr("-v", "--log-json", "get", "nobody").stderr.splitlines()

    record = json.loads(logged[0])
    assert record["level"] == "error"
    assert "NotFound" in record["traceback"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_command_cleanly(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """The operation is cancelled and can clean up, and the exit code shows the signal."""
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _WAITING], stdout=subprocess.PIPE, text=True, env=environment
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "waiting\n"
        command.send_signal(number)
        rest = command.communicate(timeout=30)[0]

    assert (rest, command.returncode) == ("closed\n", code)


_WAITING = """
import asyncio, signal
from ctxmgr.surfaces.operation import Operation
from ctxmgr.surfaces.terminal.cli import build

async def wait(app):
    try:
        print("waiting", flush=True)
        await asyncio.Event().wait()
    finally:
        print("closed", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
build((Operation(run=wait, name="wait", writes=False, example=""),)).main(["wait"])
"""


def _as_unprivileged_user(act: Callable[[], int]) -> int:
    """Run in a child process without root privileges, so that file permissions apply."""
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        os._exit(act())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def door_that_asks_for_a_password() -> Iterator[str]:
    """A server that refuses every request."""
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"xtdb+http://user:guess@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(5)


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing to standard error."""
