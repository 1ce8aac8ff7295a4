"""What a tool gave as a file's bytes: believed where it can be, and the only way into a sandbox."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.contents import FileState
from ctxmgr.core.file_outcomes import Refusal, Refused
from ctxmgr.core.hostfiles import FILE_BYTES_MAX
from ctxmgr.core.index_plans import Result
from tests.core.projects import LATER_NS, Project, opened_project


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with opened_project(tmp_path, "sqlite", request) as opened:
        yield opened


async def test_output_that_is_the_file_is_taken(project: Project) -> None:
    """003-R168: what the agent was given is what is stored."""
    path = project.write("a.txt", b"text")
    project.ahead_ns = LATER_NS
    path.chmod(0)

    outcome = await project.indexing.index("/w/a.txt", output=b"text")

    assert outcome.file is not None
    assert outcome.file.content == "text"


@pytest.mark.parametrize("output", [b"1\ttext\n", b"te", b""])
async def test_output_of_another_length_is_not_the_file(project: Project, output: bytes) -> None:
    """003-A14: numbered or cut output would be stored as the file's text."""
    project.write("a.txt", b"text")
    project.ahead_ns = LATER_NS

    outcome = await project.indexing.index("/w/a.txt", output=output)

    assert outcome.file is not None
    assert outcome.file.content == "text"


async def test_a_file_that_changed_just_now_is_read_anew(project: Project) -> None:
    """003-A14: it may have changed since the tool read it, at the same length."""
    project.write("a.txt", b"new!")

    outcome = await project.indexing.index("/w/a.txt", output=b"old!")

    assert outcome.file is not None
    assert outcome.file.content == "new!"


async def test_a_file_of_the_sandboxs_own_is_known_by_output_alone(project: Project) -> None:
    """003-R184: the host has nothing at that path that could be meant."""
    unread = await project.indexing.index("/etc/hosts")
    first = await project.indexing.index("/etc/hosts", output=b"127.0.0.1 box\n")
    again = await project.indexing.index("/etc/hosts", output=b"127.0.0.1 box\n")

    assert isinstance(unread.unread, Refused)
    assert unread.unread.refusal is Refusal.OUTSIDE
    assert (unread.file, first.result, again.result) == (None, Result.CREATED, Result.UNCHANGED)


async def test_output_that_is_too_large_leaves_the_file_unread(project: Project) -> None:
    """003-A40: the same bound holds for what a tool gives."""
    outcome = await project.indexing.index("/var/log/all", output=b"x" * (FILE_BYTES_MAX + 1))

    assert outcome.state is FileState.STUB
    assert isinstance(outcome.unread, Refused)


async def test_a_link_out_of_the_mounts_is_not_indexed_by_its_name(project: Project) -> None:
    """003-A40: the agent read another file than the one its path names."""
    (project.root / "hosts").symlink_to("/etc/hosts")

    outcome = await project.indexing.index("/w/hosts", output=b"127.0.0.1 box\n")

    assert outcome.file is None
    assert isinstance(outcome.unread, Refused)
