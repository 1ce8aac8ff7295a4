"""The sandbox contract on bubblewrap; as a plain user, and without a control group, too."""

import asyncio
import ctypes
import os
import platform
import re
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from ctxmgr.core.sandbox import Bind, Held, Sandbox
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.sandboxes import bubblewrap
from ctxmgr.sandboxes.bubblewrap import (
    Bubblewrap,
    BubblewrapProfile,
    command_files,
    inner_line,
    options,
    parse_profile,
    shipped_profile,
)
from ctxmgr.sandboxes.held_mounts import HeldMounts
from tests.components import need
from tests.contracts.isolation_contract import IsolationContract, Start
from tests.contracts.sandbox_steps import LIMITS, bind, pids, shell, until, words

AS_NOBODY: Final[dict[str, Any]] = (
    {} if os.geteuid() else {"user": 65_534, "group": 65_534, "extra_groups": []}
)
"""A user without rights, where the tests themselves run as root."""


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    need("bubblewrap")
    async with AsyncExitStack() as stack:

        async def started(binds: Sequence[Bind], *, network: bool = False) -> Sandbox:
            sandbox = await Bubblewrap.start(binds, limits=LIMITS, network=network, host_id="h")
            stack.push_async_callback(sandbox.close)
            return sandbox

        yield started


class TestBubblewrap(IsolationContract):
    @pytest.fixture
    def client(self) -> str:
        return (
            "from ctxmgr.sandboxes import bubblewrap\n"
            "bubblewrap.make_group = lambda limits: None\n"
            "start = bubblewrap.Bubblewrap.start([], host_id='h')"
        )


async def test_without_a_control_group_each_process_is_limited(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most users may make none; it says how far its limits reach."""
    monkeypatch.setattr(bubblewrap, "make_group", lambda _limits: None)
    sandbox = await start([])

    ran = await shell(sandbox, "set -o pipefail; head -c 300M /dev/zero | tail | wc -c")

    assert sandbox.describe().memory is Held.PROCESS
    assert sandbox.describe().processes is (Held.COMMAND if os.geteuid() else Held.NOT)
    assert "exhausted" in ran.text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("id -un; id -u; pwd; touch made && echo wrote", ["agent", "/workspace", "wrote"]),
        ("for i in $(seq 80); do sleep 3 & done; true", ["Resource temporarily unavailable"]),
        ("head -c 300M /dev/zero | tail", ["memory exhausted"]),
        ("exec 3<>/dev/tcp/127.0.0.1/1", ["refused"]),
        ("unshare --user true", ["unshare failed"]),
    ],
)
def test_an_unprivileged_user_is_isolated_too(
    unprivileged_profile: BubblewrapProfile, command: str, said: Sequence[str]
) -> None:
    """No rights are needed; and the kernel counts such a user's processes for each command."""
    argv = ("bash", "-c", command)
    inner = inner_line(LIMITS, argv, cwd="/workspace")
    held = [mount.fd for mount in unprivileged_profile.held.mounts]
    user = AS_NOBODY.get("user", os.getuid())
    with command_files(user=user, group=user) as (_, files):
        line = ["bwrap", *options(unprivileged_profile, env={}, files=files), "--", *inner]
        ran = subprocess.run(
            line,
            capture_output=True,
            check=False,
            timeout=20,
            pass_fds=(*files.fds, unprivileged_profile.scratch, *held),
            **AS_NOBODY,
        )

    output = (ran.stdout + ran.stderr).decode()
    assert all(each in output for each in said), output


async def test_the_network_can_be_allowed(start: Callable[..., Awaitable[Sandbox]]) -> None:
    """Then it is the host's own, loopback included, and it says so."""
    sandbox = await start([], network=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        ran = await shell(sandbox, f"exec 3<>/dev/tcp/127.0.0.1/{port}")

    assert ran.exit_code == 0
    assert sandbox.describe().network


async def test_only_its_folders_can_be_written(start: Start) -> None:
    """What would vanish with the command cannot be written in the first place."""
    ran = await shell(await start([]), "touch /x /usr/x /etc/x /home; mkdir /opt/x; touch /tmp/x")

    assert ran.text.count("\n") == 5


async def test_variables_do_not_show_in_the_hosts_list_of_processes(start: Start) -> None:
    """Every user of the host can read command lines, and a variable may be a key."""
    sandbox = await start([])
    running = asyncio.create_task(shell(sandbox, "sleep 98765", env={"KEY": "hunter2"}))
    await until(lambda: any(words(pid) == ["sleep", "98765", ""] for pid in pids()))

    lines = [word for pid in pids() for word in words(pid)]

    running.cancel()
    assert "hunter2" not in lines


async def test_a_closed_sandbox_leaves_no_folder(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one that the agent has locked."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sandbox = await start([])
    await shell(
        sandbox, "mkdir -p /tmp/a/b; touch /tmp/a/b/c; ln -s / /tmp/l; chmod 0 /tmp/a/b /tmp/a"
    )

    await sandbox.close()

    assert os.listdir(tmp_path) == []  # noqa: PTH208 (a path method would be taken for slow)


async def test_a_path_longer_than_the_system_takes_is_removed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise closing fails after the work is done, and the report of a run is lost."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sandbox = await start([])
    await shell(
        sandbox,
        "cd /tmp; for i in $(seq 60); do mkdir %s && cd %s || exit 1; done; touch end"
        % (("d" * 100,) * 2),
    )

    await sandbox.close()
    await sandbox.close()

    assert os.listdir(tmp_path) == []  # noqa: PTH208 (a path method would be taken for slow)


async def test_the_clients_keyring_is_inaccessible(start: Start) -> None:
    """A keyring holds credentials, and a process inherits the one of its parent."""
    keys = ctypes.CDLL(None, use_errno=True)
    numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}
    add_key, keyctl = numbers[platform.machine()]
    session, read, search, list_ = -3, 11, 10, 11
    key = keys.syscall(add_key, b"user", b"ctxmgr-probe", b"hunter2", 7, session)
    assert key > 0
    program = (
        "import ctypes; c = ctypes.CDLL(None); b = ctypes.create_string_buffer(100);"
        f"print(c.syscall({keyctl}, {read}, {key}, b, 100), b.value);"
        f"print(c.syscall({keyctl}, {search}, {session}, b'user', b'ctxmgr-probe', 0));"
        f"print(c.syscall({keyctl}, {list_}, {session}, b, 100));"
        f"print(c.syscall({add_key}, b'user', b'mine', b'x', 1, {session}))"
    )

    ran = await shell(await start([]), f'python3 -c "{program}"; cat /proc/keys /proc/key-users')

    assert ran.text.splitlines()[:4] == ["-1 b''", "-1", "-1", "-1"]
    assert "ctxmgr-probe" not in ran.text
    assert "user" not in ran.text.replace("key-users", "")


async def test_no_process_inside_shows_the_clients_folder_or_variables(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's name may be a customer's, and its contents are not mounted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("SECRET_KEY", "hunter2")

    ran = await shell(
        await start([]), "cat /proc/*/environ | tr '\\0' '\\n'; readlink /proc/*/cwd /proc/1/fd/*"
    )

    assert str(tmp_path) not in ran.text
    assert "hunter2" not in ran.text
    assert set(re.findall(r"^PWD=.*$", ran.text, re.MULTILINE)) == {"PWD=/"}


@pytest.mark.parametrize(
    "attempt",
    [
        "chmod u+s made",
        "chmod g+s made",
        "chmod 4755 made",
        "python3 -c 'import os; os.open(\"new\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
        "python3 -c 'import os; os.mknod(\"new\", 0o104755)'",
        "python3 -c 'import os; os.fchmod(os.open(\"made\", 0), 0o6755)'",
    ],
)
async def test_no_file_gets_the_rights_of_the_client(
    start: Start, tmp_path: Path, attempt: str
) -> None:
    """Every user of the host could run it as the client, who may be root."""
    (tmp_path / "made").touch()
    sandbox = await start([bind("/workspace", tmp_path)])

    ran = await shell(sandbox, f"{attempt}; chmod 640 made", cwd="/workspace")

    assert "not permitted" in ran.text
    modes = {entry.name: entry.stat().st_mode & 0o7777 for entry in os.scandir(tmp_path)}
    assert modes == {"made": 0o640}


async def test_a_workspace_that_contains_the_sandboxes_own_folder_hides_it(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent could replace it by a link, and would mount any folder of the host as its /tmp."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sandbox = await start([bind("/workspace", tmp_path)])

    ran = await shell(
        sandbox,
        "touch /tmp/kept; ls -A */; for it in ctxmgr-sandbox-*; do mv $it away;"
        "rm -rf $it; ln -sfn /etc $it/tmp; done; true",
        cwd="/workspace",
    )
    after = await shell(sandbox, "ls /tmp; ls -A /workspace")

    assert "tmp\n" not in ran.text
    assert after.text.split()[0] == "kept"
    assert after.text.count("ctxmgr-sandbox-") == 1


async def test_a_hidden_folder_that_was_moved_is_noticed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its new place it is not hidden."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    sandbox = await start([bind("/workspace", tmp_path)])
    (tmp_path / "ctxmgr").rename(tmp_path / "moved")

    with pytest.raises(Unavailable, match="was moved or replaced"):
        await shell(sandbox, "true")


async def test_a_bubblewrap_that_binds_by_path_only_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between two commands an agent could replace a folder by a link."""
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho --ro-bind SRC DEST\n", encoding="ascii")
    old.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(old))

    with pytest.raises(Unavailable, match="CVE-2024-42472"):
        await Bubblewrap.start([])


async def test_a_mount_that_vanished_is_said(start: Start, tmp_path: Path) -> None:
    """No command ran, so there is no exit code to give."""
    (tmp_path / "data").mkdir()
    sandbox = await start([bind("/data", tmp_path / "data")])
    (tmp_path / "data").rmdir()

    with pytest.raises(Unavailable, match="data"):
        await shell(sandbox, "true")


async def test_without_bubblewrap_starting_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing."""
    monkeypatch.setattr(bubblewrap, "PROGRAM", "no-such-bwrap")

    with pytest.raises(Unavailable, match="no-such-bwrap"):
        await Bubblewrap.start([])


async def test_the_system_of_the_host_is_a_mount(start: Start) -> None:
    """003-R163: a header in /usr is the host's file for every reader, also after a resume."""
    sandbox = await start([])

    assert sandbox.mounts.forward("/usr/include/stdio.h").filesystem_id == "h"
    assert sandbox.mounts.forward("/etc/passwd").filesystem_id == sandbox.filesystem_id


def test_a_profile_leaves_out_what_bubblewrap_does_not_know() -> None:
    """An older bubblewrap makes a sandbox too."""
    text = shipped_profile().read_text(encoding="utf-8")

    profile = parse_profile(text, supported="")

    assert ("--disable-userns",) not in profile
    assert ("--cap-drop", "ALL") in profile
    assert ("--ro-bind", "/usr", "/usr") in profile


def test_a_profile_that_begins_with_no_option_is_refused() -> None:
    """A file that is none is noticed before anything starts."""
    with pytest.raises(Incorrect, match="FROM"):
        parse_profile("FROM debian", supported="")


@pytest.fixture
def unprivileged_profile() -> Iterator[BubblewrapProfile]:
    need("bubblewrap")
    profile = parse_profile(
        shipped_profile().read_text(encoding="utf-8"), supported="--disable-userns"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tmp", "workspace"):
            Path(folder, name).mkdir()
        for path in (Path(folder), *Path(folder).iterdir()):
            os.chown(path, AS_NOBODY.get("user", -1), -1)
        held = HeldMounts.open([bind("/workspace", Path(folder, "workspace"))])
        scratch = os.open(f"{folder}/tmp", os.O_PATH)
        yield BubblewrapProfile(
            profile=profile, held=held, scratch=scratch, network=False, limits=LIMITS
        )
        os.close(scratch)
        held.close()
