"""Two XTDB nodes that share one PostgreSQL database, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.components import need
from tests.postgres.nodes import Nodes, running_nodes
from tests.xtdb.servers import XtdbServer


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    for component in ("postgres", "java", "maven"):
        need(component)
    with running_nodes() as nodes:
        yield nodes


@pytest.fixture
def mortal(nodes: Nodes) -> Iterator[XtdbServer]:
    """The first node, for a test that kills it; it is restarted afterwards."""
    yield nodes.one
    if nodes.one._process is None:
        nodes.one.restart()
