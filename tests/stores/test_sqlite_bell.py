"""The bell by which the writer's thread tells the event loop that something is durable."""

import asyncio
import threading

from ctxmgr.stores.sqlite_bell import Bell


async def test_a_ring_of_another_thread_is_heard_on_the_event_loop():
    """Futures may be touched there only."""
    heard = asyncio.Event()
    where = []
    bell = Bell(lambda: (where.append(threading.get_ident()), heard.set()))

    await asyncio.to_thread(bell.ring)
    await asyncio.wait_for(heard.wait(), 20)
    bell.close()

    assert where == [threading.get_ident()]


async def test_a_bell_that_nobody_hears_never_holds_the_one_who_rings():
    """A busy event loop must not stop the thread that writes."""
    heard = asyncio.Event()
    bell = Bell(heard.set)

    for _ in range(200_000):
        bell.ring()
    await asyncio.wait_for(heard.wait(), 20)
    bell.close()

    assert heard.is_set()
