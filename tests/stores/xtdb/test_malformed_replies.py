"""Replies of a server that is broken, or hostile: whatever arrives, only our errors come out."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ctxmgr.core.store.contract import AsOf, Match, Put, Query, Store
from ctxmgr.errors import CtxmgrError
from ctxmgr.stores.xtdb import commits, transport
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.stores.xtdb.scripted_server import ScriptedServer, edn, reply

TIME: Final = '#inst "2026-01-01T00:00:00.000-00:00"'
ENTITY: Final = (
    '{:xt/id "a", :type "note", :tags ["x"], :ctxmgr/older.tags ["ctxmgr/piece/1"], '
    ':ctxmgr/cut true, :ctxmgr/tx "k", :ctxmgr/format 1}'
)
RECORD: Final = '{:xt/id "ctxmgr/tx/k", :ctxmgr/digest "d", :ctxmgr/call "c", :ctxmgr/deleted []}'
BODIES: Final = {
    "query": f"([{ENTITY} {TIME} nil])",
    "entity": f"({{:xtdb.api/tx-id 1, :xtdb.api/tx-time {TIME}, :xtdb.api/valid-time {TIME}, "
    f':xtdb.api/content-hash #xtdb/id "00", :xtdb.api/doc {ENTITY}}})',
    "tx-log": f"({{:xtdb.api/tx-id 1, :xtdb.api/tx-time {TIME}, "
    f":xtdb.api/tx-ops ([:xtdb.api/put {RECORD}] [:xtdb.api/put {ENTITY} {TIME}])}})",
    "db": f"{{:xtdb.api/valid-time {TIME}, :xtdb.api/tx {{:xtdb.api/tx-id 1}}}}",
    "tx-committed": "{:tx-committed? false}",
    "submit-tx": f"{{:xtdb.api/tx-id 7, :xtdb.api/tx-time {TIME}}}",
    "status": '#:xtdb{:version "1.24.3", :ingester-failed? false}',
    "latest-completed-tx": f"{{:xtdb.api/tx-id 1, :xtdb.api/tx-time {TIME}}}",
}
"""Valid replies by path, from which the malformed ones are made."""

CALLS: Final[dict[str, Callable[[Store], Awaitable[Any]]]] = {
    "get": lambda store: store.get("a"),
    "get at a time": lambda store: store.get("a", as_of=AsOf(system_time=1)),
    "history": lambda store: store.history("a"),
    "find": lambda store: store.find(Query("note")),
    "feed": lambda store: store.feed(),
    "status": lambda store: store.status(),
    "commit": lambda store: store.commit([Match("a", "k"), Put({"xt/id": "a", "type": "note"})]),
}

PARTS: Final = (
    *("{", "}", "(", ")", "[", "]", "#{", "#_", "#:xt{", "#:xt{{}", '"', "\\", "##", "#", ":", ";"),
    *("nil", "1", "-1", "1.5", "1/0", "1e999", "9" * 40, ":xt/id", '""', "#inst", '#inst "x"'),
    *("true", "sym", "\\u", '"\\ud800"', "\x00", "#a #b 1", ("{" * 300), "#uuid", "\ufffd", " "),
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> bytes:
    """Change a valid reply in a few places: insert, replace, cut, or put bytes in."""
    data = text.encode()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(start + 12, len(data))))
        new = draw(st.sampled_from(PARTS).map(str.encode) | st.binary(max_size=3))
        data = data[:start] + new + data[end:]
    return data


async def _call_all(bodies: dict[str, bytes], status: int) -> None:
    async with ScriptedServer() as server:
        store = await XtdbStore.open(server.url, timeout_s=5)
        for path, body in bodies.items():
            server.answer(path, reply(status if path != "submit-tx" else 202, body))
        async with store:
            for name, call in CALLS.items():
                try:
                    await call(store)
                except CtxmgrError:
                    continue
                except Exception as error:
                    raise AssertionError(f"{name}: {error!r} for {bodies}") from error


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.fixed_dictionaries({path: mutated(body) for path, body in BODIES.items()}))
@example(dict.fromkeys(BODIES, b'#:xt{{:a 1} 2, {:b "'))
@example(dict.fromkeys(BODIES, b"#:xt{{:a 1} 2 3}"))
@example(dict.fromkeys(BODIES, b"([" * 5000))
def test_a_malformed_reply_is_one_of_our_errors(
    monkeypatch: pytest.MonkeyPatch, bodies: dict[str, bytes]
) -> None:
    """A harness catches the errors of this package, and no parser's (003-R115, 003-R198)."""
    monkeypatch.setattr(commits, "RESUBMIT_PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(transport, "RETRY_PAUSE_S", 0.0)

    asyncio.run(_call_all(bodies, 200))


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    mutated('{:xtdb.error/error-type :node-out-of-sync, :class "x"}'),
    st.sampled_from([400, 404, 500, 503]),
)
def test_a_malformed_error_is_one_of_our_errors(
    monkeypatch: pytest.MonkeyPatch, body: bytes, status: int
) -> None:
    """What a failing server says about its failure is as little trusted (003-R198)."""
    monkeypatch.setattr(commits, "RESUBMIT_PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(transport, "RETRY_PAUSE_S", 0.0)

    asyncio.run(_call_all(dict.fromkeys(BODIES, body), status))


async def test_the_replies_that_are_mutated_are_valid() -> None:
    """A fuzzer that only ever sees the first check fail tests nothing else."""
    async with ScriptedServer() as server:
        for path, body in BODIES.items():
            server.answer(path, edn(body))
        server.answer(
            "query", edn(BODIES["query"]), edn('([{:xt/id "ctxmgr/piece/1", :ctxmgr/items ["w"]}])')
        )
        async with await XtdbStore.open(server.url, timeout_s=5) as store:
            found = await store.get("a")

    assert found is not None
    assert found.document["tags"] == ["w", "x"]
