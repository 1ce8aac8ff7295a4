"""The sandbox contract on a Docker container, in an image built from ``sandbox/Dockerfile``."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ctxmgr.core.files.filesystem_ids import container_filesystem_id
from ctxmgr.core.sandbox import Bind, Sandbox
from ctxmgr.errors import Unavailable
from ctxmgr.sandboxes.docker import LABEL, Docker
from tests.components import need
from tests.containers.images import sandbox_image
from tests.contracts.isolation_contract import IsolationContract, Start
from tests.contracts.sandbox_steps import LIMITS, bind, none, shell

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The shipped image on a base image of the tests, which already has the tools."""
    need("docker")
    with sandbox_image(f"ctxmgr-test-sandbox-{os.getpid()}") as name:
        yield name


@pytest.fixture
async def start(image: str) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def started(binds: Sequence[Bind]) -> Sandbox:
            sandbox = await Docker.start(binds, limits=LIMITS, image=image)
            stack.push_async_callback(sandbox.close)
            return sandbox

        yield started


class TestDocker(IsolationContract):
    @pytest.fixture
    def client(self, image: str) -> str:
        return (
            f"from ctxmgr.sandboxes.docker import Docker\nstart = Docker.start([], image={image!r})"
        )

    async def test_a_closed_sandbox_leaves_no_container(self, sandbox: Sandbox) -> None:
        """Abandoned containers fill a machine."""
        assert _containers(sandbox) != []

        await sandbox.close()

        assert _containers(sandbox) == []

    async def test_its_filesystem_id_is_derived_from_the_container_id(
        self, sandbox: Sandbox
    ) -> None:
        """003-R162: the output of ``docker inspect`` gives the same id."""
        (container,) = _containers(sandbox)

        assert sandbox.filesystem_id == container_filesystem_id(container)

    async def test_a_removed_container_is_reported(self, sandbox: Sandbox) -> None:
        """No command ran, so there is no exit code."""
        _docker("rm", "--force", *_containers(sandbox))

        with pytest.raises(Unavailable, match="container"):
            await shell(sandbox, "true")

    async def test_a_fork_bomb_ends_at_its_timeout(
        self, sandbox: Sandbox, mark: str, left: Callable[[], list[int]]
    ) -> None:
        """If its processes cannot be killed one by one, the container is removed."""
        bomb = f"bomb() {{ bomb | bomb & exec sleep {mark}; }}; bomb"

        ran = await shell(sandbox, bomb, timeout_s=1)

        assert ran.timed_out
        assert await none(left)

    async def test_a_folder_of_any_name_can_be_mounted(self, start: Start, tmp_path: Path) -> None:
        """Commas separate the fields of a mount, except those in a name."""
        odd = tmp_path / "a,b=c d"
        odd.mkdir()
        (odd / "file").write_text("odd", encoding="utf-8")

        ran = await shell(await start([bind("/a,readonly b", odd)]), "cat '/a,readonly b/file'")

        assert ran.text == "odd"


async def test_a_missing_image_is_reported() -> None:
    """No image is pulled without being asked."""
    need("docker")

    with pytest.raises(Unavailable, match="no-such-image"):
        await Docker.start([], image="ctxmgr-no-such-image")


def _containers(sandbox: Sandbox) -> list[str]:
    assert isinstance(sandbox, Docker)
    named = ("--filter", f"name={sandbox._name}", "--filter", f"label={LABEL}")
    return _docker("ps", "--all", "--quiet", "--no-trunc", *named).split()


def _docker(*words: str) -> str:
    run = subprocess.run(["docker", *words], check=True, capture_output=True, text=True)
    return run.stdout
