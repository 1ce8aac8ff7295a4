"""The sandbox contract on the plain host, except for isolation."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.sandbox import Held, Sandbox
from ctxmgr.sandboxes import host, host_launcher
from ctxmgr.sandboxes.host import Host
from tests.contracts.sandbox_contract import SandboxContract
from tests.contracts.sandbox_steps import LIMITS, pids, shell, until, words


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = await Host.start(limits=LIMITS, host_id="h")
    yield sandbox
    await sandbox.close()


class TestHost(SandboxContract):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return str(tmp_path.resolve())


async def test_the_host_reports_that_it_does_not_isolate(sandbox: Sandbox) -> None:
    """003-R152: one filesystem, no path translation, and no claim of isolation."""
    described = sandbox.describe()

    assert (described.isolates, described.network) == (False, True)
    assert sandbox.mounts.forward("/etc/passwd").on_host
    assert sandbox.filesystem_id == "h"


async def test_without_a_control_group_the_host_does_not_limit_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel would count all processes of the user, so no limit is claimed."""
    monkeypatch.setattr(host, "make_group", lambda _limits: None)
    sandbox = await Host.start(limits=LIMITS, host_id="h")

    ran = await shell(sandbox, "set -o pipefail; head -c 300M /dev/zero | tail | wc -c")

    await sandbox.close()
    assert "exhausted" in ran.text
    assert sandbox.describe().processes is Held.NOT


async def test_commands_end_when_their_client_dies() -> None:
    """No other process could end them."""
    mark = f"97{os.getpid()}{int.from_bytes(os.urandom(3), 'big')}"
    command = f"(setsid sleep {mark} &); sleep {mark}"
    launcher = [sys.executable, "-I", "-S", host_launcher.__file__, str(2**30), str(2**30), "/"]
    script = f"import subprocess; subprocess.run({[*launcher, 'sh', '-c', command]!r})"
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await until(lambda: [words(pid)[:2] for pid in pids()].count(["sleep", mark]) == 2)

    client.kill()

    await client.wait()
    await until(lambda: not any(mark in words(pid) for pid in pids()))
