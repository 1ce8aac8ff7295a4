"""The guarantees of every sandbox, as tests. Subclasses provide ``sandbox`` and ``folder``."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from ctxmgr.core.sandbox import Held, Sandbox
from ctxmgr.errors import Incorrect, Unavailable
from tests.contracts.sandbox_files import SandboxFiles
from tests.contracts.sandbox_steps import LIMITS, SECONDS, none, pids, shell, until, words


class SandboxContract(SandboxFiles):
    """The guarantees of every sandbox; ``folder`` is a path that commands can write to."""

    async def test_a_command_returns_its_output_and_exit_code(self, sandbox: Sandbox) -> None:
        """003-R143: the harness records both, and the agent acts on them."""
        ran = await shell(sandbox, "echo out; echo err >&2; exit 3")

        assert (ran.text, ran.exit_code) == ("out\nerr\n", 3)
        assert not ran.truncated
        assert not ran.timed_out

    async def test_arguments_reach_a_program_unchanged(self, sandbox: Sandbox) -> None:
        """A file name may contain anything; no shell may interpret it."""
        words = ("a b", "$HOME", "';'", "\n", "*", "-n", "ü", "")

        ran = await sandbox.run(("printf", "%s|", *words), cwd="/", timeout_s=SECONDS)

        assert ran.text == "|".join(words) + "|"

    async def test_a_command_runs_in_its_working_directory(
        self, sandbox: Sandbox, folder: str
    ) -> None:
        """Paths in its output are relative to that directory."""
        ran = await shell(sandbox, "pwd", cwd=folder)

        assert ran.text == f"{folder}\n"

    async def test_a_missing_working_directory_is_an_outcome(self, sandbox: Sandbox) -> None:
        """The agent may name any directory; it gets an error, and the harness continues."""
        ran = await shell(sandbox, "pwd", cwd="/not/there")

        assert ran.exit_code == 126
        assert "/not/there" in ran.text

    async def test_a_missing_program_is_an_outcome(self, sandbox: Sandbox) -> None:
        """The exit code is 127, as in a shell."""
        ran = await sandbox.run(("not-a-program",), cwd="/", timeout_s=SECONDS)

        assert ran.exit_code == 127
        assert "not-a-program" in ran.text

    async def test_a_signal_shows_in_the_exit_code(self, sandbox: Sandbox) -> None:
        """A crash is not a success."""
        ran = await shell(sandbox, "kill -SEGV $$")

        assert ran.exit_code == 128 + signal.SIGSEGV

    async def test_variables_reach_the_command(self, sandbox: Sandbox) -> None:
        """A value may contain anything but NUL."""
        ran = await shell(sandbox, 'printf %s "$GIVEN"', env={"GIVEN": "a=b c\n'ü'"})

        assert ran.text == "a=b c\n'ü'"

    async def test_input_reaches_the_command(self, sandbox: Sandbox) -> None:
        """More than a pipe holds, so that it is written while output is read."""
        data = bytes(range(256)) * 1_000

        ran = await shell(sandbox, "wc -c; cat >&2", stdin=data)

        assert ran.text == f"{len(data)}\n"

    async def test_without_input_a_command_does_not_wait_for_any(self, sandbox: Sandbox) -> None:
        """No user is there to type."""
        ran = await shell(sandbox, "cat; echo done")

        assert ran.text == "done\n"

    async def test_a_command_that_ignores_its_input_succeeds(self, sandbox: Sandbox) -> None:
        """The pipe breaks on the client's side; the command has not failed."""
        ran = await shell(sandbox, "exec <&-; echo done", stdin=b"x" * 1_000_000)

        assert (ran.exit_code, ran.text) == (0, "done\n")

    async def test_binary_output_is_kept_unchanged(self, sandbox: Sandbox) -> None:
        """The bytes are recorded; replacement characters appear only when they are displayed."""
        ran = await shell(sandbox, r"printf '\377\000\376ok'")

        assert ran.output == b"\xff\x00\xfeok"
        assert ran.text == "\ufffd\0\ufffdok"

    async def test_long_output_keeps_its_start_and_its_end(self, sandbox: Sandbox) -> None:
        """The start has the context and the end has the error."""
        ran = await shell(
            sandbox, "echo start; head -c 200000 /dev/zero | tr '\\0' x; echo; echo end"
        )

        assert ran.truncated
        assert ran.output_bytes == 200_000 + len("start\n\nend\n")
        assert ran.text.startswith("start\nxxx")
        assert ran.text.endswith("xxx\nend\n")
        assert "bytes of output left out" in ran.text
        assert len(ran.output) < LIMITS.output_bytes + 100

    async def test_a_command_times_out(self, sandbox: Sandbox) -> None:
        """Output written before the timeout is kept."""
        ran = await shell(sandbox, "echo begun; sleep 1000", timeout_s=5)

        assert ran.timed_out
        assert ran.exit_code == 128 + signal.SIGKILL
        assert ran.text == "begun\n"

    async def test_a_timeout_ends_every_process_of_the_command(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """Including grandchildren and detached processes, which would keep changing files."""
        await shell(sandbox, _detaching(mark) + "; sleep 1000", timeout_s=1)

        assert await none(left)

    async def test_background_processes_end_with_the_command(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """The end of the command itself counts, even if they hold the output open."""
        ran = await shell(sandbox, _detaching(mark) + "; echo done")

        assert (ran.text, ran.timed_out) == ("done\n", False)
        assert await none(left)

    async def test_a_cancelled_command_leaves_no_process(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """Interrupting the agent must also stop its commands."""
        running = asyncio.create_task(shell(sandbox, _detaching(mark) + "; sleep 1000"))
        await until(lambda: len(left()) >= 2)

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running
        assert await none(left)

    async def test_closing_ends_running_commands(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """The waiting caller learns why."""
        running = asyncio.create_task(shell(sandbox, _detaching(mark) + "; sleep 1000"))
        await until(lambda: len(left()) >= 2)

        await sandbox.close()

        with pytest.raises(Unavailable):
            await running
        assert await none(left)

    async def test_a_closed_sandbox_runs_nothing(self, sandbox: Sandbox) -> None:
        """Closing it again is harmless."""
        await sandbox.close()
        await sandbox.close()

        with pytest.raises(Unavailable):
            await shell(sandbox, "true")

    async def test_commands_run_concurrently(self, sandbox: Sandbox, folder: str) -> None:
        """Each waits for the other's file, so both would hang if they ran one after the other."""
        meet = "touch {0}/{1}; until [ -e {0}/{2} ]; do sleep 0.05; done; echo {1}"

        first, second = await asyncio.gather(
            shell(sandbox, meet.format(folder, "one", "two")),
            shell(sandbox, meet.format(folder, "two", "one")),
        )

        assert (first.text, second.text) == ("one\n", "two\n")

    async def test_memory_is_limited(self, sandbox: Sandbox) -> None:
        """A leak ends the command, not the machine."""
        ran = await shell(sandbox, "set -o pipefail; head -c 300M /dev/zero | tail | wc -c")

        assert sandbox.describe().memory is not Held.NOT
        assert ran.exit_code != 0

    async def test_processes_are_limited(self, sandbox: Sandbox) -> None:
        """A fork bomb stays small, and the sandbox remains usable."""
        many = (
            "for i in $(seq 80); do sleep 30 & done 2>/dev/null; jobs -p | wc -l; kill $(jobs -p)"
        )
        ran = await shell(sandbox, many, timeout_s=2)

        assert sandbox.describe().processes is Held.NOT or "80" not in ran.text
        assert (await shell(sandbox, "echo well")).text == "well\n"

    async def test_file_size_is_limited(self, sandbox: Sandbox, folder: str) -> None:
        """No single file fills the disk."""
        ran = await shell(sandbox, "head -c 20M /dev/zero >big; stat -c %s big", cwd=folder)

        assert int(ran.text.split()[-1]) <= LIMITS.file_bytes

    @pytest.mark.parametrize(
        "wrong",
        [
            {"cwd": "relative"},
            {"cwd": "/nul\0"},
            {"timeout_s": 0},
            {"timeout_s": float("nan")},
            {"env": {"A=B": "x"}},
            {"env": {"A": "\0"}},
        ],
    )
    async def test_an_invalid_command_is_refused(
        self, sandbox: Sandbox, wrong: dict[str, object]
    ) -> None:
        """The caller's error is reported before anything starts."""
        with pytest.raises(Incorrect):
            await shell(sandbox, "true", **wrong)

    async def test_it_describes_itself(self, sandbox: Sandbox) -> None:
        """003-R162: its private filesystem has an id, which its mounts refer to."""
        described = sandbox.describe()

        assert described.isolates == sandbox.mounts.sandboxed
        assert sandbox.filesystem_id == sandbox.mounts.default_filesystem_id

    @pytest.fixture
    def mark(self) -> str:
        """The sleep duration that identifies this test's processes on the host."""
        return f"98{os.getpid()}{int.from_bytes(os.urandom(3), 'big')}"

    @pytest.fixture
    def left(self, mark: str) -> Callable[[], list[int]]:
        """The processes with this mark that are still running.

        The host sees those of every sandbox.
        """
        return lambda: [pid for pid in pids() if words(pid)[:2] == ["sleep", mark]]


def _detaching(mark: str) -> str:
    return f"sleep {mark} & (setsid sleep {mark} &)"
