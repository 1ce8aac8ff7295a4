"""`ctxmgr compact`: a session is compacted without its agent."""

from pathlib import Path

import pytest

import ctxmgr
from ctxmgr import Incorrect
from ctxmgr.surfaces.views.changes import compact_session


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
