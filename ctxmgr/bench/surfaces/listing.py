"""Benchmark of listing many sessions, newest first, over HTTP. Starts a server process."""

import asyncio
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import orjson

from ctxmgr.bench.report import Figure, Say, within
from ctxmgr.bench.surfaces.http import own_server
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import KINDS, to_document
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.store.contract import Put
from ctxmgr.core.store.queries import batched
from ctxmgr.stores.sqlite.store import SqliteStore

SESSIONS: Final = 1_000
QUICK_SESSIONS: Final = 200
TURNS: Final = 200
LIST_BOUND_MS: Final = 300.0
SHOWN: Final = 20
"""Sessions that `ctxmgr sessions` shows."""

_ROUNDS: Final = 5
_CALLS_PER_TURN: Final = 1
_SESSIONS_PER_COMMIT: Final = 50


async def listing_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    sessions, turns = (QUICK_SESSIONS, 20) if quick else (SESSIONS, TURNS)
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "many.db"
        say(f"build {sessions:,} sessions of {turns} turns")
        async with await SqliteStore.open(path, kinds=KINDS, durability="normal") as store:
            await _build(store, sessions=sessions, turns=turns)
        say("list them")
        async with own_server(path) as url:
            seconds = await asyncio.to_thread(_listed, url)
    return [
        within(
            f"the newest {SHOWN} of {sessions:,} sessions of {turns} turns",
            median(seconds) * 1e3,
            bound=LIST_BOUND_MS,
            unit="ms",
            against="the clock, over HTTP",
            note=f"fastest of {_ROUNDS}: {min(seconds) * 1e3:.0f} ms",
        )
    ]


async def _build(store: SqliteStore, *, sessions: int, turns: int) -> None:
    # All sessions have the same turns: a list must not depend on what they say.
    calls = [f"call-{n:04}" for n in range(turns * _CALLS_PER_TURN)]
    answer = {"type": "text", "text": "an answer of some length " * 10}
    chat = tuple(
        Turn(user=f"question {n} " * 20, assistant=(answer,), toolcall_ids=(calls[n],))
        for n in range(turns)
    )
    for numbers in batched(range(sessions), _SESSIONS_PER_COMMIT):
        puts = []
        for number in numbers:
            name = f"session-{number:04}"
            record = SessionRecord(
                session_id=name,
                session_index=tuple(calls),
                metadata_pool=tuple(calls),
                active_set=tuple(calls[-5:]),
            )
            prompt = SystemPrompt(session_id=name, content="Be careful.")
            parts = (prompt, Chat(session_id=name, turns=chat), record)
            puts += [Put(to_document(part)) for part in parts]
        await store.commit(puts)


def _listed(url: str) -> list[float]:
    seconds = []
    for _ in range(_ROUNDS):
        connection = HTTPConnection(urlsplit(url).netloc)
        started = perf_counter()
        connection.request("GET", f"/sessions?limit={SHOWN}")
        listed = orjson.loads(connection.getresponse().read())
        seconds.append(perf_counter() - started)
        connection.close()
        assert len(listed["sessions"]) == SHOWN
    return seconds
