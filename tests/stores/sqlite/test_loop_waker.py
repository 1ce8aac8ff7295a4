"""The waker, through which the writer's thread runs a callback on the event loop."""

import asyncio
import threading

from ctxmgr.stores.sqlite.writer import LoopWaker


async def test_a_wake_from_another_thread_runs_the_callback_on_the_event_loop():
    """Futures may only be used there."""
    woken = asyncio.Event()
    threads = []
    waker = LoopWaker(lambda: (threads.append(threading.get_ident()), woken.set()))

    await asyncio.to_thread(waker.wake)
    await asyncio.wait_for(woken.wait(), 60)
    waker.close()

    assert threads == [threading.get_ident()]


async def test_waking_a_busy_event_loop_never_blocks():
    """A busy event loop must not stop the thread that writes."""
    woken = asyncio.Event()
    waker = LoopWaker(woken.set)

    for _ in range(200_000):
        waker.wake()
    await asyncio.wait_for(woken.wait(), 60)
    waker.close()

    assert woken.is_set()
