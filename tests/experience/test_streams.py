"""What is streamed reaches the log: once, in order, and whatever else goes wrong."""

import asyncio
import time
from pathlib import Path

import pytest

from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.log.tail import Tail
from ctxmgr.experience.streams import FLUSH_STEPS, TokenStream
from tests.experience.log.test_log import step


async def contents(log: ExperienceLog, session: str = "s") -> list[str]:
    return [each.content for each in await log.query(session_id=session, limit=1_000)]


async def test_closing_during_an_append_records_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that appends cannot be cancelled, and commits."""
    append, begun = Tail.append, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(self: Tail, *args: object, **options: object) -> object:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.1)  # longer than it takes to close
        return append(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Tail, "append", slowly)
    async with await ExperienceLog.open(tmp_path) as log:
        stream = TokenStream(log)
        for number in range(FLUSH_STEPS):
            stream.add("s", step(number))
        await asyncio.wait_for(begun.wait(), 5)
        await stream.close()

        assert await contents(log) == [step(number).content for number in range(FLUSH_STEPS)]
