"""Comments on turns, in the store."""

import pytest

from ctxmgr import Incorrect, connect, open_store
from ctxmgr.core.sessions.comments import comment_id, comments_on, set_comment


async def test_a_tool_call_cannot_take_the_id_of_a_comment() -> None:
    """003-R029: providers choose the ids of calls, and such a turn could not have a comment."""
    async with await open_store("sqlite://:memory:") as store, connect(store=store) as client:
        session = await client.start("s", system_prompt="")
        with pytest.raises(Incorrect, match="is reserved for objects of type comment"):
            await session.record(comment_id("s", 1), tool="bash", args={}, output="evil")
        await set_comment(store, "s", 1, "the wrong file")

        assert await comments_on(store, "s", [1, 2]) == {1: "the wrong file"}
