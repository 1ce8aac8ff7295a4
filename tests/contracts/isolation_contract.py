"""What every isolating sandbox also guarantees, as tests: isolation, mounts, no network."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from ctxmgr.core.files.host_files import HostFiles
from ctxmgr.core.files.outcomes import MissingFile, ReadFile, RefusedFile
from ctxmgr.core.sandbox import Bind, Sandbox
from ctxmgr.errors import Incorrect
from tests.components import ROOT
from tests.contracts.sandbox_contract import SandboxContract
from tests.contracts.sandbox_steps import BYTES_MAX, bind, none, shell, until

Start: TypeAlias = Callable[[Sequence[Bind]], Awaitable[Sandbox]]

CLIENT: Final = """
import asyncio
{start}
async def main():
    sandbox = await start
    await sandbox.run("(setsid sleep {mark} &); exec sleep {mark}", cwd="/", timeout_s=100)
asyncio.run(main())
"""
"""A client in a separate process, which can be killed."""


def _counted_by() -> str:
    """Return the namespace that numbers the processes of the client."""
    return str(Path("/proc/self/ns/pid").readlink())


class IsolationContract(SandboxContract):
    """Subclasses provide ``start``, which returns a sandbox that is closed at the end of the test.

    And ``client``: Python source that starts one in another process.
    """

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        folder = tmp_path / "workspace"
        folder.mkdir()
        return folder

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A home folder with the default layout."""
        folder = tmp_path / "home"
        folder.mkdir()
        monkeypatch.setenv("HOME", str(folder))
        for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
            monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
        return folder

    @pytest.fixture
    async def sandbox(self, start: Start, workspace: Path) -> Sandbox:
        return await start([bind("/workspace", workspace)])

    @pytest.fixture
    def folder(self) -> str:
        return "/workspace"

    async def test_a_mount_is_shared_in_both_directions(
        self, sandbox: Sandbox, workspace: Path
    ) -> None:
        """003-R153: the agent sees what the host edits, and the host sees what the agent edits."""
        (workspace / "given").write_text("from the host", encoding="utf-8")

        ran = await shell(sandbox, "cat given; echo from the agent >made", cwd="/workspace")

        assert ran.text == "from the host"
        assert (workspace / "made").read_text(encoding="utf-8") == "from the agent\n"

    async def test_files_created_by_the_agent_belong_to_the_host_user(
        self, sandbox: Sandbox, workspace: Path
    ) -> None:
        """The user who runs the agent can read, change and delete them."""
        await shell(sandbox, "touch made", cwd="/workspace")

        assert (workspace / "made").owner() == (workspace / ".").owner()

    async def test_a_read_only_mount_cannot_be_written(self, start: Start, workspace: Path) -> None:
        """The agent cannot change data that it was only allowed to read."""
        (workspace / "file").write_text("kept", encoding="utf-8")
        sandbox = await start([bind("/data", workspace, writable=False)])

        ran = await shell(
            sandbox, "cat /data/file; echo x >/data/file; rm /data/file; touch /data/x"
        )

        assert ran.exit_code != 0
        assert ran.text.startswith("kept")
        assert os.listdir(workspace) == ["file"]  # noqa: PTH208 (a path method would be taken for slow)
        assert (workspace / "file").read_text(encoding="utf-8") == "kept"

    async def test_a_mount_inside_a_mount_is_visible(
        self, start: Start, workspace: Path, tmp_path: Path
    ) -> None:
        """003-R154: this holds in whichever order they are declared."""
        (workspace / "data").mkdir()
        inner = tmp_path / "inner"
        inner.mkdir()
        (inner / "file").write_text("inner", encoding="utf-8")
        binds = [bind("/workspace/data", inner, writable=False), bind("/workspace", workspace)]

        ran = await shell(await start(binds), "cat /workspace/data/file")

        assert ran.text == "inner"

    async def test_a_link_that_replaces_a_mounted_folder_is_not_followed(
        self, start: Start, workspace: Path, tmp_path: Path
    ) -> None:
        """Otherwise the agent could mount any folder of the host, and write to it."""
        (workspace / "data").mkdir()
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "secret").write_text("the host's secret", encoding="utf-8")
        sandbox = await start([bind("/workspace", workspace), bind("/data", workspace / "data")])

        await shell(sandbox, f"mv data old && ln -s {victim} data", cwd="/workspace")
        ran = await shell(sandbox, "cat /data/secret; echo x >/data/made; ls /data")

        assert "the host's secret" not in ran.text
        assert ran.text.endswith("made\n")
        assert sorted(path.name for path in victim.iterdir()) == ["secret"]
        assert (workspace / "old" / "made").exists()

    async def test_a_mount_through_a_link_that_an_agent_may_have_made_is_refused(
        self, start: Start, workspace: Path, tmp_path: Path
    ) -> None:
        """An agent could leave the link for the next time that the same mounts are used."""
        (workspace / "data").symlink_to(tmp_path)

        with pytest.raises(Incorrect, match="a link in a folder that an agent can change"):
            await start([bind("/workspace", workspace), bind("/data", workspace / "data")])

    @pytest.mark.parametrize("folder", ["/", "/proc", "/proc/self"])
    async def test_the_hosts_processes_are_not_mounted(self, start: Start, folder: str) -> None:
        """A process's folder there leads to its environment and to its root."""
        with pytest.raises(Incorrect, match="processes"):
            await start([bind("/workspace", Path(folder))])

    async def test_the_folders_of_ctxmgr_are_hidden_in_a_mount(
        self, start: Start, home: Path
    ) -> None:
        """003-R151: a store there holds every session, and the state says what a person allowed."""
        data = home / ".local" / "share" / "ctxmgr"
        data.mkdir(parents=True)
        (data / "ctxmgr.db").write_text("every session", encoding="utf-8")
        (home / ".local" / "other").write_text("the agent's", encoding="utf-8")
        sandbox = await start([bind("/workspace", home)])

        ran = await shell(
            sandbox,
            "ls -A .local/share/ctxmgr .config/ctxmgr; cat .local/share/ctxmgr/*;"
            "ln .local/share/ctxmgr/ctxmgr.db x; ln -s .local/share/ctxmgr y; ls y/;"
            "cat .local/other",
            cwd="/workspace",
        )

        assert "every session" not in ran.text
        assert "ctxmgr.db\n" not in ran.text
        assert ran.text.endswith("the agent's")
        assert (data / "ctxmgr.db").read_text(encoding="utf-8") == "every session"
        with HostFiles(sandbox.mounts) as files:
            outcome = files.read("/workspace/.local/share/ctxmgr/ctxmgr.db")
        assert isinstance(outcome, RefusedFile)

    @pytest.mark.parametrize(
        "attempt",
        [
            "mv .local away",
            "mv .local/share away",
            "mv .local/state/ctxmgr away",
            "rm -rf .local",
            "mkdir -p .config/ctxmgr && echo forged >.config/ctxmgr/ctxmgr.toml",
            "mkdir -p .local/state/ctxmgr/runs && echo forged >.local/state/ctxmgr/runs/x.json",
            "ln -sfn /workspace .local/state/ctxmgr",
            "python3 -c 'import os; os.rename(\".local\", \"x\")' || perl -e 'rename .local, x'",
        ],
    )
    async def test_an_agent_cannot_put_its_own_folder_in_their_place(
        self, start: Start, home: Path, attempt: str
    ) -> None:
        """What it wrote there would be believed by the next command of the person."""
        state = home / ".local" / "state" / "ctxmgr"
        state.mkdir(parents=True)
        (state / "kept").touch()
        sandbox = await start([bind("/workspace", home)])

        await shell(sandbox, attempt, cwd="/workspace")
        ran = await shell(sandbox, "find / -name kept 2>/dev/null", cwd="/workspace")

        assert ran.text == ""
        assert [path.name for path in state.iterdir()] == ["kept"]
        assert list((home / ".config" / "ctxmgr").iterdir()) == []

    async def test_a_folder_of_ctxmgr_is_no_workspace(self, start: Start, home: Path) -> None:
        """Nothing would be left if it were hidden."""
        folder = home / ".local" / "share" / "ctxmgr" / "project"
        folder.mkdir(parents=True)

        for wrong in (folder, folder.parent):
            with pytest.raises(Incorrect, match="a folder of ctxmgr itself"):
                await start([bind("/workspace", wrong)])

    async def test_a_linked_folder_of_ctxmgr_is_not_mounted(
        self, start: Start, home: Path, tmp_path: Path
    ) -> None:
        """The link itself would be in the mount, and the agent could redirect it."""
        (tmp_path / "elsewhere").mkdir()
        (home / ".config").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(Incorrect, match="could redirect it"):
            await start([bind("/workspace", home)])

    async def test_the_host_outside_the_mounts_is_inaccessible(
        self, sandbox: Sandbox, tmp_path: Path, workspace: Path
    ) -> None:
        """D7: by path, link, .., another process' root or device."""
        secret = tmp_path / "secret"
        secret.write_text("the host's secret", encoding="utf-8")
        (workspace / "link").symlink_to(secret)
        ways = (
            str(secret),
            "link",
            f"../..{secret}",
            "/proc/*/root" + str(secret),
            "/proc/1/cwd/*",
        )

        ran = await shell(sandbox, f"cat {' '.join(ways)}; ls -a /root /home /", cwd="/workspace")

        assert "the host's secret" not in ran.text
        assert isinstance(await sandbox.read(str(secret), bytes_max=BYTES_MAX), MissingFile)
        assert isinstance(await sandbox.read("/workspace/link", bytes_max=BYTES_MAX), MissingFile)
        assert await sandbox.exists([str(secret), "/workspace/link"]) == frozenset()

    async def test_the_hosts_processes_and_variables_are_inaccessible(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """003-R143: the client is outside, with its keys; the agent cannot see or end it."""
        monkeypatch.setenv("SECRET_KEY", "hunter2")

        ran = await shell(sandbox, "env; cat /proc/*/environ /proc/*/cmdline; ls /proc/self/fd")
        counted_by = await shell(sandbox, "readlink /proc/self/ns/pid")

        assert "hunter2" not in ran.text
        assert "pytest" not in ran.text
        assert counted_by.text.startswith("pid:[")
        assert counted_by.text.strip() != _counted_by()

    async def test_the_agent_has_no_root_privileges(self, sandbox: Sandbox) -> None:
        """Even if the client runs as root: no capabilities, and kernel settings are read-only."""
        ran = await shell(
            sandbox,
            "grep -h '^Cap\\(Eff\\|Prm\\|Bnd\\)' /proc/self/status | sort -u -k2 | cut -f2;"
            "for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/vm/swappiness;"
            'do [ -w "$file" ] && (: >>"$file") 2>/dev/null && echo "$file"; done; true',
        )

        assert ran.text.split() == ["0" * 16]

    async def test_the_network_is_off(self, sandbox: Sandbox) -> None:
        """Not even the host's loopback is reachable, where databases may listen."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            ran = await shell(sandbox, f"exec 3<>/dev/tcp/127.0.0.1/{port}")

            assert ran.exit_code != 0
            assert "Connection refused" in ran.text or "unreachable" in ran.text
        assert not sandbox.describe().network

    async def test_files_outside_mounts_persist_and_are_read_through_the_sandbox(
        self, sandbox: Sandbox
    ) -> None:
        """003-A36: they are on no mount, so the host cannot read them directly."""
        await shell(sandbox, "echo mine >/tmp/own")

        read = await sandbox.read("/tmp/own", bytes_max=BYTES_MAX)

        assert isinstance(read, ReadFile)
        assert read.data == b"mine\n"
        assert read.location.filesystem_id == sandbox.filesystem_id
        assert not read.location.on_host

    async def test_the_client_reads_a_mount_as_the_sandbox_does(
        self, sandbox: Sandbox, workspace: Path
    ) -> None:
        """003-R165: a file has one identity, whichever way it was read."""
        (workspace / "file").write_text("text", encoding="utf-8")

        inside = await sandbox.read("/workspace/file", bytes_max=BYTES_MAX)
        with HostFiles(sandbox.mounts) as files:
            outside = files.read("/workspace/file")

        assert isinstance(inside, ReadFile)
        assert inside == outside

    async def test_two_sandboxes_are_two_filesystems(self, start: Start, sandbox: Sandbox) -> None:
        """003-R162: /tmp/x of one is not /tmp/x of the other."""
        other = await start([])

        await shell(sandbox, "touch /tmp/x")

        assert await other.exists(["/tmp/x"]) == frozenset()
        assert other.filesystem_id != sandbox.filesystem_id

    async def test_killing_the_client_ends_its_commands(
        self, client: str, mark: str, left: Callable[[], list[int]], tmp_path: Path
    ) -> None:
        """An agent must not keep running without the client that controls it."""
        script = CLIENT.format(start=client, mark=mark)
        environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, env=environment, cwd=tmp_path
        )
        await until(lambda: len(left()) >= 2)

        process.kill()

        await process.wait()
        assert await none(left)

    async def test_many_commands_at_once_do_not_mix(self, sandbox: Sandbox) -> None:
        """An agent may call several tools in one turn."""
        runs = await asyncio.gather(*(shell(sandbox, f"echo {n}; exit {n}") for n in range(6)))

        assert [(run.text, run.exit_code) for run in runs] == [(f"{n}\n", n) for n in range(6)]

    async def test_an_invalid_mount_is_refused(self, start: Start, tmp_path: Path) -> None:
        """A misspelt directory would appear empty to the agent."""
        good = bind("/data", tmp_path)
        for wrong in (bind("/more", tmp_path / "absent"), bind("/", tmp_path), good):
            with pytest.raises(Incorrect):
                await start([good, wrong])
