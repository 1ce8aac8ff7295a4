"""Improvements over the official module: failures, limits, access and shutdown."""

import http.client
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from tests.xtdb.servers import ENDED_BY_SIGTERM, START, XtdbServer
from tests.xtdb.signed_tokens import jwks_setting, token

pytestmark = pytest.mark.xtdb

EDN: Final = {"Content-Type": "application/edn", "Accept": "application/edn"}
HOLD_BACK_BYTES: Final = 30_000
MAX_BODY_BYTES: Final = 2_000_000
DOCUMENTS: Final = 6_000
WRITERS: Final = 4
READS: Final = 40
SETTINGS: Final = (
    f"{{:hold-back-bytes {HOLD_BACK_BYTES} :max-body-bytes {MAX_BODY_BYTES} :max-wait-ms 3000}}"
)


def connect(server: XtdbServer, timeout_s: float = 30.0) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)


def ask(
    server: XtdbServer, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, str]:
    with closing(connect(server)) as connection:
        connection.request(method, path, body, {**EDN, **headers})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def query(server: XtdbServer, text: str, in_args: str = "[]") -> tuple[int, str]:
    return ask(server, "POST", "/_xtdb/query", f"{{:query {text} :in-args {in_args}}}")


def submit(server: XtdbServer, ops: str) -> str:
    status, body = ask(server, "POST", "/_xtdb/submit-tx", f"{{:tx-ops [{ops}]}}")
    assert status == 202, body
    match = re.search(r"tx-id (\d+)", body)
    assert match is not None
    return match.group(1)


def await_tx(server: XtdbServer, tx_id: str) -> None:
    for _ in range(20):
        status, body = ask(server, "GET", f"/_xtdb/await-tx?tx-id={tx_id}")
        if status == 200:
            return
    pytest.fail(body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[XtdbServer]:
    """A server with small limits and documents numbered in order; the last has no number."""
    running = XtdbServer().start(
        data_dir=tmp_path_factory.mktemp("limits"), args=["--set", SETTINGS]
    )
    with running:
        puts = (f"[:xtdb.api/put {{:xt/id {n} :k {n}}}]" for n in range(DOCUMENTS))
        tx_id = submit(running, " ".join(puts))
        await_tx(running, tx_id)
        yield running


@pytest.fixture
def fresh() -> Iterator[XtdbServer]:
    """A server that the test starts itself."""
    with closing(XtdbServer()) as unstarted:
        yield unstarted


def failing_at(row: int) -> str:
    """A query over all documents, in order, that divides by zero at one of them."""
    return f"{{:find [?k ?x] :where [[?e :k ?k] [(- ?k {row}) ?d] [(/ 1 ?d) ?x]]}}"


def test_a_failing_query_is_an_error_status(server: XtdbServer) -> None:
    """A truncated result must never look complete."""
    status, body = query(server, failing_at(5))

    assert status == 500
    assert body == '{:type "exception", :class "java.lang.ArithmeticException"}'


def test_the_connection_survives_a_failing_query(server: XtdbServer) -> None:
    """A failed query must not fail the next request of a pooled connection."""
    with closing(connect(server)) as connection:
        connection.request("POST", "/_xtdb/query", f"{{:query {failing_at(5)}}}", EDN)
        connection.getresponse().read()
        connection.request("GET", "/_xtdb/entity?eid-edn=1", headers=EDN)

        assert connection.getresponse().read() == b"{:k 1, :xt/id 1}"


def test_a_long_result_that_fails_breaks_the_transfer(server: XtdbServer) -> None:
    """A result too long to buffer must fail visibly for any HTTP client."""
    with closing(connect(server)) as connection:
        body = f"{{:query {failing_at(DOCUMENTS - 10)}}}"
        connection.request("POST", "/_xtdb/query", body, EDN)
        reply = connection.getresponse()

        assert reply.status == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            reply.read()


def test_a_long_result_that_succeeds_is_complete(server: XtdbServer) -> None:
    """Buffering must not lose rows."""
    status, body = query(server, "{:find [?k] :where [[?e :k ?k]]}")

    assert status == 200
    assert len(body) > HOLD_BACK_BYTES
    assert body.count("[") == DOCUMENTS
    assert body.endswith(")")


SLOW_QUERY: Final = (
    "{:find [(count ?a)] :timeout %d"
    " :where [[?e :k ?a] [?f :k ?b] [?g :k ?c] [(< ?a ?b)] [(< ?b ?c)]]}"
)


def test_a_query_ends_at_its_own_time_limit(server: XtdbServer) -> None:
    """A runaway query must not run forever for a client that is gone."""
    status, body = query(server, SLOW_QUERY % 300)

    assert status == 500
    assert "java.util.concurrent.TimeoutException" in body
    assert _ends(server)


def _ends(server: XtdbServer) -> bool:
    """Wait until no query runs: one is unlisted only after its reply was sent."""
    until = time.monotonic() + 60
    while ":status :in-progress" in ask(server, "GET", "/_xtdb/active-queries")[1]:
        if time.monotonic() > until:
            return False
    return True


def test_a_query_without_a_limit_has_the_servers_limit(fresh: XtdbServer, tmp_path: Path) -> None:
    """Clients that set no limit are limited too."""
    config = tmp_path / "short.edn"
    config.write_text("{:xtdb/query-engine {:query-timeout 200}}", encoding="utf-8")
    fresh.start(str(config), data_dir=tmp_path / "data")
    tx_id = submit(fresh, " ".join(f"[:xtdb.api/put {{:xt/id {n} :k {n}}}]" for n in range(2000)))
    await_tx(fresh, tx_id)

    status, body = query(fresh, SLOW_QUERY.replace(":timeout %d ", ""))

    assert (status, "TimeoutException" in body) == (500, True)


def test_pending_waits_do_not_block_the_server(server: XtdbServer) -> None:
    """Clients that wait for a transaction must not block others."""
    with ExitStack() as stack:
        waits = [stack.enter_context(closing(connect(server))) for _ in range(200)]
        for wait in waits:
            wait.request("GET", "/_xtdb/await-tx?tx-id=999999&timeout=3000", headers=EDN)
        started = time.monotonic()
        status, _ = ask(server, "GET", "/_xtdb/status")
        seconds = time.monotonic() - started
        replies = [wait.getresponse().status for wait in waits]

    assert status == 200
    assert seconds < 3, "no wait had ended before"
    assert replies == [500] * 200


def test_a_wait_without_a_timeout_ends(server: XtdbServer) -> None:
    """The server must not wait forever for a transaction that never comes."""
    paths = (
        "/_xtdb/await-tx?tx-id=999999",
        "/_xtdb/await-tx-time?tx-time=2999-01-01",
        "/_xtdb/entity?eid-edn=1&await-tx-id=999999",
    )
    with ThreadPoolExecutor(len(paths)) as asking:
        answers = list(asking.map(lambda path: ask(server, "GET", path), paths))

    assert [(status, "TimeoutException" in body) for status, body in answers] == [(500, True)] * 3


def test_a_wait_ends_when_its_transaction_is_indexed(server: XtdbServer) -> None:
    """Clients wait in order to read their own writes."""
    status, body = ask(server, "GET", "/_xtdb/latest-submitted-tx")
    next_id = int(re.findall(r"\d+", body)[0]) + 1
    with closing(connect(server)) as waiting:
        waiting.request("GET", f"/_xtdb/entity?eid=waited&await-tx-id={next_id}", headers=EDN)
        submit(server, '[:xtdb.api/put {:xt/id "waited" :v 1}]')

        reply = waiting.getresponse()

        assert (status, reply.status) == (200, 200)
        assert reply.read() == b'{:v 1, :xt/id "waited"}'


def test_a_body_over_the_size_limit_is_refused(server: XtdbServer) -> None:
    """One request must not be able to exhaust the heap."""
    status, _ = ask(server, "POST", "/_xtdb/submit-tx", "x" * (MAX_BODY_BYTES + 1))

    assert status == 413


def test_a_chunked_body_over_the_size_limit_is_refused(server: XtdbServer) -> None:
    """A body without a declared length is limited too."""
    with closing(connect(server)) as connection:
        chunks = (b"x" * 100_000 for _ in range(MAX_BODY_BYTES // 100_000 + 2))
        connection.request("POST", "/_xtdb/submit-tx", chunks, EDN, encode_chunked=True)

        assert connection.getresponse().status == 413


def test_eval_is_refused_by_default(server: XtdbServer) -> None:
    """Clients that may query must not be able to run code on the server."""
    status, body = query(server, "{:find [?x] :in [?f] :where [[(eval ?f) ?x]]}", "[(+ 1 2)]")

    assert status == 400
    assert ":fn-not-allowed" in body


def test_only_loopback_is_bound_by_default(server: XtdbServer) -> None:
    """A server without a password must not be reachable from the network."""
    listening = [
        line.split()[1].split(":")[0]
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].split(":")[1], 16) == server.port
    ]
    mapped = Path("/proc/net/tcp6").read_text(encoding="ascii")
    listening += [
        line.split()[1].split(":")[0]
        for line in mapped.splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].split(":")[1], 16) == server.port
    ]

    assert set(listening) <= {"0100007F", "0000000000000000FFFF00000100007F"}
    assert listening


def test_health_needs_no_format(server: XtdbServer) -> None:
    """Health checkers know neither XTDB nor EDN."""
    assert ask(server, "GET", "/healthz", Accept="text/html") == (200, "ok\n")


def test_the_token_is_checked_before_anything_else(fresh: XtdbServer) -> None:
    """Unauthorised requests are refused before their body is read."""
    fresh.start(env={"CTXMGR_XTDB_TOKEN": "s3cret"})

    wrong = ask(fresh, "GET", "/_xtdb/status", Authorization="Bearer s3cre")
    right = ask(fresh, "GET", "/_xtdb/status", Authorization="Bearer s3cret")
    with socket.create_connection(("127.0.0.1", fresh.port), timeout=10) as raw:
        raw.sendall(b"POST /_xtdb/submit-tx HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        without = raw.recv(100)

    assert (wrong[0], right[0]) == (401, 200)
    assert without.startswith(b"HTTP/1.1 401")
    assert ask(fresh, "GET", "/healthz")[0] == 200


def test_a_signed_token_gives_access_until_it_expires(fresh: XtdbServer) -> None:
    """The official module ignores expiry, so a lost token is valid forever."""
    fresh.start(args=["--set", jwks_setting()])
    head, claims, signature = token({"sub": "a"}).split(".")
    forged = ".".join([head, token({"sub": "root"}).split(".")[1], signature])
    now = int(time.time())

    def status(bearer: str) -> int:
        return ask(fresh, "GET", "/_xtdb/status", Authorization=f"Bearer {bearer}")[0]

    assert status(f"{head}.{claims}.{signature}") == 200
    assert status(token({"exp": now + 600})) == 200
    assert status(token({"exp": now - 1})) == 401
    assert status(token({"nbf": now + 600})) == 401
    assert status(forged) == 401


def test_a_settings_file_of_the_official_module_works(fresh: XtdbServer, tmp_path: Path) -> None:
    """Users of the official server can keep their configuration."""
    config = tmp_path / "theirs.edn"
    config.write_text(
        '{:xtdb.http-server/server {:port 1 :read-only? true :jetty-opts {:host "127.0.0.1"}}}',
        encoding="utf-8",
    )

    fresh.start(str(config), data_dir=tmp_path / "data")

    assert ask(fresh, "POST", "/_xtdb/submit-tx", "{:tx-ops []}")[0] == 403


def test_a_stop_is_fast_and_clean_and_data_can_be_moved(fresh: XtdbServer, tmp_path: Path) -> None:
    """Acknowledged data is in the data directory, which can be moved (003-R198)."""
    fresh.start("rocksdb", data_dir=tmp_path / "here")
    tx_id = submit(fresh, '[:xtdb.api/put {:xt/id "kept" :v 1}]')
    with closing(connect(fresh)) as waiting:
        waiting.request("GET", "/_xtdb/await-tx?tx-id=999999", headers=EDN)
        ended = fresh.stop()
    (tmp_path / "here").rename(tmp_path / "there")
    fresh.start("rocksdb", data_dir=tmp_path / "there")
    await_tx(fresh, tx_id)

    assert ended == ENDED_BY_SIGTERM
    assert ask(fresh, "GET", "/_xtdb/entity?eid=kept") == (200, '{:v 1, :xt/id "kept"}')


def test_a_read_sees_every_write_completed_before_it(fresh: XtdbServer, tmp_path: Path) -> None:
    """Readers share snapshots of the index, which must never be stale (003-R198)."""
    fresh.start("rocksdb", data_dir=tmp_path)

    def written_and_read(writer: int) -> list[str]:
        seen = []
        for n in range(READS):
            await_tx(fresh, submit(fresh, f"[:xtdb.api/put {{:xt/id {writer} :n {n}}}]"))
            seen.append(ask(fresh, "GET", f"/_xtdb/entity?eid-edn={writer}")[1])
        return seen

    with ThreadPoolExecutor() as writers:
        seen = list(writers.map(written_and_read, range(WRITERS)))

    assert seen == [
        [f"{{:n {n}, :xt/id {writer}}}" for n in range(READS)] for writer in range(WRITERS)
    ]


def test_a_refused_history_does_not_delay_shutdown(fresh: XtdbServer) -> None:
    """The engine leaks a snapshot then, and would wait a minute for it (003-R198)."""
    fresh.start()
    await_tx(fresh, submit(fresh, '[:xtdb.api/put {:xt/id "kept" :v 1}]'))

    status, _ = ask(fresh, "GET", "/_xtdb/entity?eid=kept&history=true&sort-order=sideways")

    assert status == 500
    assert fresh.stop() == ENDED_BY_SIGTERM


def test_acknowledged_writes_survive_a_kill(fresh: XtdbServer, tmp_path: Path) -> None:
    """RocksDB is synced before a transaction is acknowledged (003-R198)."""
    fresh.start("rocksdb", data_dir=tmp_path)
    tx_id = submit(fresh, '[:xtdb.api/put {:xt/id "kept" :v 1}]')
    fresh.kill()
    fresh.restart()
    await_tx(fresh, tx_id)

    assert ask(fresh, "GET", "/_xtdb/entity?eid=kept")[0] == 200


def test_two_nodes_can_start_concurrently(tmp_path: Path) -> None:
    """Two processes must not unpack RocksDB's library to the same path."""
    with ThreadPoolExecutor() as pool:
        starts = [
            pool.submit(XtdbServer().start, "rocksdb", data_dir=tmp_path / name) for name in "ab"
        ]
    with ExitStack() as stack:
        servers = [stack.enter_context(start.result()) for start in starts]

        assert [ask(server, "GET", "/healthz")[0] for server in servers] == [200, 200]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no-such-file.edn"], "no configuration no-such-file.edn"),
        (["memory", "--set", "{:prot 1}"], "unknown setting of :ctxmgr.door/server: :prot"),
        (["memory", "--port"], "--port needs a value"),
        (["memory", "--set", '{:jwks "{\\"keys\\":[{\\"kty\\":\\"oct\\"}]}"}'], "RSA and EC"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(arguments: list[str], complaint: str) -> None:
    """Users without Clojure knowledge must not see stack traces."""
    done = subprocess.run(
        [str(START), *arguments], check=False, capture_output=True, text=True, timeout=60
    )

    assert done.returncode != 0
    assert complaint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_reported_in_one_line(server: XtdbServer) -> None:
    """The most common mistake has a readable message."""
    done = subprocess.run(
        [str(START), "memory", "--port", str(server.port)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "Address already in use" in done.stderr


def test_the_logs_of_every_store_are_bounded(fresh: XtdbServer, tmp_path: Path) -> None:
    """Without a bound the index's logs take a hundred times the text of a session (003-R198)."""
    fresh.start(config="rocksdb", data_dir=tmp_path)

    for store in ("tx-log", "documents", "indexes"):
        options = max((tmp_path / store).glob("OPTIONS-*")).read_text(encoding="utf-8")
        assert "max_total_wal_size=16777216" in options, store
