"""``ctxmgr run --sandbox docker`` as people use it, on a real engine with the shipped image."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ctxmgr.sandboxes.docker import IMAGE, LABEL
from tests.components import need
from tests.containers.images import has_image, sandbox_image
from tests.journeys.run_processes import SECONDS, Shell
from tests.journeys.runs import Fifo
from tests.models.model_server import ModelServer, says
from tests.models.wire import Call, Text

pytestmark = pytest.mark.docker

DONE = says(Text("It says 123."))


@pytest.fixture(scope="module")
def image() -> Iterator[None]:
    """The image that ``run`` uses; an existing one is not ours and is kept."""
    need("docker")
    with ExitStack() as made:
        if not has_image(IMAGE):
            made.enter_context(sandbox_image(IMAGE))
        yield


@pytest.fixture
async def shell(store_url: str, project: Path, tmp_path: Path) -> AsyncIterator[Shell]:
    (tmp_path / "home").mkdir()
    async with ModelServer() as server:
        yield Shell(server, store_url, project, tmp_path / "home")


async def test_a_model_works_in_a_container(image: None, shell: Shell) -> None:
    """It sees only the workspace of the host, and its writes arrive there (D7)."""
    look = Call("bash", {"command": "pwd; hostname; ls /home /work 2>&1; echo 123 > answer"})
    shell.server.script(says(look, Call("read", {"path": "answer"})), DONE)

    ended = await shell.run(*shell.new("What is the answer?"), "--sandbox", "docker")

    assert (ended.exit_code, ended.result["outcome"]) == (0, "done"), ended.err
    assert (shell.project / "answer").read_text(encoding="utf-8") == "123\n"
    assert "/workspace\nsandbox\n" in shell.server.requests[1].text.replace("\\n", "\n")
    assert "tool_result" in shell.server.requests[1].text
    assert _containers(shell.project) == []


async def test_an_interrupted_run_leaves_no_container_and_can_continue(
    image: None, shell: Shell
) -> None:
    """Abandoned containers fill a machine; the session keeps its kind of sandbox."""
    fifo = Fifo(shell.project)
    shell.server.script(says(Call("bash", {"command": fifo.command})), DONE)

    async with shell.running(*shell.new("Find the answer."), "--sandbox", "docker") as running:
        await asyncio.wait_for(asyncio.to_thread(fifo.wait), SECONDS)
        began = _containers(shell.project)
        running.process.send_signal(signal.SIGINT)
        ended = await running.ended()
    left = _containers(shell.project)
    later = await shell.run("--session", ended.result["session"])

    assert (ended.exit_code, len(began), left) == (130, 1, [])
    assert (later.exit_code, later.result["answer"]) == (0, "It says 123."), later.err


async def test_without_an_engine_it_says_so(shell: Shell) -> None:
    """There is no fallback: running without a sandbox is the user's decision."""
    need("docker")
    shell.server.script(DONE)

    ended = await shell.run(
        *shell.new("Go."), "--sandbox", "docker", DOCKER_HOST="unix:///nowhere.sock"
    )

    assert ended.exit_code == 6
    assert "Docker could not start the container" in ended.err
    assert shell.server.requests == []


def _containers(project: Path) -> list[str]:
    """Return the names of the containers that mount the project."""
    words = ["docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}"]
    listed = subprocess.run(
        [*words, "--filter", f"volume={os.path.realpath(project)}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.split()
