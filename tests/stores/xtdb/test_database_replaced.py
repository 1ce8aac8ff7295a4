"""A store whose database is replaced loses nothing and never hangs."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.core.store.contract import Match, Put
from ctxmgr.errors import Conflict, Unavailable
from ctxmgr.stores.xtdb.pieces import ANCHOR_BYTES_MAX, ANCHORS_MAX, KNOWN_PIECES_MAX, KnownPieces
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.xtdb.servers import XtdbServer, require_xtdb

ITEMS = ["x" * 500 + str(number) for number in range(100)]


@pytest.fixture(scope="module")
def server() -> Iterator[XtdbServer]:
    """In memory: every test empties it by a restart."""
    require_xtdb()
    with XtdbServer() as server:
        yield server


def _note(items: list[str]) -> dict[str, Any]:
    return {"xt/id": "long", "type": "note", "items": items}


async def _items(server: XtdbServer) -> list[str]:
    """Read the items through a store without cached state."""
    async with await XtdbStore.open(f"xtdb+{server.url}") as fresh:
        version = await fresh.get("long")
    assert version is not None
    items: list[str] = version.document["items"]
    return items


@pytest.mark.xtdb
@pytest.mark.parametrize("learnt", ["by writing", "by reading"])
async def test_a_commit_to_an_emptied_database_includes_its_pieces(
    server: XtdbServer, learnt: str
) -> None:
    """An acknowledged write is complete, even if the database was emptied before (003-R010)."""
    async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=20) as store:
        await store.commit([Put(_note(ITEMS))])
        async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=20) as reader:
            await reader.get("long")
            await asyncio.to_thread(server.restart)

            client = store if learnt == "by writing" else reader
            commit = await client.commit([Put(_note([*ITEMS, "more"]))])

            assert await _items(server) == [*ITEMS, "more"]
            version = await client.get("long")
    assert version is not None
    assert version.token == commit.token


@pytest.mark.xtdb
async def test_a_commit_to_an_older_copy_includes_the_missing_pieces(tmp_path: Path) -> None:
    """A copy has the original's anchors up to a point, and no piece after it (003-R010)."""
    require_xtdb()
    with XtdbServer().start(config="rocksdb", data_dir=tmp_path / "db") as server:
        async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=20) as store:
            await store.commit([Put(_note(ITEMS))])
            await asyncio.to_thread(server.stop)
            shutil.copytree(tmp_path / "db", tmp_path / "copy")
            await asyncio.to_thread(server.restart)
            await store.commit([Put(_note(ITEMS * 2))])
            await asyncio.to_thread(server.stop)
            shutil.rmtree(tmp_path / "db")
            (tmp_path / "copy").rename(tmp_path / "db")
            await asyncio.to_thread(server.restart)

            await store.commit([Put(_note([*ITEMS * 2, "more"]))])

            assert await _items(server) == [*ITEMS * 2, "more"]


@pytest.mark.xtdb
async def test_a_read_does_not_wait_for_a_sequence_of_the_old_database(server: XtdbServer) -> None:
    """The error explains it, and the next read succeeds (003-R115)."""
    async with await XtdbStore.open(f"xtdb+{server.url}", timeout_s=6) as store:
        token = (await store.commit([Put(_note([]))])).token
        await asyncio.to_thread(server.restart)

        with pytest.raises(Unavailable, match="replaced"):
            await store.get("long")
        assert await store.get("long") is None
        with pytest.raises(Conflict):
            await store.commit([Match("long", token), Put(_note([]))])


def test_a_transaction_relies_on_few_anchors() -> None:
    """Sending pieces of many origins again is cheaper than verifying each (003-R078)."""
    known = KnownPieces()
    for number in range(ANCHORS_MAX + 1):
        known.learn([f"{number}a", f"{number}b"], anchor=str(number))
    pieces = [f"{number}{half}" for number in range(ANCHORS_MAX + 1) for half in "ab"][:-1]

    anchored = known.anchored(pieces)

    assert set(anchored.values()) == {str(number) for number in range(ANCHORS_MAX)}
    assert f"{ANCHORS_MAX}a" not in anchored


def test_the_cache_of_known_pieces_is_bounded() -> None:
    """The memory of a store that runs for weeks must not grow (003-R078)."""
    known = KnownPieces()

    known.learn(map(str, range(KNOWN_PIECES_MAX + 1)), anchor="a")
    known.learn(["long"], anchor="x" * (ANCHOR_BYTES_MAX + 1))

    assert known.anchored(["0", "1", "long"]) == {"1": "a"}
