"""The server as users deploy it: xtdb/Dockerfile, built and run, used from the host and from
another container.
"""

import socket
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.store.contract import Store
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.containers.distant_store import DistantStore
from tests.containers.machines import Machine, Server
from tests.contracts.namespace import Namespace
from tests.contracts.random_histories import HISTORY_KINDS, differences
from tests.contracts.store_contract import ServedStoreContract, SharedStoreContract
from tests.journeys.pause_resume import JOURNEY_KINDS, pause_and_resume
from tests.xtdb.servers import PATIENCE_S

pytestmark = [pytest.mark.xtdb, pytest.mark.docker, pytest.mark.timeout(600)]
"""The first test builds the images, which takes minutes on a busy machine."""

HISTORIES = 8


class TestXtdbInDocker(ServedStoreContract, SharedStoreContract):
    """The image keeps what clients store.

    The engine is that of ``TestXtdb``, which shows what depends on sizes alone.
    """

    test_the_largest_transaction_is_written_whole = None
    test_five_thousand_objects_are_returned_in_one_batch = None
    test_every_version_of_a_growing_list_of_maps_is_complete = None
    test_every_version_of_a_changing_long_list_is_kept = None

    @pytest.fixture
    async def store(self, server: Server, namespace: Namespace) -> AsyncIterator[Store]:
        async with await XtdbStore.open(
            server.url, kinds=namespace.kinds, timeout_s=PATIENCE_S
        ) as store:
            yield store

    @pytest.fixture
    async def another_store(self, server: Server, namespace: Namespace) -> AsyncIterator[Store]:
        async with await XtdbStore.open(
            server.url, kinds=namespace.kinds, timeout_s=PATIENCE_S
        ) as store:
            yield store


async def test_random_histories_get_the_same_answers_from_the_image(
    server: Server, tmp_path: Path
) -> None:
    """Results for a server started by hand must hold for the image (003-R016, 003-A26)."""
    async with (
        await SqliteStore.open(tmp_path / "store.db", kinds=HISTORY_KINDS) as embedded,
        await XtdbStore.open(server.url, kinds=HISTORY_KINDS, timeout_s=PATIENCE_S) as remote,
    ):
        assert await differences(embedded, remote, range(HISTORIES)) == []


async def test_a_session_paused_on_the_host_is_resumed_on_another_machine(
    server: Server, another_machine: Machine
) -> None:
    """Two machines share nothing but the server (003-R006, 003-R112 to R115, 003-A21)."""
    assert another_machine.hostname() != socket.gethostname()

    await pause_and_resume(
        lambda: XtdbStore.open(server.url, kinds=JOURNEY_KINDS, timeout_s=PATIENCE_S),
        lambda: DistantStore.open(another_machine.command, server.inner_url, kinds=JOURNEY_KINDS),
        mark=uuid.uuid4().hex[:12],
    )


async def test_a_session_paused_on_another_machine_is_resumed_on_the_host(
    server: Server, another_machine: Machine
) -> None:
    """The reverse direction (003-R006, 003-R112 to R115, 003-A21)."""
    await pause_and_resume(
        lambda: DistantStore.open(another_machine.command, server.inner_url, kinds=JOURNEY_KINDS),
        lambda: XtdbStore.open(server.url, kinds=JOURNEY_KINDS, timeout_s=PATIENCE_S),
        mark=uuid.uuid4().hex[:12],
    )
