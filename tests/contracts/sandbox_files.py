"""The guarantees of every sandbox for reading files, as tests."""

from ctxmgr.core.files.outcomes import MissingFile, ReadFile, Refusal, RefusedFile
from ctxmgr.core.sandbox import Sandbox
from tests.contracts.sandbox_steps import BYTES_MAX, SECONDS, shell


class SandboxFiles:
    """Files are read and identified as the agent would."""

    async def test_a_file_is_read_as_the_agent_reads_it(
        self, sandbox: Sandbox, folder: str
    ) -> None:
        """003-R144: links are followed, and the file is identified by its real path."""
        await shell(sandbox, r"printf 'a\0b\377' >real; ln -s real link", cwd=folder)

        read = await sandbox.read(f"{folder}/link", bytes_max=BYTES_MAX)

        assert isinstance(read, ReadFile)
        assert (read.data, read.agent_path, read.whole) == (b"a\0b\xff", f"{folder}/real", True)
        assert read.location == sandbox.mounts.location_of(f"{folder}/real")
        assert read.fingerprint.size == 4

    async def test_a_file_of_any_name_is_read(self, sandbox: Sandbox, folder: str) -> None:
        """The agent may choose any name."""
        for name in ("-n", "a b", "new\nline", "$(id)", "ü", "'"):
            path = f"{folder}/{name}"
            await sandbox.run(("cp", "/etc/passwd", path), cwd="/", timeout_s=SECONDS)

            assert isinstance(await sandbox.read(path, bytes_max=BYTES_MAX), ReadFile), name
            assert await sandbox.exists([path]) == {path}, name

    async def test_an_empty_file_is_read(self, sandbox: Sandbox, folder: str) -> None:
        """It exists and has no content."""
        await shell(sandbox, "touch empty", cwd=folder)

        read = await sandbox.read(f"{folder}/empty", bytes_max=0)

        assert isinstance(read, ReadFile)
        assert read.data == b""

    async def test_an_unreadable_path_is_an_outcome(self, sandbox: Sandbox, folder: str) -> None:
        """003-A24: each failure has a reason, and none blocks."""
        made = "mkdir d; mkfifo fifo; ln -s loop loop; ln -s nowhere dangling; printf 12345 >five"
        await shell(sandbox, made, cwd=folder)

        async def refusal(path: str) -> Refusal | None:
            outcome = await sandbox.read(path, bytes_max=4)
            return outcome.refusal if isinstance(outcome, RefusedFile) else None

        for name in ("d", "fifo"):
            assert await refusal(f"{folder}/{name}") is Refusal.NOT_A_FILE
        assert await refusal(f"{folder}/loop") is Refusal.LOOP
        assert await refusal(f"{folder}/five") is Refusal.TOO_LARGE
        assert await refusal("/dev/zero") is Refusal.NOT_A_FILE
        assert await refusal("relative") is Refusal.NAME
        assert await refusal("/nul\0") is Refusal.NAME
        assert await refusal("/" + "n" * 300) is Refusal.NAME
        for name in ("absent", "dangling", "five/below"):
            assert isinstance(await sandbox.read(f"{folder}/{name}", bytes_max=4), MissingFile)

    async def test_kernel_generated_files_are_refused(self, sandbox: Sandbox) -> None:
        """Their content differs with every read."""
        outcome = await sandbox.read("/proc/self/environ", bytes_max=BYTES_MAX)

        assert isinstance(outcome, RefusedFile)
        assert outcome.refusal is Refusal.NOT_A_FILE

    async def test_existing_files_are_selected_from_many_paths(
        self, sandbox: Sandbox, folder: str
    ) -> None:
        """003-A24: discovery makes stubs of files, never of directories or other words."""
        await shell(sandbox, "mkdir d; touch f d/g; ln -s f link; mkfifo p", cwd=folder)
        names = ("f", "d/g", "link", "d", "p", "absent", "bad\0name")

        found = await sandbox.exists([f"{folder}/{name}" for name in names] + ["f", ""])

        assert found == {f"{folder}/{name}" for name in ("f", "d/g", "link")}

    async def test_thousands_of_paths_are_checked_in_one_call(self, sandbox: Sandbox) -> None:
        """All paths of a large tree are checked in one call; no paths need no command."""
        paths = [f"/nowhere/{'x' * 100}/{number}" for number in range(5_000)]

        assert await sandbox.exists([*paths, "/etc/passwd"]) == {"/etc/passwd"}
        assert await sandbox.exists([]) == frozenset()
