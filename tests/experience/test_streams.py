"""What is streamed reaches the log: once, in order, and whatever else goes wrong."""

import asyncio
import math
import time
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.log.tail import Tail
from ctxmgr.experience.streams import FLUSH_STEPS, TokenStream
from ctxmgr.experience.xdb import XDB
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


@pytest.mark.parametrize(
    "bad",
    [
        {"concept_activations": {"c": math.nan}},
        {"content": "\ud83d"},
        {"timestamp": 2**70},
        {"role": "nobody"},
        {"concept_activations": {"": 0.5}},
    ],
)
async def test_a_bad_step_does_not_stop_the_others(bad: dict[str, Any], tmp_path: Path) -> None:
    """The caller is refused; what was streamed before and after is recorded."""
    async with await ExperienceLog.open(tmp_path) as log:
        stream = TokenStream(log)
        stream.add("s", step(1))
        with pytest.raises(Incorrect):
            stream.add("s", step(2, **bad))
        stream.add("s", step(3))
        await stream.close()

        assert await contents(log) == ["token 1", "token 3"]


async def test_a_log_that_cannot_be_written_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the last flush is raised, and no file stays open."""

    def full(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    xdb = XDB(tmp_path, "be-1")
    await xdb.__aenter__()
    await xdb.start_session("s")
    log = xdb.experience_log
    monkeypatch.setattr(Tail, "append", full)
    xdb.stream(step(1))
    with pytest.raises(Unavailable, match="full"):
        await xdb.__aexit__()

    with pytest.raises(Incorrect, match="not open"):
        _ = xdb.experience_log
    with pytest.raises(Exception, match="closed"):
        await log.last_tick("s")


async def test_an_answer_ends_after_the_next_input_came(tmp_path: Path) -> None:
    """The listener may be late: the answer has its end, the order is kept, the next one is open."""
    async with await ExperienceLog.open(tmp_path) as log:
        stream = TokenStream(log)
        for text in ("One", " file", "."):
            stream.add("s", step(content=text, event_id="answer-1", event_end=False))
        await stream.flush(hold_back=True)
        stream.add("s", step(content="And now?", event_id="input-2", event_end=True))
        stream.add("s", step(content="Two", event_id="answer-2", event_end=False))
        await stream.flush(hold_back=True)
        assert await contents(log) == ["One", " file"]

        await stream.end("s", "answer-1")
        assert await log.has_ended_event("s", "answer-1")
        assert await contents(log) == ["One", " file", "."]
        await stream.close()

        assert await contents(log) == ["One", " file", ".", "And now?", "Two"]
        assert not await log.has_ended_event("s", "answer-2")


async def test_an_event_that_never_ends_holds_back_few_steps(tmp_path: Path) -> None:
    """The answer broke off; what comes later is recorded all the same."""
    async with await ExperienceLog.open(tmp_path) as log:
        stream = TokenStream(log)
        stream.add("s", step(content="lost", event_id="answer-1", event_end=False))
        for number in range(FLUSH_STEPS):
            stream.add("s", step(content=str(number), event_id="answer-2", event_end=False))
        await stream.flush(hold_back=True)

        assert await contents(log) == ["lost", *map(str, range(FLUSH_STEPS - 1))]
        await stream.close()
