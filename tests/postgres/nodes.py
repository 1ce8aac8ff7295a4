"""Two XTDB nodes on one PostgreSQL database. Touches processes."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.postgres.clusters import PostgresCluster
from tests.xtdb.servers import XtdbServer


@dataclass(frozen=True)
class Nodes:
    """Two servers, one database. Each has its own index and its own temporary directory."""

    one: XtdbServer
    other: XtdbServer

    @property
    def both(self) -> str:
        """The URL of a store that may use either node, preferring the first."""
        return f"xtdb+http://127.0.0.1:{self.one.port},127.0.0.1:{self.other.port}"


@contextmanager
def running_nodes() -> Iterator[Nodes]:
    """Start the database and both nodes, and stop them in the opposite order."""
    nodes = Nodes(XtdbServer(), XtdbServer())
    with ExitStack() as stack:
        cluster = stack.enter_context(PostgresCluster())
        for server in (nodes.one, nodes.other):
            stack.callback(server.close)
            server.start("postgres", env=cluster.environment)
        yield nodes
