"""Appends turns to a store, for ``append_figures``: as a client, or by the same commits alone.

    python -m ctxmgr.bench.core.append_child URL SESSION TURNS [--bare]

Prints a line when it is ready, waits for one, and prints when it began and ended. With ``--bare``
the turns are first recorded in a store of their own, and then only their transactions are
committed, without a client.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

from ctxmgr.app import connect
from ctxmgr.bench.core.built_session import MESSAGE_CHARS, OUTPUT_CHARS, Filler
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.store.contract import Commit, Match, Operation
from ctxmgr.stores.sqlite.store import SqliteStore


class _Recording(SqliteStore):
    """Keeps every transaction with the token that it was given."""

    recorded: list[tuple[tuple[Operation, ...], str]]

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        batch = tuple(operations)
        commit = await super().commit(batch, key=key)
        self.recorded.append((batch, commit.token))
        return commit


async def _as_client(store: SqliteStore, session_id: str, turns: int) -> AsyncIterator[None]:
    """Yield once the session exists, and after every turn."""
    filler = Filler(session_id)
    async with connect(store=store, tracking=False) as client:
        session = await client.start(session_id, system_prompt="-")
        yield
        for number in range(turns):
            await session.render(filler.text(MESSAGE_CHARS))
            output = filler.text(OUTPUT_CHARS)
            call_id = f"{session_id}-{number}"
            await session.record(call_id, tool="bash", args={}, output=output, discover=False)
            await session.end_turn(filler.text(MESSAGE_CHARS))
            yield


async def _bare(store: SqliteStore, session_id: str, turns: int) -> AsyncIterator[None]:
    """Commit what a client would commit; yield after every transaction."""
    _Recording.recorded = []
    with TemporaryDirectory(prefix="ctxmgr-bench-") as folder:
        path = Path(folder) / "recorded.db"
        async with await _Recording.open(path, kinds=KINDS, durability="normal") as recording:
            async for _ in _as_client(recording, session_id, turns):
                pass
    tokens: dict[str | None, str | None] = {}
    for number, (operations, token) in enumerate(_Recording.recorded):
        matched = [
            replace(operation, token=tokens.get(operation.token, operation.token))
            if isinstance(operation, Match)
            else operation
            for operation in operations
        ]
        tokens[token] = (await store.commit(matched, key=f"{session_id}-{number}")).token
        yield


async def append(url: str, session_id: str, *, turns: int, bare: bool) -> tuple[float, float]:
    """Append turns once a line was read; return when that began and when it ended."""
    async with await SqliteStore.open(url, kinds=KINDS) as store:
        steps = (_bare if bare else _as_client)(store, session_id, turns)
        await anext(steps)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        began = time()
        async for _ in steps:
            pass
        return began, time()


def main() -> None:
    """Print when the turns were begun and ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("session_id")
    parser.add_argument("turns", type=int)
    parser.add_argument("--bare", action="store_true")
    args = parser.parse_args()
    began, ended = asyncio.run(append(args.url, args.session_id, turns=args.turns, bare=args.bare))
    sys.stdout.write(f"{began} {ended}\n")


if __name__ == "__main__":
    main()
