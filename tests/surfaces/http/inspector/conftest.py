"""A session to look at, and a server that shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked, work_three_turns


@pytest.fixture
async def seen(home: Path) -> Worked:
    """Three turns: a file read twice, another only seen, a call that failed, a pin."""
    return await work_three_turns(f"sqlite:///{home}/sessions.db", home / "project")


@pytest.fixture
def server(seen: Worked) -> Iterator[Server]:
    with serving(seen.url, "--no-open") as running:
        yield running
