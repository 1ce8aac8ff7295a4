"""Client behaviour when the store fails and when calls are cancelled."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.client import reconcile
from ctxmgr.core.store.commits import SENDS_MAX
from ctxmgr.core.store.contract import Commit, Operation, Store, Version
from ctxmgr.core.tracking.indexing import DISCOVERY_BATCH_MAX
from ctxmgr.errors import Conflict, OutcomeUnknown, Unavailable


class Shaky:
    """A real store that loses replies or becomes unavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lost_replies = 0
        self.away = 0
        self.unread = frozenset[str]()
        self.reading = 0
        self.left: int | None = None
        """Commits until it becomes unavailable; None means never."""
        self.gate: asyncio.Event | None = None
        self.committed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_many(self, object_ids: list[str], **asked: Any) -> dict[str, Version]:
        self.reading += 1
        try:
            if self.unread.intersection(object_ids):
                raise Unavailable("away")
            found: dict[str, Version] = await self._store.get_many(object_ids, **asked)
            return found
        finally:
            self.reading -= 1

    async def commit(self, operations: list[Operation], *, key: str | None = None) -> Commit:
        if self.away or self.left == 0:
            self.away -= 1
            raise Unavailable("away")
        if self.left is not None:
            self.left -= 1
        commit = await self._store.commit(operations, key=key)
        self.committed.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.lost_replies:
            self.lost_replies -= 1
            assert key is not None
            raise OutcomeUnknown(key, "the reply was lost")
        return commit


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


async def test_a_lost_reply_writes_once(url: str) -> None:
    """A commit is acknowledged or known to have failed; a retry never writes it twice (PG-06)."""
    async with await ctxmgr.open_store(url) as store:
        shaky = Shaky(store)
        async with ctxmgr.connect(store=shaky, tracking=False) as client:  # type: ignore[arg-type]
            session = await client.start("s1", system_prompt="")
            shaky.lost_replies = 2
            await session.record("c1", tool="t", args={}, output="out")
            shaky.lost_replies = 1
            await session.end_turn("done", user="")

        assert len((await store.history("c1")).entries) == 1
        assert len((await store.history("chat:s1")).entries) == 2


async def test_a_failed_resume_leaves_no_read_running(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are read ahead; if one fails, the others end first (003-R115)."""
    monkeypatch.setattr(reconcile, "READ_BATCH", 1)
    async with await ctxmgr.open_store(url) as store:
        shaky = Shaky(store)
        async with ctxmgr.connect(store=shaky, tracking=False) as client:  # type: ignore[arg-type]
            session = await client.start("s1", system_prompt="")
            for number in range(5):
                await session.record(f"c{number}", tool="t", args={}, output="out")
            await client.pause("s1")
            shaky.unread = frozenset({"c0"})

            with pytest.raises(Unavailable):
                await client.resume("s1")

            assert shaky.reading == 0
            shaky.unread = frozenset()
            assert len((await client.resume("s1")).sets.session_index) == 5


async def test_an_unavailable_store_raises_and_changes_nothing(url: str) -> None:
    """The session must not show changes that were not stored (PG-07)."""
    async with await ctxmgr.open_store(url) as store:
        shaky = Shaky(store)
        async with ctxmgr.connect(store=shaky, tracking=False) as client:  # type: ignore[arg-type]
            session = await client.start("s1", system_prompt="")
            await session.record("c1", tool="t", args={}, output="out")
            before = session.sets
            shaky.away = 3

            for act in (
                session.pin("c1"),
                session.deactivate("c1"),
                session.end_turn("done", user=""),
            ):
                with pytest.raises(Unavailable):
                    await act

            assert session.sets == before
            assert session.turn == 1
            assert await session.end_turn("done", user="") == 1


async def test_a_cancelled_call_leaves_the_session_usable(url: str) -> None:
    """A harness may be interrupted at any moment; nothing stored is lost or repeated (003-R112)."""
    async with await ctxmgr.open_store(url) as store:
        shaky = Shaky(store)
        async with ctxmgr.connect(store=shaky, tracking=False) as client:  # type: ignore[arg-type]
            session = await client.start("s1", system_prompt="")
            await _cut_off(shaky, session.record("c1", tool="t", args={}, output="out"))

            await session.record("c1", tool="t", args={}, output="out")
            await session.record("c2", tool="t", args={}, output="out")
            await session.end_turn("done", user="")

        assert session.chat.toolcall_refs == ("c1", "c2")
        assert list(session.sets.session_index) == ["c1", "c2"]
        assert len((await store.history("c1")).entries) == 1


async def test_a_call_whose_later_stubs_were_not_stored_is_in_its_turn(
    url: str, tmp_path: Path
) -> None:
    """A long listing takes several transactions; the call is stored by the first (003-R082)."""
    names = [f"f{number}.txt" for number in range(DISCOVERY_BATCH_MAX + 1)]
    for name in names:
        (tmp_path / name).touch()
    async with await ctxmgr.open_store(url) as store:
        shaky = Shaky(store)
        here = str(tmp_path)
        async with ctxmgr.connect(store=shaky, directory=here, tracking=False) as client:  # type: ignore[arg-type]
            session = await client.start("s1", system_prompt="")
            shaky.left = 1
            with pytest.raises(Unavailable):
                await session.record("c1", tool="ls", args={}, output="\n".join(names))
            shaky.left, shaky.away = None, 0

            await session.end_turn("done", user="")

        assert session.chat.toolcall_refs == ("c1",)
        assert len(session.sets.session_index) == 1 + DISCOVERY_BATCH_MAX


@pytest.mark.parametrize("policy", [None, "economy"])
@pytest.mark.parametrize("again", ["end", "render and end"])
@pytest.mark.parametrize("failure", ["lost", "cancelled"])
async def test_a_turn_that_was_stored_unnoticed_is_not_stored_twice(
    url: str, failure: str, again: str, policy: str | None
) -> None:
    """003-R112: a harness that tries again must not make the model see its own answer twice."""
    async with await ctxmgr.open_store(url) as store:
        shaky = Shaky(store)
        async with ctxmgr.connect(store=shaky, tracking=False) as client:  # type: ignore[arg-type]
            session = await client.start("s1", system_prompt="")
            await session.render("first", policy=policy)
            await session.end_turn("one")
            await session.render("second", policy=policy)
            await session.record("c1", tool="t", args={}, output="out")
            if failure == "lost":
                shaky.lost_replies = SENDS_MAX
                with pytest.raises(OutcomeUnknown):
                    await session.end_turn("two")
            else:
                await _cut_off(shaky, session.end_turn("two"))
            if again == "render and end":
                await session.render("second", policy=policy)

            meta = ctxmgr.AssistantMeta(timestamp=1)
            assert await session.end_turn("two", meta=meta) == 2

            assert (session.turn, session.chat.toolcall_refs) == (3, ("c1",))
            await session.render("third", policy=policy)
            assert await session.end_turn("two") == 3
            assert [turn.user for turn in session.chat.turns] == ["first", "second", "third"]
        assert len((await store.history("turn:s1:2")).entries) == 1


@pytest.mark.parametrize(
    ("user", "answer", "call"),
    [("hello", "other", None), ("other", "mine", None), ("hello", "mine", "c1")],
)
async def test_a_turn_of_another_client_is_a_conflict(
    url: str, user: str, answer: str, call: str | None
) -> None:
    """003-R112: only the very turn that was to be stored counts as stored."""
    async with (
        ctxmgr.connect(url, tracking=False) as client,
        ctxmgr.connect(url, tracking=False) as other,
    ):
        session = await client.start("s1", system_prompt="")
        theirs = await other.resume("s1")
        if call is not None:
            await theirs.record(call, tool="t", args={}, output="out")
        await theirs.end_turn(answer, user=user)

        with pytest.raises(Conflict):
            await session.end_turn("mine", user="hello")

        assert (session.turn, session.chat.turns[0].user) == (2, user)


async def _cut_off(shaky: Shaky, call: Coroutine[Any, Any, Any]) -> None:
    """Cancel a call after its transaction was committed, before it learns of that."""
    shaky.gate = asyncio.Event()
    shaky.committed.clear()
    cut = asyncio.create_task(call)
    async with asyncio.timeout(60):
        await shaky.committed.wait()
    cut.cancel()
    await asyncio.gather(cut, return_exceptions=True)
    shaky.gate = None
