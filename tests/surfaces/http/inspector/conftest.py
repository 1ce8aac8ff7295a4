"""A session to inspect, a server for it, and one browser for all tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

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
