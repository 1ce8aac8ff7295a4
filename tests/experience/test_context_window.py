"""The context window of an experience log: counted, compacted and recorded."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from ctxmgr.core.context.flushes import FlushRequest
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.model import AnswerDone, AnswerPart, Charge, Request, Stop, TextDelta, Usage
from ctxmgr.core.objects.compaction import CompactionTrigger
from ctxmgr.errors import Incorrect, ModelUnavailable
from ctxmgr.experience import context_window
from ctxmgr.experience.context_window import ContextWindowManager
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import TimestepRecord
from ctxmgr.experience.windows.window_book import WindowBook
from ctxmgr.stores.layer_file import rows_of


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[ExperienceLog]:
    async with await ExperienceLog.open(tmp_path / "experience") as log:
        await log.append("s1", [_step(tick) for tick in range(1, 101)])
        yield log


def _step(tick: int) -> TimestepRecord:
    said = tick % 20 == 1
    return TimestepRecord(
        session_id="s1",
        tick=tick,
        timestamp=tick,
        event_type=EventType.INPUT if said else EventType.OUTPUT,
        content=f"please do step {tick}" if said else f"token{tick} ",
        concept_activations={"wn/a::b.c": 0.5, f"wn/{tick}": 0.1},
    )


async def test_tokens_are_counted_until_the_window_is_full(log: ExperienceLog) -> None:
    """000-R142, 000-R143, 000-R144, 000-R150: at 80 % of the window, and not before."""
    window = ContextWindowManager(1_000, log, session_id="s1")

    before = [await window.add_tokens(79, tick) for tick in range(1, 11)]
    state = window.get_context_state()
    record = await window.add_tokens(10, 11)

    assert before == [None] * 10
    assert (state.max_tokens, state.current_tokens, state.utilization) == (1_000, 790, 0.79)
    assert (state.session_id, state.current_tick) == ("s1", 10)
    assert record is not None
    assert record.trigger is CompactionTrigger.CONTEXT_FULL


async def test_the_oldest_half_is_replaced_by_its_summary(log: ExperienceLog) -> None:
    """000-R145, 000-R146, 000-R147, 000-R148, 000-A16: and the next range starts after it."""
    window = ContextWindowManager(1_000, log, session_id="s1")
    found = [await window.add_tokens(80, tick) for tick in range(1, 31)]

    first, second, *_ = [record for record in found if record is not None]
    assert (first.range_start, first.range_end, first.timesteps_compacted) == (1, 5, 5)
    assert first.tokens_before == 800
    assert first.tokens_after < 800 - 400 + 150
    assert "please do step 1" in first.summary
    assert second.range_start == first.range_end + 1
    assert "please do step 1" in second.summary
    assert window.get_context_state().current_tokens < 800


async def test_records_are_rows_of_the_log(log: ExperienceLog) -> None:
    """000-R005, 000-R055, 000-R056: anybody can query them with SQL."""
    window = ContextWindowManager(100, log, session_id="s1")
    record = None
    for tick in range(1, 10):
        record = await window.add_tokens(10, tick) or record

    rows = await log.file.read(lambda db: rows_of(db, "SELECT * FROM compactions"))

    assert record is not None
    assert [row[0] for row in rows] == [record.id]
    assert rows[0][8] == record.summary
    assert record.summary_concept_tags[0] == "wn/a::b.c"
    assert record.top_k_activations["wn/a::b.c"] == pytest.approx(0.5, abs=0.01)


async def test_a_requested_compaction_is_manual(log: ExperienceLog) -> None:
    """000-R172, 000-A17: None while there is nothing to compact."""
    window = ContextWindowManager(1_000, log, session_id="s1")
    assert await window.request_compaction() is None
    await window.add_tokens(10, 1)
    assert await window.request_compaction() is None
    await window.add_tokens(10, 2)

    record = await window.request_compaction()

    assert record is not None
    assert (record.trigger, record.range_end) == (CompactionTrigger.MANUAL, 1)


class Saves:
    name = "saves"

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    async def flush(self, request: FlushRequest) -> None:
        self.ranges.append((request.first, request.last))


async def test_layers_save_before_each_compaction(log: ExperienceLog) -> None:
    """X-C06: the same order as under the economy policy: flush once, then compact."""
    saves = Saves()
    window = ContextWindowManager(1_000, log, session_id="s1", flushers=[saves])
    records = [await window.add_tokens(100, tick) for tick in range(1, 30)]

    ranges = [(record.range_start, record.range_end) for record in records if record]
    assert saves.ranges == ranges
    assert len(ranges) > 1


class Writes:
    """A model that answers with a fixed text, or not at all."""

    name, form, unique_ids = "m1", "text", True

    def __init__(self, text: str | None) -> None:
        self.text = text

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart, None]:
        if self.text is None:
            raise ModelUnavailable("no")
        yield TextDelta(text=self.text)
        charge = Charge(purpose=request.purpose, model=self.name, usage=Usage(output_tokens=7))
        yield AnswerDone(reply={}, stop=Stop.DONE, charge=charge)


async def test_a_model_writes_the_summary_and_its_cost_is_kept(log: ExperienceLog) -> None:
    """000-R206, 000-R149: the summary and the key concepts; the record says what it cost."""
    window = ContextWindowManager(100, log, session_id="s1", model=Writes("All went well."))
    records = [await window.add_tokens(10, tick) for tick in range(1, 9)]

    assert await window.generate_summary(1, 3) == (
        "All went well.",
        ["wn/a::b.c", "wn/1", "wn/2", "wn/3"],
    )
    assert records[-1] is not None
    assert (records[-1].summary, records[-1].model) == ("All went well.", "m1")
    assert records[-1].usage == {
        "input_tokens": 0,
        "cache_read_tokens": 0,
        "cache_written_tokens": 0,
        "output_tokens": 7,
    }


async def test_without_an_answer_the_summary_is_chosen_from_the_log(log: ExperienceLog) -> None:
    """D8: no feature needs a model."""
    window = ContextWindowManager(100, log, session_id="s1", model=Writes(None))

    summary, _ = await window.generate_summary(1, 3)

    assert summary.startswith("input: please do step 1\n")


async def test_wrong_counts_are_refused(log: ExperienceLog) -> None:
    """Ticks only grow; the error says which one does not."""
    window = ContextWindowManager(100, log, session_id="s1")
    await window.add_tokens(1, 5)

    with pytest.raises(Incorrect, match="tick 4"):
        await window.add_tokens(1, 4)
    with pytest.raises(Incorrect, match="compaction_threshold"):
        ContextWindowManager(100, log, 0, session_id="s1")


async def test_what_a_killed_process_compacted_expires_later(log: ExperienceLog) -> None:
    """000-R061: the next compaction expires what the last one took out of the context."""
    book = WindowBook(log, warm_quota_tokens=100)
    killed = ContextWindowManager(100, log, session_id="s1")  # its windows did not expire
    for tick in range(1, 11):
        await killed.add_tokens(8, tick)
    assert await book.windows("s1") == []

    window = ContextWindowManager(100, log, session_id="s1", windows=book)
    await window.restore()
    record = await window.request_compaction()

    assert record is not None
    assert record.range_start > 1
    assert [each.start_tick for each in await book.windows("s1")] == [1]
    assert (await book.windows("s1"))[-1].end_tick == record.range_end


async def test_long_ranges_are_counted_whole_and_summarised_by_their_end(
    log: ExperienceLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R055, 000-R146: however many timesteps a range has."""
    monkeypatch.setattr(context_window, "STEPS_MAX", 30)
    window = ContextWindowManager(1_000, log, session_id="s1")
    await window.restore()

    record = await window.request_compaction()

    assert record is not None
    assert record.timesteps_compacted == record.range_end > 30
    assert f"token{record.range_end}" in record.summary
    assert "please do step 1\n" not in record.summary
