"""A session to inspect, a server for it, and one browser for all tests."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

import ctxmgr
from tests.surfaces.folded_sessions import Folded, work_folded
from tests.surfaces.http.inspector.browsing import SHARED
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked, work_three_turns


@pytest.fixture
async def seen(home: Path) -> Worked:
    """Three turns: a file read twice, another only discovered, a failed call, a pin."""
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
def server(seen: Worked) -> Iterator[Server]:
    with serving(seen.url, "--no-open") as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def _browser() -> AsyncIterator[None]:
    yield
    await SHARED.close()


@dataclass(frozen=True, slots=True)
class FoldedServer:
    """A server of a session under economy and of its fork; tests only read them."""

    url: str
    folded: Folded
    fork: str


@pytest.fixture(scope="module")
def economy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FoldedServer]:
    """One server for all tests of a module."""
    home = tmp_path_factory.mktemp("economy")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DATA", "STATE", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        with ThreadPoolExecutor() as thread:  # the loop of the tests stays as it is
            folded = thread.submit(asyncio.run, _build(home)).result()
        with serving(folded.url, "--no-open") as running:
            yield FoldedServer(running.url, folded, f"{folded.sid}-again")


async def _build(home: Path) -> Folded:
    folded = await work_folded(f"sqlite:///{home}/sessions.db", home / "project")
    async with ctxmgr.connect(folded.url, tracking=False) as client:
        fork = await client.fork(folded.sid, turn=6, new_session_id=f"{folded.sid}-again")
        await fork.render("Try another way.", policy="plain")
        await fork.end_turn("As you wish.")
        await fork.render("And now?", policy="economy")  # a new stream: old objects are listed
        await fork.end_turn("Done.")
        await client.pause(fork.session_id)
    return folded
