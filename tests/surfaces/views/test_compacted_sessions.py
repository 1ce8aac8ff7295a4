"""`ctxmgr compact` and `ctxmgr sessions pause`: a session is changed without its agent."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import ctxmgr
from ctxmgr import Incorrect
from ctxmgr.core.client.leases import SessionLease
from ctxmgr.surfaces.views.changes import compact_session, pause_session

Change: TypeAlias = Callable[[ctxmgr.Store, str], Awaitable[object]]


async def test_a_session_that_no_client_has_open_is_compacted(tmp_path: Path) -> None:
    """000-R172, 000-A17: the next prompt of the session shows the summary."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, policy="economy") as client:
        session = await client.start("s1", system_prompt="Be careful.")
        for number in range(6):
            await session.render(f"Do task_{number}.")
            await session.end_turn("Done.")
        await client.pause("s1")

        done = await compact_session(client.store, "s1")

        assert done.compaction == "compaction:s1:1"
        assert "(turn 1) Do task_0." in done.summary
        resumed = await client.resume("s1")
        assert done.summary in await resumed.render("")


async def test_a_session_that_is_open_is_refused(tmp_path: Path) -> None:
    """The client that has it open would not notice, and end its turn in vain."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, policy="economy") as client:
        session = await client.start("s1", system_prompt="Be careful.")
        await session.render("Do it.")

        with pytest.raises(Incorrect, match="is open in"):
            await compact_session(client.store, "s1")


async def test_a_short_session_stays_as_it_is(tmp_path: Path) -> None:
    """000-R172: there is nothing to compact, which is no error."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, policy="economy") as client:
        await client.start("s1", system_prompt="Be careful.")
        await client.pause("s1")

        assert (await compact_session(client.store, "s1")).compaction is None


@pytest.mark.parametrize("change", [pause_session, compact_session])
@pytest.mark.parametrize("moment", ["look", "take"])
async def test_a_session_that_is_opened_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, change: Change
) -> None:
    """003-A21: a lease is changed only as it was read; the live client keeps its own."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, policy="economy") as client:
        session = await client.start("s1", system_prompt="Be careful.")
        for number in range(6):
            await session.render(f"Do task_{number}.")
            await session.end_turn("Done.")
        await client.pause("s1")
        before = getattr(SessionLease, moment)

        async def and_then_another_resumes(lease: SessionLease) -> None:
            await before(lease)
            monkeypatch.undo()
            await client.resume("s1")

        monkeypatch.setattr(SessionLease, moment, and_then_another_resumes)
        with pytest.raises(Incorrect, match=r"opened by another client|is open in another client"):
            await change(client.store, "s1")

        lease, state = await client.store.get("lease:s1"), await client.store.get("lifecycle:s1")
        assert lease is not None
        assert state is not None
        assert lease.document["holder"] is not None
        assert state.document["state"] == "active"
        assert await client.store.get("compaction:s1:1") is None
