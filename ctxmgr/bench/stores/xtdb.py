"""Benchmarks of the XTDB store and of its HTTP server.

The store is compared with a plain HTTP client that sends the bytes recorded from our client, with
new ids and keys; the server with a handler of its own that returns fixed bytes.
"""

import asyncio
import re
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import httpx

from ctxmgr.bench.measure import alternate
from ctxmgr.bench.report import Figure, Say, at_least, at_most, reported
from ctxmgr.bench.stores.agreement import disagreements
from ctxmgr.bench.stores.histories import HISTORY_KIND, random_history
from ctxmgr.bench.stores.saved_session import saved_turns
from ctxmgr.bench.stores.xtdb_server import EDN, WAIT_SECONDS, OwnXtdb, own_xtdb
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.objects.hashes import identity_hash
from ctxmgr.core.store.contract import Put
from ctxmgr.stores.sqlite.store import SqliteStore
from ctxmgr.stores.xtdb.reads import QUERIES_AT_ONCE
from ctxmgr.stores.xtdb.store import XtdbStore

CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class XtdbSizes:
    """The size of the measurement."""

    puts: int
    batch: int
    batch_rounds: int
    seconds: int
    """For one measurement of the HTTP server."""
    seconds_rounds: int
    """Rounds that alternate between both handlers; the median ignores a busy moment."""
    warm_up_rounds_max: int
    early: int
    """The turn with whose commit a later one is compared."""
    late: int


FULL: Final = XtdbSizes(
    puts=100,
    batch=5_000,
    batch_rounds=7,
    seconds=3,
    seconds_rounds=7,
    warm_up_rounds_max=20,
    early=100,
    late=1_000,
)
QUICK: Final = XtdbSizes(
    puts=10,
    batch=1_000,
    batch_rounds=3,
    seconds=1,
    seconds_rounds=1,
    warm_up_rounds_max=1,
    early=40,
    late=150,
)

_DISK_MAX: Final = 40
"""Measured 25: 9 for documents and indexes, the rest write-ahead logs, which are bounded. Without a
bound it was 106, and grew with every commit."""

_NEIGHBOURS: Final = 32
"""Commits around a turn whose bytes are averaged, because chunk boundaries add noise."""

_WARM_UP_SECONDS: Final = 2
_WARM_UP_NO_FASTER: Final = 3
"""Successive rounds without improvement after which the server is warm."""
_FASTER: Final = 1.05

_TX_ID: Final = re.compile(rb":xtdb.api/tx-id (\d+)")


async def xtdb_figures(*, quick: bool, histories: int | None, say: Say) -> list[Figure]:
    """Start a server on RocksDB and measure with it."""
    sizes = QUICK if quick else FULL
    async with own_xtdb(say) as bench:
        if histories:
            return [await _agreement(bench.base, histories=histories, say=say)]
        say("XTDB: small puts")
        figures = [await _small_puts(bench, puts=sizes.puts)]
        say(f"XTDB: batch get of {sizes.batch}")
        figures.append(await _batch_get(bench, batch=sizes.batch, rounds=sizes.batch_rounds))
        say("XTDB: the HTTP server under wrk")
        figures.append(await _http_server(bench, sizes))
        say(f"XTDB: a session of {sizes.late} turns")
        figures.extend(await _bytes_sent(bench, early=sizes.early, late=sizes.late))
    return figures


async def _agreement(base: str, *, histories: int, say: Say) -> Figure:
    kinds = {HISTORY_KIND.name: HISTORY_KIND}
    differences: list[str] = []
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(await SqliteStore.open(":memory:", kinds=kinds))
        opened = await XtdbStore.open(f"xtdb+{base}", kinds=kinds, timeout_s=WAIT_SECONDS)
        remote = await stack.enter_async_context(opened)
        for seed in range(histories):
            say(f"history {seed + 1} of {histories}")
            history = random_history(seed, mark=f"{uuid4().hex}-{seed}")
            differences += await disagreements(embedded, remote, history)
    return at_most(
        f"answers that differ in {histories:,} random histories",
        len(differences),
        bound=0,
        against="SQLite and XTDB, each other",
        note="; ".join(report.splitlines()[0] for report in differences[:5]),
    )


async def _small_puts(bench: OwnXtdb, *, puts: int) -> Figure:
    url = f"xtdb+{bench.base}"
    key, object_id = uuid4().hex.encode(), b"toolu_first"
    bench.tap.clear()
    await bench.store.commit([Put(_document("first"))], key=key.decode())
    (template,) = bench.tap.bodies("/submit-tx")
    async with await XtdbStore.open(url, kinds=KINDS, timeout_s=WAIT_SECONDS) as store:

        async def ours() -> None:
            for _ in range(puts):
                await store.commit([Put(_document(uuid4()))])

        async def bare() -> None:
            for _ in range(puts):
                renewed = template.replace(key, uuid4().hex.encode())
                renewed = renewed.replace(object_id, uuid4().hex.encode())
                await _submit(bench.direct, renewed)

        times = await alternate(ours, bare, rounds=5)
    note = f"{times.ours / puts * 1e3:.1f} ms, bare {times.baseline / puts * 1e3:.1f} ms"
    return at_least(
        "XTDB small put with commit check",
        times.speed,
        bound=0.8,
        against="the same two calls with a bare httpx client",
        note=note,
    )


async def _submit(client: httpx.AsyncClient, body: bytes) -> None:
    reply = await client.post("/_xtdb/submit-tx", content=body, headers=EDN)
    match = _TX_ID.search(reply.raise_for_status().content)
    assert match is not None
    number = match[1].decode()
    committed = await client.get(
        "/_xtdb/tx-committed",
        params={"tx-id": number, "await-tx-id": number, "await-tx-timeout": "10000"},
        headers=EDN,
    )
    assert b"true" in committed.raise_for_status().content


async def _batch_get(bench: OwnXtdb, *, batch: int, rounds: int) -> Figure:
    ids = [f"batch:{number}" for number in range(batch)]
    documents = [_document(number, object_id) for number, object_id in enumerate(ids)]
    for start in range(0, batch, 1_000):
        await bench.store.commit([Put(document) for document in documents[start : start + 1_000]])
    bench.tap.clear()
    await bench.store.get_many(ids)
    queries = bench.tap.bodies("/query")
    targets = bench.tap.targets("/query")
    async with await XtdbStore.open(
        f"xtdb+{bench.base}", kinds=KINDS, timeout_s=WAIT_SECONDS
    ) as store:

        async def ours() -> None:
            assert len(await store.get_many(ids)) == batch

        slots = asyncio.Semaphore(QUERIES_AT_ONCE)

        async def read(target: str, query: bytes) -> int:
            async with slots:
                reply = await bench.direct.post(target, content=query, headers=EDN)
            return len(reply.raise_for_status().content)

        async def raw() -> None:
            reads = (read(*pair) for pair in zip(targets, queries, strict=True))
            assert sum(await asyncio.gather(*reads)) > batch

        times = await alternate(ours, raw, rounds=rounds)
    note = f"{times.ours * 1e3:.0f} ms, raw {times.baseline * 1e3:.0f} ms, {len(queries)} queries"
    return at_least(
        f"XTDB batch get of {batch:,}",
        times.speed,
        bound=0.5,
        against="the same query and bytes, read raw, not decoded",
        note=note,
    )


async def _http_server(bench: OwnXtdb, sizes: XtdbSizes) -> Figure:
    what = f"XTDB's HTTP server: GET of a small document on {CONNECTIONS} connections (wrk)"
    against = "a handler in the same server that answers fixed bytes"
    if not shutil.which("wrk"):
        return reported(what, None, against=against, note="not measured: wrk is not installed")
    await bench.store.commit([Put(_document(0, "door"))])
    entity = f"{bench.base}/_xtdb/entity?eid-edn=%22door%22"
    fixed = f"{bench.base}/ping"
    await _warm_up(entity, fixed, rounds_max=sizes.warm_up_rounds_max)
    seconds, rounds = sizes.seconds, sizes.seconds_rounds
    rates = [(await _wrk(entity, seconds), await _wrk(fixed, seconds)) for _ in range(rounds)]
    ours, fixed_rate = (median(column) for column in zip(*rates, strict=True))
    return at_least(
        what,
        median(one / other for one, other in rates),
        bound=0.5,
        against=against,
        note=f"{ours:.0f} requests/s, fixed bytes {fixed_rate:.0f}; median of {rounds} ratios",
    )


async def _warm_up(*urls: str, rounds_max: int) -> None:
    """Send requests until none gets faster, which means that the JVM has compiled the hot paths."""
    best, since_best = dict.fromkeys(urls, 0.0), 0
    for _ in range(rounds_max):
        rates = {url: await _wrk(url, _WARM_UP_SECONDS) for url in urls}
        faster = any(rates[url] > best[url] * _FASTER for url in urls)
        since_best = 0 if faster else since_best + 1
        best = {url: max(best[url], rates[url]) for url in urls}
        if since_best == _WARM_UP_NO_FASTER:
            return


async def _wrk(url: str, seconds: int) -> float:
    process = await asyncio.create_subprocess_exec(
        *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    match = re.search(rb"Requests/sec:\s*([\d.]+)", output)
    assert match is not None, output
    assert b"Non-2xx" not in output, output
    return float(match[1])


async def _bytes_sent(bench: OwnXtdb, *, early: int, late: int) -> list[Figure]:
    sent: list[int] = []
    payload = 0
    before = _folder_bytes(bench.data_dir)
    for turn in saved_turns("bench", turns=late + _NEIGHBOURS // 2):
        bench.tap.clear()
        await bench.store.commit(turn.puts)
        sent.append(len(bench.tap.sent))
        payload += turn.payload_bytes
    sent_early, sent_late = _around(sent, early), _around(sent, late)
    disk = _folder_bytes(bench.data_dir) - before
    return [
        at_most(
            f"XTDB bytes sent per commit at turn {late:,}",
            sent_late / sent_early,
            bound=2,
            against=f"at turn {early}",
            note=f"{sent_late:,.0f} bytes, at turn {early} {sent_early:,.0f}",
        ),
        at_most(
            "XTDB bytes on disk for that session",
            disk / payload,
            bound=_DISK_MAX,
            against="the bytes of its text and ids",
            note=f"{disk:,} bytes for {payload:,}, while the server runs",
        ),
    ]


def _around(sent: list[int], turn: int) -> float:
    near = sent[turn - _NEIGHBOURS // 2 : turn + _NEIGHBOURS // 2]
    return sum(near) / len(near)


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _document(number: object, object_id: str | None = None) -> dict[str, Any]:
    object_id = object_id or f"toolu_{number}"
    return {
        "xt/id": object_id,
        "type": "toolcall",
        "identity_hash": identity_hash("toolcall", object_id=object_id),
        "tool": "bash",
        "args": {"command": f"make test TARGET={number}"},
        "status": "ok",
        "chat_ref": "chat:bench",
        "content": "............ 12 passed in 0.31 s",
    }
