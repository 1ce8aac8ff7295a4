"""Documents of the proxy, and objects of sessions, in one store."""

import pytest

from ctxmgr import Incorrect, connect, open_store
from ctxmgr.core.objects.envelope import exchange_id
from ctxmgr.core.store.contract import Kind, Put
from ctxmgr.proxy.records import (
    conversation_id,
    session_document,
    session_id,
    step_id,
    text_id,
)
from ctxmgr.store_opening import PROXY_KINDS

IDS = (
    exchange_id("proxy-a", number=1),
    session_id("a"),
    conversation_id("a"),
    step_id("a", 0),
    text_id("a", "#1"),
)


async def test_a_tool_call_cannot_take_the_id_of_a_document_of_the_proxy() -> None:
    """003-R029: a provider chooses the ids of calls, and the other document was overwritten."""
    async with await open_store("sqlite://:memory:") as store, connect(store=store) as client:
        await store.commit([Put(session_document("a", ["c"]))])
        session = await client.start("s", system_prompt="")
        for object_id in IDS:
            with pytest.raises(Incorrect, match="is reserved for objects of type proxy_"):
                await session.record(object_id, tool="bash", args={}, output="evil")
        kept = await store.get(session_id("a"))

    assert kept is not None
    assert kept.document["type"] == "proxy_session"
    assert {object_id.partition(":")[0] for object_id in IDS} == set(PROXY_KINDS)


async def test_a_kind_of_a_caller_does_not_free_the_ids_of_the_proxy() -> None:
    """003-R029: a layer of that name, or one that queries these, would have removed the rule."""
    kinds = {name: Kind(name) for name in PROXY_KINDS}
    async with (
        await open_store("sqlite://:memory:", kinds=kinds) as store,
        connect(store=store) as client,
    ):
        session = await client.start("s", system_prompt="")
        with pytest.raises(Incorrect, match="is reserved for objects of type proxy_"):
            await session.record(session_id("a"), tool="bash", args={}, output="evil")
