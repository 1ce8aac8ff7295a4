"""Pages of large documents are short, and together they are complete."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from ctxmgr.core.store.contract import Put, Write
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.stores.xtdb import reads, transport
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.stores.xtdb.scripted_server import Reply, ScriptedServer, edn, reply

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/edn\r\n\r\n("
VERSIONS = 12


@pytest.fixture
async def store(xtdb_url: str) -> AsyncIterator[XtdbStore]:
    async with await XtdbStore.open(xtdb_url) as store:
        yield store


async def _grown(store: XtdbStore) -> tuple[list[Document], int]:
    """Versions of a chat of 50 KB, and the sequence of the first."""
    mark = uuid.uuid4().hex
    turns = [f"{number} {mark * 30}" for number in range(50 + VERSIONS)]
    chats: list[Document] = [
        {"xt/id": mark, "type": "chat", "turns": turns[: 50 + number]} for number in range(VERSIONS)
    ]
    commits = [await store.commit([Put(chat, 1_000 * number)]) for number, chat in enumerate(chats)]
    return chats, commits[0].sequence


@pytest.mark.xtdb
async def test_pages_of_long_histories_end_early_and_continue(
    store: XtdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand versions of a long chat are never in memory at once (003-R011)."""
    monkeypatch.setattr(reads, "PAGE_BYTES_MAX", 120_000)
    chats, _ = await _grown(store)

    pages = [await store.history(chats[0]["xt/id"])]
    while cursor := pages[-1].cursor:
        pages.append(await store.history(chats[0]["xt/id"], cursor=cursor))

    assert [entry.document for page in pages for entry in page.entries] == chats
    assert max(len(page.entries) for page in pages) <= 4


@pytest.mark.xtdb
async def test_pages_of_a_feed_of_long_documents_end_early_and_continue(
    store: XtdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener that was offline catches up in bounded steps and misses nothing (003-R010)."""
    monkeypatch.setattr(reads, "PAGE_BYTES_MAX", 120_000)
    chats, first = await _grown(store)

    after, writes, lengths = first - 1, list[Write](), list[int]()
    while fed := await store.feed(after=after):
        after = fed[-1].sequence
        lengths.append(len(fed))
        writes += [write for transaction in fed for write in transaction.writes]

    assert [write.document for write in writes if write.object_id == chats[0]["xt/id"]] == chats
    assert max(lengths) <= 4


def _logged(number: int) -> bytes:
    record = f'{{:xt/id "ctxmgr/tx/{number}", :ctxmgr/digest "d", :ctxmgr/deleted []}}'
    entry = f'{{:xtdb.api/tx-id {number}, :xtdb.api/tx-time #inst "2026", '
    return f"{entry}:xtdb.api/tx-ops ([:xtdb.api/put {record}])}} ".encode()


async def test_a_log_is_read_no_further_than_the_size_of_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading ahead would delay the page (003-R010)."""
    monkeypatch.setattr(transport, "PAGE_BYTES_MAX", 100)
    async with ScriptedServer() as server, await XtdbStore.open(server.url, timeout_s=30) as store:
        server.answer("tx-log", Reply(HEAD + _logged(1), hang=True))

        async with asyncio.timeout(60):
            fed = await store.feed()

    assert [transaction.key for transaction in fed] == ["1"]


async def test_an_endless_list_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if none of its entries are relevant, reading is bounded (003-R115)."""
    monkeypatch.setattr(transport, "REPLY_BYTES_MAX", 100)
    theirs = b'{:xtdb.api/tx-id 1, :xtdb.api/tx-time #inst "2026", :xtdb.api/tx-ops ()} '
    async with ScriptedServer() as server, await XtdbStore.open(server.url, timeout_s=30) as store:
        server.answer("tx-log", Reply(HEAD + theirs * 3, hang=True))

        async with asyncio.timeout(60):
            with pytest.raises(Incorrect, match="request less"):
                await store.feed()


async def test_a_failed_request_for_a_start_fails_the_read() -> None:
    """The first failure is raised, and the other requests are cancelled (003-R115)."""
    rows = "".join(
        f'[{{:xt/id "{name}", :type "x", :ctxmgr/tx "k", :ctxmgr/format 1}} '
        '#inst "2026-01-01T00:00:00.000-00:00" {:xt/id "ctxmgr/bounded"}] '
        for name in "abc"
    )
    marks = "".join(f'["ctxmgr/bounded/{name}"] ' for name in "abc")
    async with ScriptedServer() as server, await XtdbStore.open(server.url, timeout_s=30) as store:
        basis = '{:xtdb.api/valid-time #inst "2026", :xtdb.api/tx {:xtdb.api/tx-id 1}}'
        server.answer("db", edn(basis))
        server.answer("query", edn(f"({rows})"), edn(f"({rows})"), edn(f"({marks})"))
        server.answer("entity-tx", reply(500, '{:class "java.lang.OutOfMemoryError"}'))

        with pytest.raises(Unavailable, match="OutOfMemoryError"):
            await store.get_many("abc")
