"""A file's bytes from a tool's output are used only if the host cannot read the file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.files.host_files import FILE_BYTES_MAX
from ctxmgr.core.files.outcomes import Refusal, RefusedFile
from ctxmgr.core.objects.file import FileState
from ctxmgr.core.tracking.index_plan import IndexResult
from tests.core.builders.projects import LATER_NS, Project, index_file, opened_project


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, "sqlite", request) as opened:
        yield opened


@pytest.mark.parametrize("output", [b"1\ttext\n", b"te", b"", b"old!"])
async def test_a_file_on_a_mount_is_read_regardless_of_the_tools_output(
    project: Project, output: bytes
) -> None:
    """003-A14: numbered, truncated or old output must not be stored as the file's text."""
    project.write("a.txt", b"text")
    project.ahead_ns = LATER_NS

    outcome = await index_file(project.indexing, "/w/a.txt", output=output)

    assert outcome.file is not None
    assert outcome.file.content == "text"


async def test_a_file_private_to_the_sandbox_is_indexed_from_output(project: Project) -> None:
    """003-R184: the host has no such file."""
    unread = await index_file(project.indexing, "/etc/hosts")
    first = await index_file(project.indexing, "/etc/hosts", output=b"127.0.0.1 box\n")
    again = await index_file(project.indexing, "/etc/hosts", output=b"127.0.0.1 box\n")

    assert isinstance(unread.unread, RefusedFile)
    assert unread.unread.refusal is Refusal.OUTSIDE
    assert (unread.file, first.result, again.result) == (
        None,
        IndexResult.CREATED,
        IndexResult.UNCHANGED,
    )


async def test_output_that_is_too_large_leaves_the_file_unread(project: Project) -> None:
    """003-A40: the same limit applies to a tool's output."""
    outcome = await index_file(project.indexing, "/var/log/all", output=b"x" * (FILE_BYTES_MAX + 1))

    assert outcome.state is FileState.STUB
    assert isinstance(outcome.unread, RefusedFile)


async def test_a_link_out_of_the_mounts_is_not_indexed_by_its_path(project: Project) -> None:
    """003-A40: the agent read a different file from the one at that host path."""
    (project.root / "hosts").symlink_to("/etc/hosts")

    outcome = await index_file(project.indexing, "/w/hosts", output=b"127.0.0.1 box\n")

    assert outcome.file is None
    assert isinstance(outcome.unread, RefusedFile)
