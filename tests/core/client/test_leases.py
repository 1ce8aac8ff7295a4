"""A second client of a session is warned before it pays for an answer that it cannot store."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr import Conflict, Incorrect, Store
from ctxmgr.core.client import leases
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.sessions.lease import HEARTBEAT_S, LEASE_MS
from ctxmgr.stores.sqlite.store import SqliteStore
from tests.core.builders.clients import with_clock

DEADLINE_S = 60


class Clock:
    """The time of the store and of the clients, in seconds."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def instant(self) -> int:
        return int(self.now * 1_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    url = f"sqlite:///{tmp_path}/s.db"
    async with await SqliteStore.open(url, kinds=KINDS, clock=clock.instant) as opened:
        yield opened


def connecting(store: Store) -> Any:
    return ctxmgr.connect(store=store, tracking=False)


async def lease_versions(store: Store) -> int:
    return len((await store.history("lease:s1", documents=False)).entries)


async def test_the_second_client_is_warned_and_can_go_on(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """003-A21: two clients may work on one session; the turn that ends second is refused."""
    async with connecting(store) as first, connecting(store) as second:
        ours = await first.start("s1", system_prompt="Hello.")
        assert ours.also_open is None
        await ours.render("go")

        theirs = await second.resume("s1")

        assert theirs.also_open is not None
        assert "session s1 is also open in process" in caplog.text
        await theirs.render("go on")
        await theirs.end_turn("Done.")
        with pytest.raises(Conflict):
            await ours.end_turn("Done.")


async def test_the_first_client_learns_of_the_second_with_the_next_heartbeat(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """It has paid for its answer already, and can decide not to pay for the next."""
    async with connecting(store) as first, connecting(store) as second:
        ours = await first.start("s1", system_prompt="Hello.")
        await ours.render("go")
        await second.resume("s1", take_over=True)
        assert "also open" not in caplog.text  # whoever takes over knows

        await first.leases.beat()

        assert ours.also_open is not None
        assert caplog.text.count("also open") == 1
        await second.pause("s1")
        await ours.render("go")  # looks again
        assert ours.also_open is None


async def test_a_session_that_is_open_is_not_taken_over_by_accident(store: Store) -> None:
    """``ctxmgr run`` asks so; nothing of the session changes by asking."""
    async with connecting(store) as first, connecting(store) as second:
        ours = await first.start("s1", system_prompt="Hello.")
        await ours.render("go")
        before = await store.history("lifecycle:s1")

        with pytest.raises(Incorrect, match=r"is open in process .* take it over"):
            await second.resume("s1", take_over=False)

        assert await store.history("lifecycle:s1") == before
        await first.leases.beat()
        assert ours.also_open is None
        await ours.end_turn("Done.")
        await first.pause("s1")
        await second.resume("s1", take_over=False)


@pytest.mark.parametrize("how", ["pause", "close"])
async def test_a_session_that_was_left_is_free(
    store: Store, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning that is mostly wrong is not read."""
    async with connecting(store) as first:
        session = await first.start("s1", system_prompt="Hello.")
        await session.render("go")
        if how == "pause":
            await first.pause("s1")

    async with connecting(store) as second:
        assert (await second.resume("s1", take_over=False)).also_open is None
    assert "also open" not in caplog.text


async def test_the_lease_of_a_machine_that_is_gone_expires(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time of the store: nothing can be learnt of the other machine's clock."""
    with monkeypatch.context() as patch:
        patch.setattr(leases, "_host", lambda: "another machine")
        gone = connecting(store)
        client = await gone.__aenter__()
        await client.start("s1", system_prompt="Hello.")
    clock.now += LEASE_MS / 1_000 - 1
    async with connecting(store) as second:
        with pytest.raises(Incorrect, match="is open in"):
            await second.resume("s1", take_over=False)

    clock.now += LEASE_MS / 1_000 + 1
    async with connecting(store) as third:
        assert (await third.resume("s1", take_over=False)).also_open is None
        await third.pause("s1")
    await gone.__aexit__(None, None, None)


CRASH = """
import asyncio, os, sys, ctxmgr

async def main():
    async with ctxmgr.connect(sys.argv[1], tracking=False) as client:
        session = await client.start("s1", system_prompt="Hello.")
        await session.render("go")
        os._exit(7)

asyncio.run(main())
"""


async def test_the_lease_of_a_process_that_crashed_here_is_free_at_once(tmp_path: Path) -> None:
    """Whoever continues after a crash must not wait for minutes."""
    url = f"sqlite:///{tmp_path}/crash.db"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASH, url)
    assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 7

    async with ctxmgr.connect(url, tracking=False) as client:
        assert (await client.resume("s1", take_over=False)).also_open is None


async def test_an_idle_session_is_not_renewed(store: Store, clock: Clock) -> None:
    """A session that stays open for weeks must not fill the store."""
    async with connecting(store) as client:
        session = await client.start("s1", system_prompt="Hello.")
        await session.render("go")
        await session.end_turn("Done.")
        await client.leases.beat()
        renewed = await lease_versions(store)

        for _ in range(5):
            clock.now += HEARTBEAT_S
            await client.leases.beat()

        assert await lease_versions(store) == renewed


async def test_a_model_that_takes_long_keeps_the_lease(store: Store, clock: Clock) -> None:
    """The time between prompt and answer is what the lease is for."""
    async with connecting(store) as client, connecting(store) as second:
        session = await client.start("s1", system_prompt="Hello.")
        await session.render("go")
        for _ in range(10):
            clock.now += HEARTBEAT_S
            await client.leases.beat()

        assert (await second.resume("s1")).also_open is not None


async def test_a_lease_that_ran_out_is_acquired_before_the_next_prompt(
    store: Store, clock: Clock
) -> None:
    """A person thought for ten minutes; meanwhile another client took the session."""
    async with (
        connecting(store) as base,
        connecting(store) as second,
        with_clock(base, clock) as client,
    ):
        session = await client.start("s1", system_prompt="Hello.")
        await session.render("go")
        await session.end_turn("Done.")
        clock.now += 2 * LEASE_MS / 1_000
        other = await second.resume("s1")
        assert other.also_open is None

        await session.render("go on")

        assert session.also_open is not None


async def test_a_lease_makes_no_event_and_is_in_no_bundle(store: Store, tmp_path: Path) -> None:
    """It is about clients, not about the session: its documents have no version by it."""
    events: list[str] = []

    class Hearing:
        name = "hearing"

        async def last_handled(self) -> None:
            return None

        async def handle(self, event: ctxmgr.Event) -> None:
            events.append(event.name)

    async with ctxmgr.connect(store=store, tracking=False, listeners=[Hearing()]) as client:
        session = await client.start("s1", system_prompt="Hello.")
        await session.render("go")
        await client.leases.beat()
        await client.heard()
        before = {
            kind: await store.history(f"{kind}:s1") for kind in ("session", "chat", "lifecycle")
        }
        await client.leases.beat()
        await client.export_session("s1", path=tmp_path / "s1.bundle")

    async with ctxmgr.connect(f"sqlite:///{tmp_path}/other.db", tracking=False) as other:
        await other.import_session(tmp_path / "s1.bundle")
        assert await other.store.get("lease:s1") is None
    assert events == ["system_prompt_changed", "session_started"]
    assert {kind: await store.history(f"{kind}:s1") for kind in before} == before


async def test_a_lease_that_cannot_be_renewed_fails_no_turn(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It only warns, so it must not stop anybody."""
    async with connecting(store) as client:
        session = await client.start("s1", system_prompt="Hello.")
        await session.render("go")

        async def failing(*_: object, **__: object) -> None:
            raise ctxmgr.Unavailable("the disk is full")

        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(store, "commit", failing)
            await client.leases.beat()

        assert "was not renewed: the disk is full" in caplog.text
        assert await session.end_turn("Done.") == 1


async def test_a_forged_lease_is_ignored(store: Store) -> None:
    """Whoever can write to the store must not be able to lock sessions with nonsense."""
    async with connecting(store) as client:
        session = await client.start("s1", system_prompt="Hello.")
        await client.pause("s1")
        forged: dict[str, Any] = {"xt/id": "lease:s1", "type": "lease", "holder": 7, "host": []}
        await store.commit([ctxmgr.Put(forged)])

        session = await client.resume("s1", take_over=False)

        assert session.also_open is None
