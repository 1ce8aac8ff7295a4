"""The sandbox contract on bubblewrap; as a plain user, and without a control group, too."""

import asyncio
import os
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
