"""What every sandbox promises, as tests. Subclasses give a ``sandbox`` and a ``folder`` in it."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from ctxmgr.core.sandbox import KILLED, Held, Sandbox
from ctxmgr.errors import Incorrect, Unavailable
from tests.contracts.sandbox_files import SandboxFiles
from tests.contracts.sandbox_steps import LIMITS, SECONDS, none, pids, shell, until, words


class SandboxContract(SandboxFiles):
    """Every sandbox keeps these promises; ``folder`` is a path that commands can write to."""

    async def test_a_command_says_what_it_says_and_how_it_ended(self, sandbox: Sandbox) -> None:
        """003-R143: the harness records both, and the agent acts on them."""
        ran = await shell(sandbox, "echo out; echo err >&2; exit 3")

        assert (ran.text, ran.exit_code) == ("out\nerr\n", 3)
        assert not ran.truncated
        assert not ran.timed_out

    async def test_arguments_reach_a_program_untouched(self, sandbox: Sandbox) -> None:
        """A file name may hold anything; no shell may read it as a command."""
        words = ("a b", "$HOME", "';'", "\n", "*", "-n", "ü", "")

        ran = await sandbox.run(("printf", "%s|", *words), cwd="/", timeout_s=SECONDS)

        assert ran.text == "|".join(words) + "|"

    async def test_a_command_runs_in_its_folder(self, sandbox: Sandbox, folder: str) -> None:
        """Paths in its output are relative to there."""
        ran = await shell(sandbox, "pwd", cwd=folder)

        assert ran.text == f"{folder}\n"

    async def test_a_folder_that_is_not_there_is_an_outcome(self, sandbox: Sandbox) -> None:
        """The agent may name any; it is told, and the harness goes on."""
        ran = await shell(sandbox, "pwd", cwd="/not/there")

        assert ran.exit_code == 126
        assert "/not/there" in ran.text

    async def test_a_program_that_is_not_there_is_an_outcome(self, sandbox: Sandbox) -> None:
        """Shells say 127, and so do we."""
        ran = await sandbox.run(("not-a-program",), cwd="/", timeout_s=SECONDS)

        assert ran.exit_code == 127
        assert "not-a-program" in ran.text

    async def test_a_signal_shows_in_the_exit_code(self, sandbox: Sandbox) -> None:
        """A crash is not a success."""
        ran = await shell(sandbox, "kill -SEGV $$")

        assert ran.exit_code == 128 + signal.SIGSEGV

    async def test_variables_reach_the_command(self, sandbox: Sandbox) -> None:
        """A value may hold anything but NUL."""
        ran = await shell(sandbox, 'printf %s "$GIVEN"', env={"GIVEN": "a=b c\n'ü'"})

        assert ran.text == "a=b c\n'ü'"

    async def test_input_reaches_the_command(self, sandbox: Sandbox) -> None:
        """More than a pipe holds, so that it is written while output is read."""
        data = bytes(range(256)) * 1_000

        ran = await shell(sandbox, "wc -c; cat >&2", stdin=data)

        assert ran.text == f"{len(data)}\n"

    async def test_without_input_a_command_does_not_wait_for_any(self, sandbox: Sandbox) -> None:
        """Nobody will ever type."""
        ran = await shell(sandbox, "cat; echo done")

        assert ran.text == "done\n"

    async def test_a_command_that_ignores_its_input_ends_well(self, sandbox: Sandbox) -> None:
        """The pipe breaks on our side; that is no failure of the command."""
        ran = await shell(sandbox, "exec <&-; echo done", stdin=b"x" * 1_000_000)

        assert (ran.exit_code, ran.text) == (0, "done\n")

    async def test_output_that_is_no_text_is_kept_as_it_is(self, sandbox: Sandbox) -> None:
        """What was read is recorded; only who looks at it sees replacements."""
        ran = await shell(sandbox, r"printf '\377\000\376ok'")

        assert ran.output == b"\xff\x00\xfeok"
        assert ran.text == "\ufffd\0\ufffdok"

    async def test_long_output_keeps_its_start_and_its_end(self, sandbox: Sandbox) -> None:
        """The command is at the start and the error at the end."""
        ran = await shell(
            sandbox, "echo start; head -c 200000 /dev/zero | tr '\\0' x; echo; echo end"
        )

        assert ran.truncated
        assert ran.output_bytes == 200_000 + len("start\n\nend\n")
        assert ran.text.startswith("start\nxxx")
        assert ran.text.endswith("xxx\nend\n")
        assert "bytes of output left out" in ran.text
        assert len(ran.output) < LIMITS.output_bytes + 100

    async def test_time_is_limited(self, sandbox: Sandbox) -> None:
        """What was said until then is not lost."""
        ran = await shell(sandbox, "echo begun; sleep 1000", timeout_s=1)

        assert ran.timed_out
        assert ran.exit_code == KILLED
        assert ran.text == "begun\n"

    async def test_when_time_is_up_nothing_is_left(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """Grandchildren and what detached itself included: they would go on changing files."""
        await shell(sandbox, _detaching(mark) + "; sleep 1000", timeout_s=1)

        assert await none(left)

    async def test_what_a_command_leaves_in_the_background_ends_with_it(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """Even if it holds the output open, the command's own end counts."""
        ran = await shell(sandbox, _detaching(mark) + "; echo done")

        assert (ran.text, ran.timed_out) == ("done\n", False)
        assert await none(left)

    async def test_a_cancelled_command_leaves_nothing(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """The user interrupts the agent, and means what it is doing."""
        running = asyncio.create_task(shell(sandbox, _detaching(mark) + "; sleep 1000"))
        await until(lambda: len(left()) >= 2)

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running
        assert await none(left)

    async def test_closing_ends_what_is_running(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """The caller that waits for it learns why."""
        running = asyncio.create_task(shell(sandbox, _detaching(mark) + "; sleep 1000"))
        await until(lambda: len(left()) >= 2)

        await sandbox.close()

        with pytest.raises(Unavailable):
            await running
        assert await none(left)

    async def test_a_closed_sandbox_runs_nothing(self, sandbox: Sandbox) -> None:
        """And closing it again does no harm."""
        await sandbox.close()
        await sandbox.close()

        with pytest.raises(Unavailable):
            await shell(sandbox, "true")

    async def test_commands_run_at_once(self, sandbox: Sandbox, folder: str) -> None:
        """Each waits for the other's file: one after the other, both would wait for ever."""
        meet = "touch {0}/{1}; until [ -e {0}/{2} ]; do sleep 0.05; done; echo {1}"

        first, second = await asyncio.gather(
            shell(sandbox, meet.format(folder, "one", "two")),
            shell(sandbox, meet.format(folder, "two", "one")),
        )

        assert (first.text, second.text) == ("one\n", "two\n")

    async def test_memory_is_limited(self, sandbox: Sandbox) -> None:
        """A leak ends the command and not the machine."""
        ran = await shell(sandbox, "set -o pipefail; head -c 300M /dev/zero | tail | wc -c")

        assert sandbox.describe().memory is not Held.NOT
        assert ran.exit_code != 0

    async def test_processes_are_limited(self, sandbox: Sandbox) -> None:
        """A fork bomb stays small, and the sandbox goes on after it."""
        many = (
            "for i in $(seq 80); do sleep 30 & done 2>/dev/null; jobs -p | wc -l; kill $(jobs -p)"
        )
        ran = await shell(sandbox, many, timeout_s=2)

        assert sandbox.describe().processes is Held.NOT or "80" not in ran.text
        assert (await shell(sandbox, "echo well")).text == "well\n"

    async def test_files_are_limited(self, sandbox: Sandbox, folder: str) -> None:
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
    async def test_what_cannot_be_run_is_refused(
        self, sandbox: Sandbox, wrong: dict[str, object]
    ) -> None:
        """The caller's mistake is named before anything starts."""
        with pytest.raises(Incorrect):
            await shell(sandbox, "true", **wrong)

    async def test_it_says_what_it_is(self, sandbox: Sandbox) -> None:
        """003-R162: its own filesystem has an id, and its mounts say so."""
        described = sandbox.describe()

        assert described.isolates == sandbox.mounts.sandboxed
        assert sandbox.filesystem_id == sandbox.mounts.default_filesystem_id

    @pytest.fixture
    def mark(self) -> str:
        """Seconds that only this test's processes sleep, by which the host knows them."""
        return f"98{os.getpid()}{int.from_bytes(os.urandom(3), 'big')}"

    @pytest.fixture
    def left(self, mark: str) -> Callable[[], list[int]]:
        """Which of them are alive: the host sees the processes of every sandbox."""
        return lambda: [pid for pid in pids() if words(pid)[:2] == ["sleep", mark]]


def _detaching(mark: str) -> str:
    return f"sleep {mark} & (setsid sleep {mark} &)"
