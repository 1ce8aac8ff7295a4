"""The errors that the XTDB store raises when a server, a connection or a reply fails."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator

import pytest

from ctxmgr.core.store.contract import AsOf, Match, Put, Query
from ctxmgr.errors import (
    Conflict,
    Corrupt,
    CtxmgrError,
    Denied,
    Incorrect,
    OutcomeUnknown,
    Unavailable,
)
from ctxmgr.stores.xtdb import commits, transport
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.stores.xtdb.scripted_server import (
    Reply,
    Request,
    ScriptedServer,
    edn,
    lost,
    recorded,
    reply,
)

NOTE = {"xt/id": "a", "type": "note", "title": "t"}
ROW = '([{:xt/id "a", :type "note", :title "t", :ctxmgr/tx "k", :ctxmgr/format 1} '
ROW += '#inst "2026-01-01T00:00:00.000-00:00" nil])'
SUBMITTED = reply(202, '{:xtdb.api/tx-id 7, :xtdb.api/tx-time #inst "2026-01-01T00:00:00.000Z"}')
WAITED_IN_VAIN = reply(500, '{:type "exception", :class "java.util.concurrent.TimeoutException"}')
BROKEN = ["stream-fails-late-division", "stream-fails-early-division", "stream-sum-of-strings"]


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedServer]:
    monkeypatch.setattr(commits, "RESUBMIT_PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(transport, "RETRY_PAUSE_S", 0.0)
    async with ScriptedServer() as server:
        server.answer("submit-tx", SUBMITTED)
        server.answer("tx-committed", edn("{:tx-committed? true}"))
        yield server


@pytest.fixture
async def store(server: ScriptedServer) -> AsyncIterator[XtdbStore]:
    async with await XtdbStore.open(server.url, timeout_s=5) as store:
        yield store


@pytest.mark.parametrize("name", BROKEN)
async def test_a_failed_query_is_never_an_empty_result(
    server: ScriptedServer, store: XtdbStore, name: str
) -> None:
    """The official server replies 200 and stops; trusting that would lose a session (003-R115)."""
    server.answer("query", recorded(name))

    with pytest.raises(Unavailable, match="sent a truncated reply"):
        await store.get("a")
    with pytest.raises(Unavailable):
        await store.find(Query("note"))


@pytest.mark.parametrize("name", BROKEN)
async def test_a_truncated_reply_is_requested_again(
    server: ScriptedServer, store: XtdbStore, name: str
) -> None:
    """The poisoned connection is not reused for the second attempt (003-R115)."""
    server.answer("query", recorded(name), edn(ROW))

    version = await store.get("a")

    assert version is not None
    assert version.document == NOTE


@pytest.mark.parametrize("cut", [b"", b"(", b"([", ROW.encode()[:40], ROW.encode()[:-1]])
async def test_a_truncated_body_is_detected(
    server: ScriptedServer, store: XtdbStore, cut: bytes
) -> None:
    """HTTP framing does not reveal it, only the missing bracket does (003-R115)."""
    server.answer("query", reply(200, cut))

    with pytest.raises(Unavailable):
        await store.get("a")


async def test_a_dropped_connection_does_not_fail_the_next_read(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """An earlier failed query on the connection must not affect later ones (003-R115)."""
    server.answer("query", lost(), edn(ROW))

    assert await store.get("a") is not None
    assert len(server.asked("query")) == 2


async def test_a_truncated_history_is_unavailable(server: ScriptedServer, store: XtdbStore) -> None:
    """A partial history would look complete (003-R011)."""
    entry = '{:xtdb.api/tx-id 1, :xtdb.api/tx-time #inst "2026", :xtdb.api/valid-time #inst "2026"'
    server.answer("entity", edn(f"({entry}, :xtdb.api/content-hash nil, :xtdb.api/doc nil}} "))

    with pytest.raises(Unavailable):
        await store.history("a")


async def test_a_feed_is_read_no_further_than_requested(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """The log is unbounded, but a page is not (003-R010)."""
    record = '{:xt/id "ctxmgr/tx/k", :ctxmgr/digest "d", :ctxmgr/call "c", :ctxmgr/deleted []}'
    entry = '{:xtdb.api/tx-id 1, :xtdb.api/tx-time #inst "2026-01-01T00:00:00.000-00:00", '
    entry += f":xtdb.api/tx-ops ([:xtdb.api/put {record}])}} "
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/edn\r\n\r\n("
    server.answer("tx-log", Reply(head + entry.encode() * 3, hang=True))

    async with asyncio.timeout(60):
        fed = await store.feed(limit=2)

    assert [transaction.key for transaction in fed] == ["k", "k"]


async def test_after_a_lost_reply_the_same_transaction_is_sent_again(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """The second of the two finds the key and writes nothing (003-R112)."""
    server.answer("submit-tx", lost(), SUBMITTED)

    commit = await store.commit([Put(NOTE)], key="k")

    first, second = server.asked("submit-tx")
    assert first.body == second.body
    assert b'[:xtdb.api/match "ctxmgr/tx/k" nil' in first.body
    assert (commit.sequence, commit.repeated) == (7, False)


@pytest.mark.parametrize("whose", ["ours", "another's"])
async def test_a_first_attempt_that_succeeded_is_found_by_its_key(
    server: ScriptedServer, store: XtdbStore, whose: str
) -> None:
    """The second attempt aborts, and the first commit is returned (003-R112)."""

    def record(_: Request) -> Reply:
        body = server.asked("submit-tx")[0].body.decode()
        digest, call = re.findall(r':ctxmgr/(?:digest|call) "(\w+)"', body)
        call = call if whose == "ours" else "another"
        return edn(f'{{:xt/id "ctxmgr/tx/k", :ctxmgr/digest "{digest}", :ctxmgr/call "{call}"}}')

    server.answer("submit-tx", lost(), SUBMITTED)
    server.answer("tx-committed", edn("{:tx-committed? false}"))
    server.answer("entity", record)
    transaction = '{:xtdb.api/tx-id 6, :xtdb.api/tx-time #inst "2025-01-01T00:00:00.000-00:00"}'
    server.answer("entity-tx", edn(transaction))

    commit = await store.commit([Put(NOTE)], key="k")

    assert (commit.sequence, commit.repeated) == (6, whose != "ours")


async def test_an_invalid_key_record_leaves_the_outcome_unknown(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """The key was used, but it is not known for what (003-R112)."""
    server.answer("tx-committed", edn("{:tx-committed? false}"))
    server.answer("entity", edn("[1]"))

    with pytest.raises(OutcomeUnknown):
        await store.commit([Put(NOTE)], key="k")


async def test_repeatedly_lost_replies_leave_the_outcome_unknown(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """Attempts are bounded, and the error has the key for a later check (003-R112)."""
    server.answer("submit-tx", lost())

    with pytest.raises(OutcomeUnknown) as unknown:
        await store.commit([Put(NOTE)], key="k")

    assert unknown.value.key == "k"
    assert len(server.asked("submit-tx")) == 4


async def test_a_failing_server_may_have_accepted_the_submission(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """After a lost reply no refusal proves that nothing was written (003-R112)."""
    server.answer("submit-tx", lost(), reply(401, "no", kind=None))

    with pytest.raises(OutcomeUnknown):
        await store.commit([Put(NOTE)])


@pytest.mark.parametrize(
    "answer",
    [
        reply(500, '{:type "exception", :class "java.sql.SQLException"}'),
        reply(500, "", kind=None),
        reply(408, "timeout", kind="text/plain"),
        reply(404, '{:error "none"}'),
        reply(202, "<html>", kind="text/html"),
        reply(202, "{:x 1}"),
        reply(202, '{:xtdb.api/tx-id nil, :xtdb.api/tx-time #inst "2026"}'),
        reply(202, "{:x ]"),
        reply(202, ""),
    ],
)
async def test_a_submission_not_explicitly_refused_may_have_been_accepted(
    server: ScriptedServer, store: XtdbStore, answer: Reply
) -> None:
    """A failing server or proxy does not know the outcome, so it is checked (003-R112)."""
    server.answer("submit-tx", answer, SUBMITTED)
    assert (await store.commit([Put(NOTE)], key="k")).sequence == 7

    server.answer("submit-tx", answer)
    with pytest.raises(OutcomeUnknown) as unknown:
        await store.commit([Put(NOTE)], key="k")

    assert unknown.value.key == "k"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(400, '{:xtdb.error/message "no"}'), Incorrect),
        (reply(401, "no", kind=None), Denied),
        (reply(403, "no", kind=None), Denied),
        (reply(413, "", kind=None), Incorrect),
        (reply(414, "", kind=None), Incorrect),
    ],
)
async def test_a_refused_submission_has_a_known_outcome(
    server: ScriptedServer, store: XtdbStore, answer: Reply, error: type[CtxmgrError]
) -> None:
    """Nothing was written, so the caller may change the request and send it again (003-R112)."""
    server.answer("submit-tx", answer)

    with pytest.raises(error):
        await store.commit([Put(NOTE)])

    assert len(server.asked("submit-tx")) == 1


@pytest.mark.parametrize(
    "answer",
    [
        WAITED_IN_VAIN,
        reply(500, "", kind=None),
        lost(),
        reply(200, ""),
        reply(401, "expired", kind=None),
        reply(400, "{:xtdb.error/error-type :illegal-argument}"),
        edn("{:y 1}"),
        edn("{:y 1}}"),
    ],
)
async def test_a_commit_that_cannot_be_checked_is_unknown(
    server: ScriptedServer, store: XtdbStore, answer: Reply
) -> None:
    """Accepted is not committed; only the check decides (003-R112)."""
    server.answer("tx-committed", answer)

    with pytest.raises(OutcomeUnknown):
        await store.commit([Put(NOTE)])


@pytest.mark.parametrize(
    "name", ["tx-committed-future-id-await-timeout", "tx-committed-future-id-edn"]
)
async def test_the_official_servers_500_on_a_wait_leaves_the_outcome_unknown(
    server: ScriptedServer, store: XtdbStore, name: str
) -> None:
    """A wait that times out is answered with 500, with or without a message (003-R112)."""
    server.answer("tx-committed", recorded(name))

    with pytest.raises(OutcomeUnknown):
        await store.commit([Put(NOTE)])


async def test_the_error_for_a_node_that_stopped_indexing_says_what_to_do(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """It still accepts writes and reports itself as healthy (003-R198)."""
    server.answer("tx-committed", WAITED_IN_VAIN)
    server.answer("status", edn("{:ingester-failed? true}"))

    with pytest.raises(OutcomeUnknown, match="restart it"):
        await store.commit([Put(NOTE)])
    with pytest.raises(Unavailable, match="restart it"):
        await store.status()


async def test_a_sequence_the_node_does_not_reach_is_unavailable(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """With the official server's reply (003-A26)."""
    server.answer("query", recorded("query-await-timeout"))

    with pytest.raises(Unavailable) as unavailable:
        await store.get("a", as_of=AsOf(sequence=99_999))

    assert type(unavailable.value) is Unavailable
    assert server.asked("query")[0].params["await-tx-id"] == ["99999"]


async def test_a_failed_match_is_a_conflict_without_asking_for_the_key(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """No other client can know a generated key (003-A21)."""
    server.answer("tx-committed", edn("{:tx-committed? false}"))
    server.answer("query", edn('(["a"])'))

    with pytest.raises(Conflict) as conflict:
        await store.commit([Match("a", None), Put(NOTE)])

    assert conflict.value.object_ids == ("a",)
    assert server.asked("entity") == []


async def test_a_server_that_is_gone_took_nothing(server: ScriptedServer) -> None:
    """Refused is certain, so it is not called unknown (003-R112)."""
    async with await XtdbStore.open(server.url, timeout_s=0.3) as store:
        await server.stop()

        with pytest.raises(Unavailable, match="cannot be reached"):
            await store.get("a")
        with pytest.raises(Unavailable, match="cannot be reached") as unavailable:
            await store.commit([Put(NOTE)])
        assert type(unavailable.value) is Unavailable


@pytest.mark.parametrize("path", ["query", "submit-tx"])
async def test_a_server_that_never_replies_times_out(server: ScriptedServer, path: str) -> None:
    """Every wait is bounded (003-R115)."""
    server.answer(path, Reply(hang=True))

    async with asyncio.timeout(20), await XtdbStore.open(server.url, timeout_s=0.2) as store:
        with pytest.raises(Unavailable, match=r"within 0\.2 s"):
            await (store.get("a") if path == "query" else store.commit([Put(NOTE)]))


async def test_another_node_takes_over(server: ScriptedServer) -> None:
    """A machine may fail; the store switches to another and stays there (003-R006)."""
    async with ScriptedServer() as dying:
        both = f"{dying.url},127.0.0.1:{server.port}"
        async with await XtdbStore.open(both) as store:
            server.answer("query", edn(ROW))
            await dying.stop()

            assert await store.get("a") is not None
            assert (await store.commit([Put(NOTE)])).sequence == 7
            assert len(dying.requests) == 1


async def test_a_temporary_error_of_a_proxy_is_retried(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """502 and similar errors are temporary (003-R198)."""
    server.answer("query", reply(502, "<html>", kind="text/html"), edn(ROW))

    assert await store.get("a") is not None


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (reply(200, "<!doctype html>", kind="text/html"), Unavailable, "does not implement"),
        (reply(200, '{"a": 1}', kind="application/json"), Unavailable, "does not implement"),
        (reply(404, "", kind=None), Unavailable, "does not implement"),
        (reply(301, "", kind=None), Unavailable, "does not implement"),
        (reply(401, "JWT Failed to validate", kind=None), Denied, "JWT"),
        (reply(403, "forbidden: read-only HTTP node", kind=None), Denied, "read-only"),
        (reply(414, "<h1>Bad Message 414</h1>", kind="text/html"), Incorrect, "size"),
        (edn("{:a ]"), Corrupt, "malformed"),
        (edn("[1 2 3]"), Corrupt, "unexpected reply"),
        (reply(400, '{:xtdb.error/message "no such thing"}'), Incorrect, "no such thing"),
        (reply(500, '{:class "java.lang.OutOfMemoryError"}'), Unavailable, "OutOfMemoryError"),
    ],
)
async def test_an_invalid_reply_is_reported_when_the_store_is_opened(
    server: ScriptedServer, answer: Reply, error: type[CtxmgrError], words: str
) -> None:
    """A wrong address, password or server is found early (003-R198)."""
    server.answer("status", answer)

    with pytest.raises(error, match=words) as raised:
        await XtdbStore.open(server.url)

    assert type(raised.value) is error
    assert f"127.0.0.1:{server.port}" in str(raised.value)


async def test_a_refusal_of_the_official_server_is_denied(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """Nothing was written, and the caller learns why (003-R198)."""
    server.answer("submit-tx", recorded("submit", file="official-1.24.3-read-only"))
    server.answer("query", recorded("no-token-query", file="official-1.24.3-jwks"))

    with pytest.raises(Denied, match="read-only"):
        await store.commit([Put(NOTE)])
    with pytest.raises(Denied, match="JWT"):
        await store.get("a")


@pytest.mark.parametrize("body", ["([1])", "({})", "([{} nil nil])", '(["a" "b" nil])', "7"])
async def test_rows_of_an_unexpected_form_are_corrupt(
    server: ScriptedServer, store: XtdbStore, body: str
) -> None:
    """An invalid reply is never used in part (003-R010)."""
    server.answer("query", edn(body))

    with pytest.raises(Corrupt, match=f"127.0.0.1:{server.port}"):
        await store.get("a")


async def test_an_evicted_piece_is_detected(server: ScriptedServer, store: XtdbStore) -> None:
    """A list with a gap is never returned (003-R010)."""
    spilled = ROW.replace(
        ":title", ':turns [1], :ctxmgr/cut true, :ctxmgr/older.turns ["ctxmgr/piece/x"], :title'
    )
    server.answer("query", edn(spilled), edn("()"))

    with pytest.raises(Corrupt, match="piece"):
        await store.get("a")


async def test_messages_omit_content_that_servers_echo(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """An error reply repeats the request; file contents must not get into logs (003-R198)."""
    server.answer("submit-tx", reply(400, '{:error "%s"}' % ("private " * 100_000)))

    with pytest.raises(Incorrect) as refused:
        await store.commit([Put(NOTE)])

    assert len(str(refused.value)) < 600


async def test_credentials_are_sent_and_never_displayed(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A password in a bug report is compromised (003-R198)."""
    caplog.set_level(logging.DEBUG, logger="ctxmgr")
    url = server.url.replace("://", "://ann:s3cret@")
    async with await XtdbStore.open(url) as store:
        server.answer("query", lost())
        with pytest.raises(Unavailable) as unavailable:
            await store.get("a")
        status = await asyncio.wait_for(_status(server, store), 60)

    assert server.requests[0].headers["authorization"].startswith("Basic ")
    assert "s3cret" not in f"{unavailable.value!r} {caplog.text} {status}"


async def _status(server: ScriptedServer, store: XtdbStore) -> str:
    server.answer("latest-completed-tx", reply(404, '{:error "none"}'))
    return repr(await store.status())


async def test_a_cancelled_commit_leaves_no_task_behind(
    server: ScriptedServer, store: XtdbStore
) -> None:
    """SIGINT must end the whole call (003-R112)."""
    server.answer("submit-tx", Reply(hang=True))
    before = asyncio.all_tasks()
    server.arrived.clear()
    commit = asyncio.create_task(store.commit([Put(NOTE)]))
    await asyncio.wait_for(server.arrived.wait(), 60)

    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)

    assert commit.cancelled()
    left = asyncio.all_tasks() - before
    assert all("_serve" in repr(task) for task in left)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ca_file": "/no/such/file"}, "CA file"),
        ({"ca_file": __file__}, "CA file"),
        ({"ca_file": "x", "verify": False}, "certificates are verified"),
    ],
)
async def test_an_invalid_ca_file_is_reported_at_once(given: dict[str, object], words: str) -> None:
    """Trust is established before anything is sent (003-R198)."""
    with pytest.raises(Incorrect, match=words):
        await XtdbStore.open("xtdb+https://127.0.0.1:1", **given)  # type: ignore[arg-type]
