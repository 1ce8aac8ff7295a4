"""Tool calls that are cancelled: a started call is recorded, and a commit in progress completes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tools import INTERRUPTED, Tools
from ctxmgr.core.store.commits import finish_despite_cancel
from ctxmgr.sandboxes.host import Host
from tests.journeys.runs import Fifo

SECONDS = 60


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[LiveSession]:
    """A session whose commands run in a temporary directory."""
    host = await Host.start()
    try:
        url = f"sqlite:///{tmp_path}/s.db"
        async with ctxmgr.connect(url, sandbox=host, directory=str(tmp_path)) as client:
            yield await client.start("s1", system_prompt="")
    finally:
        await host.close()


async def test_a_tool_that_is_cancelled_is_stored_as_failed(
    session: LiveSession, tmp_path: Path
) -> None:
    """003-R180: it ran and may have changed the disk, so there is an object."""
    fifo = Fifo(tmp_path)
    args = {"command": fifo.command}
    running = asyncio.create_task(Tools(session).dispatch("c1", name="bash", args=args))
    await asyncio.wait_for(asyncio.to_thread(fifo.wait), SECONDS)

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    (block,) = session.context().active
    assert (block.object_id, block.content) == ("c1", INTERRUPTED)
    await session.render("What happened?")
    assert await session.end_turn("It was interrupted.") == 1


async def test_a_step_in_progress_completes_before_the_cancellation() -> None:
    """Cancellation must not separate a commit from its bookkeeping."""
    begun, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def step() -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    waiting = asyncio.create_task(finish_despite_cancel(step()))
    await begun.wait()
    waiting.cancel()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


async def test_an_error_of_such_a_step_is_raised() -> None:
    """The canceller must learn that nothing was stored."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        begun.set()
        await may_end.wait()
        raise ctxmgr.Unavailable("the store is away")

    waiting = asyncio.create_task(finish_despite_cancel(step()))
    await begun.wait()
    waiting.cancel()
    may_end.set()

    with pytest.raises(ctxmgr.Unavailable):
        await waiting
