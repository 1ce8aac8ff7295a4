"""A harness is repeatedly killed in the middle of a turn and continues each time.

``kill -9`` comes after a line of output, so before or after any of its transactions: between
two tool calls, between the last of them and the end of the turn, and during a commit.
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.events.events import Event, EventId, TurnFinished
from ctxmgr.core.objects.codec import from_document
from ctxmgr.core.objects.envelope import OBJECT_KINDS, turn_id
from ctxmgr.core.store.contract import Store, Transaction
from ctxmgr.core.store.documents import ID
from ctxmgr.stores.sqlite.store import SqliteStore
from tests.journeys.harness_process import FileDiary
from tests.journeys.processes import work_and_be_killed

KILLS: Final = 6
LINES_MAX: Final = 18
"""The most lines one process prints before it is killed: about two turns, some repeated."""
TURNS: Final = 16
"""More turns than all processes can do before the last kill: a turn prints eight lines."""
AFTER_ALL: Final = 1_000_000
"""A position after every event of a transaction."""


class Fresh:
    """A layer that receives every event since a transaction."""

    name = "fresh"

    def __init__(self, *, since: EventId | None) -> None:
        self._since = since
        self.received: list[EventId] = []
        self.turns: list[tuple[str, int, EventId]] = []

    async def last_handled(self) -> EventId | None:
        return self.received[-1] if self.received else self._since

    async def handle(self, event: Event) -> None:
        self.received.append(event.id)
        if isinstance(event, TurnFinished):
            self.turns.append((event.session_id, event.n, event.id))


def job(url: str, sid: str, project: Path, **more: Any) -> dict[str, Any]:
    for n in range(1, TURNS + 1):
        (project / "src" / f"{n}.py").write_text(f"n = {n}\n", encoding="utf-8")
    mount = {"agentPrefix": "/workspace", "canonicalPrefix": str(project)}
    return {"url": url, "session": sid, "mounts": [mount], "turns": TURNS, **more}


async def test_nothing_acknowledged_is_lost_and_nothing_is_doubled(
    store_url: str, sid: str, project: Path
) -> None:
    """After a crash in mid-turn, everything acknowledged is stored exactly once.

    Rows: 003-R007, 003-R071, 003-R078, 003-R089 to R092, 003-R112, 003-R180, PG-06, PG-07.
    """
    given, dice = job(store_url, sid, project), random.Random(sid)
    async with ctxmgr.connect(store_url, tracking=False) as client:
        began = (await client.store.status()).sequence
        for lines in dice.sample(range(1, LINES_MAX + 1), KILLS):
            code, acknowledged = await work_and_be_killed(given, after=lines)
            assert code == -9
            await assert_kept(client, sid, acknowledged)
        code, _ = await work_and_be_killed(given, after=None)

        assert code == 0
        await assert_stored_once(client, sid)
        await assert_whole(client.store, began)


async def test_a_listener_receives_every_event_once_despite_kills(
    store_url: str, sid: str, project: Path, tmp_path: Path
) -> None:
    """A layer dies with its harness; events it had not recorded are sent again (003-R112)."""
    diary, dice = tmp_path / "diary", random.Random(sid)
    given = job(store_url, sid, project, diary=str(diary))
    async with ctxmgr.connect(store_url, tracking=False) as client:
        began = (await client.store.status()).sequence
    since = None if began is None else EventId(began, AFTER_ALL)
    diary.write_text(f"{began} {AFTER_ALL}\n" if since else "", encoding="utf-8")

    for lines in dice.sample(range(1, LINES_MAX + 1), KILLS // 2):
        await work_and_be_killed(given, after=lines)
    await work_and_be_killed({**given, "turns": TURNS // 2}, after=None)

    fresh = Fresh(since=since)
    async with ctxmgr.connect(store_url, tracking=False, listeners=[fresh]) as client:
        await client.heard()
    recorded = [event_id for event_id in FileDiary(diary).written() if event_id != since]
    ours = [(n, event_id) for session_id, n, event_id in fresh.turns if session_id == sid]
    assert recorded == fresh.received[: len(recorded)]
    assert [n for n, _ in ours] == list(range(1, TURNS // 2 + 1))
    assert ours[-1][1] in recorded


async def assert_kept(client: Client, sid: str, acknowledged: Sequence[str]) -> None:
    """Everything acknowledged to the last process is stored, and the sets are consistent."""
    if not acknowledged:
        return
    sets = await client.stored_sets(sid)  # raises if one set is not in the other
    chat = await chat_of(client, sid)
    steps = [step.split() for step in acknowledged]
    assert {name for kind, name in steps if kind == "call"} <= set(sets.session_index)
    assert {name for kind, name in steps if kind == "pin"} <= set(sets.pinned_set)
    assert chat.turn_count >= max((int(n) for kind, n in steps if kind == "turn"), default=0)
    assert set(chat.toolcall_refs) <= set(sets.session_index)
    stored = await client.store.get_many(sets.session_index)
    assert list(stored) == list(sets.session_index)


async def assert_stored_once(client: Client, sid: str) -> None:
    """Every turn is stored once, with its calls in one version, and can be rebuilt."""
    chat = await chat_of(client, sid)
    assert [turn.user for turn in chat.turns] == [f"go {n}" for n in range(1, TURNS + 1)]
    for n, turn in enumerate(chat.turns, start=1):
        assert turn.toolcall_ids == (f"{sid}-{n}-ls", f"{sid}-{n}-read")
        for written_once in (*turn.toolcall_ids, turn_id(sid, number=n)):
            assert len((await client.store.history(written_once)).entries) == 1
        await client.prompt_as_of(sid, turn=n)  # verified by its hash
    sets = await client.stored_sets(sid)
    assert len(sets.session_index) == len(set(sets.session_index)) == 3 * TURNS + 3
    assert list(sets.pinned_set) == [f"{sid}-{n}-read" for n in range(1, TURNS + 1)]


async def chat_of(client: Client, sid: str) -> ctxmgr.Chat:
    version = await client.store.get(f"chat:{sid}")
    assert version is not None
    chat = from_document(version.document)
    assert isinstance(chat, ctxmgr.Chat)
    return chat


async def assert_whole(store: Store, began: int | None) -> None:
    """Every hash of every version is correct, and SQLite finds no fault in its file."""
    for document in documents(await everything(store, began)):
        if document["type"] in OBJECT_KINDS:
            assert from_document(document).object_id == document[ID]
    if isinstance(store, SqliteStore):
        assert (await store.verify()).faults == ()


async def everything(store: Store, after: int | None) -> list[Transaction]:
    fed: list[Transaction] = []
    while page := await store.feed(after=fed[-1].sequence if fed else after):
        fed.extend(page)
    return fed


def documents(fed: Iterable[Transaction]) -> Iterable[dict[str, Any]]:
    return (write.document for transaction in fed for write in transaction.writes if write.document)
