"""Two clients on one session, on both stores: the second is told, and neither is stopped."""

import pytest

import ctxmgr
from ctxmgr import Conflict, Incorrect


async def test_whoever_opens_a_session_second_is_told(store_url: str, sid: str) -> None:
    """003-A21: an answer that cannot be stored is paid for; it is better to know before."""
    async with (
        ctxmgr.connect(store_url, tracking=False) as first,
        ctxmgr.connect(store_url, tracking=False) as second,
    ):
        ours = await first.start(sid, system_prompt="Hello.")
        await ours.render("go")
        with pytest.raises(Incorrect, match="take it over"):
            await second.resume(sid, take_over=False)

        theirs = await second.resume(sid, take_over=True)
        await first.leases.beat()

        assert theirs.also_open is not None
        assert ours.also_open is not None
        await theirs.render("go")
        await theirs.end_turn("Done.")
        with pytest.raises(Conflict):
            await ours.end_turn("Done here.")
        await second.pause(sid)
        await first.pause(sid)

    async with ctxmgr.connect(store_url, tracking=False) as third:
        assert (await third.resume(sid, take_over=False)).also_open is None
