"""A session to inspect, and a server for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
