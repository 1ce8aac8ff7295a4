"""Storage pressure: cold records are compressed until they fit, and nothing else is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ctxmgr import Incorrect
from ctxmgr.experience.log.open_file import open_log_file
from ctxmgr.experience.records.kinds import CompressionLevel
from ctxmgr.experience.windows.compression import CompressedRecord
from ctxmgr.experience.windows.storage_manager import StorageManager
from ctxmgr.experience.windows.window_rows import read_records, save_record
from ctxmgr.stores.layer_file import LayerFile

DAY = 24 * 3_600_000
START = 1_767_225_600_000  # 2026-01-01T00:00Z


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LayerFile]:
    file = open_log_file(tmp_path)
    yield file
    file.close()


def reply(number: int, *, session: str, time: int) -> CompressedRecord:
    return CompressedRecord(
        id=f"compressed-REPLY-{number:08x}",
        level=CompressionLevel.REPLY,
        session_id=session,
        start_time=time,
        end_time=time + 1,
        start_tick=number,
        end_tick=number,
        summary=f"reply {number} " + "word " * 60,
        top_k_activations={f"c{number % 7}": 0.5},
        significant_tags=(f"t{number % 3}",),
        source_record_ids=(f"ts-{session}-{number}",),
        token_count=10,
        record_count=1,
    )


def fill(file: LayerFile, *, days: int, sessions: int, replies: int) -> int:
    number = 0
    with file.writing() as db:
        for day in range(days):
            for session in range(sessions):
                for _ in range(replies):
                    time = START + day * DAY + session * 3_600_000 + number
                    save_record(db, reply(number, session=f"s{day}-{session}", time=time))
                    number += 1
    return number


def live(file: LayerFile) -> list[CompressedRecord]:
    with file.reading() as db:
        return read_records(db, "superseded_by IS NULL")


async def test_nothing_is_compressed_below_the_threshold(file: LayerFile) -> None:
    """000-R084: the default threshold is 0.8 of the limit (000-R083)."""
    count = fill(file, days=1, sessions=2, replies=10)
    usage = await StorageManager(file, max_storage_bytes=1).get_current_usage()
    manager = StorageManager(file, max_storage_bytes=int(usage / 0.8) + 2)

    outcome = await manager.check_and_compress()

    assert (outcome.passes, outcome.freed) == (0, 0)
    assert len(live(file)) == count


async def test_pressure_ends_below_the_threshold(file: LayerFile) -> None:
    """000-R085, 000-R211: it goes on until the records fit, and no further."""
    fill(file, days=3, sessions=4, replies=50)
    usage = await StorageManager(file, max_storage_bytes=1).get_current_usage()
    manager = StorageManager(file, max_storage_bytes=usage)
    seen: list[tuple[int, int]] = []

    outcome = await manager.check_and_compress(on_pass=lambda *step: seen.append(step))

    target = int(usage * 0.8)
    assert outcome.after == await manager.get_current_usage() < target
    assert [step[1] for step in seen] == [target] * outcome.passes
    assert CompressionLevel.REPLY in {record.level for record in live(file)}


async def test_the_oldest_records_of_the_finest_level_go_first(file: LayerFile) -> None:
    """000-R086, 000-R089: a pass takes 100 records."""
    fill(file, days=2, sessions=2, replies=80)

    assert await StorageManager(file, max_storage_bytes=1).compress_oldest()

    levels = [(record.level, record.session_id) for record in live(file)]
    assert levels.count((CompressionLevel.REPLY, "s0-0")) == 0
    assert levels.count((CompressionLevel.REPLY, "s0-1")) == 60
    assert levels.count((CompressionLevel.REPLY, "s1-0")) == 80
    coarse = [record for record in live(file) if record.level is CompressionLevel.SESSION]
    assert sorted(record.record_count for record in coarse) == [20, 80]


async def test_a_session_has_one_record_after_several_passes(file: LayerFile) -> None:
    """000-A18: SESSION is one record per session, DAY one per day."""
    count = fill(file, days=2, sessions=2, replies=80)
    manager = StorageManager(file, max_storage_bytes=1)

    while any(record.level is CompressionLevel.REPLY for record in live(file)):
        assert await manager.compress_oldest()

    sessions = live(file)
    assert [record.session_id for record in sessions] == ["s0-0", "s0-1", "s1-0", "s1-1"]
    assert [record.record_count for record in sessions] == [80] * 4
    assert sum(record.token_count for record in sessions) == count * 10


async def test_a_session_keeps_the_sum_of_its_replies(file: LayerFile) -> None:
    """Concepts, tags, a summary of summaries, lineage.

    Rows: 000-A19, 000-R071, 000-R073, 000-R052 to R054.
    """
    fill(file, days=1, sessions=1, replies=21)
    replies = live(file)

    assert await StorageManager(file, max_storage_bytes=1).compress_oldest()

    [session] = live(file)
    assert (session.level, session.session_id) == (CompressionLevel.SESSION, "s0-0")
    assert session.top_k_activations == {f"c{n}": 1.5 for n in range(7)}
    assert session.significant_tags == ("t0", "t1", "t2")
    assert session.summary.startswith("reply 0 word")
    assert "reply 20 word" in session.summary
    assert session.source_record_ids == tuple(reply.id for reply in replies)
    assert (session.token_count, session.record_count) == (210, 21)
    assert (session.start_tick, session.end_tick) == (None, None)
    assert (session.start_time, session.end_time) == (START, replies[-1].end_time)


async def test_a_pass_takes_more_when_the_pressure_is_high(file: LayerFile) -> None:
    """000-R208: 100 records at first; ten times as many when usage is far above the limit."""
    fill(file, days=10, sessions=1, replies=100)
    usage = await StorageManager(file, max_storage_bytes=1).get_current_usage()
    left: list[int] = []

    await StorageManager(file, max_storage_bytes=usage).check_and_compress(
        on_pass=lambda now, _: left.append(now)
    )
    passes = await StorageManager(file, max_storage_bytes=usage // 20).check_and_compress()

    assert usage - left[0] < 0.25 * usage
    assert passes.passes < len(left) + 10


async def test_under_any_pressure_no_token_is_lost(file: LayerFile) -> None:
    """000-R072, 000-R074, 000-R085: in the end a year is left, which stands for all of it."""
    count = fill(file, days=120, sessions=1, replies=3)

    outcome = await StorageManager(file, max_storage_bytes=1).check_and_compress()

    left = live(file)
    assert sum(record.token_count for record in left) == count * 10
    assert outcome.after < outcome.before / 20
    assert max(record.level for record in left) >= CompressionLevel.MONTH


async def test_a_pass_that_frees_nothing_is_undone(file: LayerFile) -> None:
    """PG-19, 000-A27: detail is not given up for nothing, and the run ends."""
    fill(file, days=1, sessions=1, replies=1)
    with file.writing() as db:
        for record in read_records(db, "true"):
            save_record(db, record)
    manager = StorageManager(file, max_storage_bytes=1, summarize=lambda texts: "longer" * 500)

    outcome = await manager.check_and_compress()

    assert outcome.passes == 0
    assert [record.level for record in live(file)] == [CompressionLevel.REPLY]


async def test_a_level_that_frees_nothing_does_not_stop_the_others(file: LayerFile) -> None:
    """000-R085, 000-R211: one small reply must not make the limit unenforceable."""
    fill(file, days=40, sessions=4, replies=2)
    manager = StorageManager(file, max_storage_bytes=1)
    while any(record.level is CompressionLevel.REPLY for record in live(file)):
        assert await manager.compress_oldest()
    with file.writing() as db:
        lone = replace(reply(9_999, session="new", time=START + 50 * DAY), summary="hm")
        save_record(db, lone)
    before = await manager.get_current_usage()

    outcome = await StorageManager(file, max_storage_bytes=before // 3).check_and_compress()

    assert outcome.after < before // 3
    assert lone.id in {record.id for record in live(file)}


async def test_sources_stay_as_stubs_with_their_lineage(file: LayerFile) -> None:
    """000-R090, 000-A20: their text is gone, their id leads to what stands for them."""
    fill(file, days=1, sessions=1, replies=5)

    await StorageManager(file, max_storage_bytes=1).compress_oldest()

    [session] = live(file)
    with file.reading() as db:
        stubs = read_records(db, "superseded_by IS NOT NULL")
    assert [stub.id for stub in stubs] == list(session.source_record_ids)
    assert {(stub.superseded_by, stub.summary) for stub in stubs} == {(session.id, "")}
    assert [stub.token_count for stub in stubs] == [10] * 5


async def test_an_empty_log_has_nothing_to_compress(file: LayerFile) -> None:
    """000-R090: a pass says so."""
    manager = StorageManager(file, max_storage_bytes=1)

    assert not await manager.compress_oldest()
    assert await manager.usage_by_level() == {}


async def test_usage_is_counted_by_level(file: LayerFile) -> None:
    """000-R091, 000-A27: logical bytes, which fall with each pass."""
    fill(file, days=1, sessions=2, replies=100)
    manager = StorageManager(file, max_storage_bytes=1)
    before = await manager.usage_by_level()

    await manager.compress_oldest()

    after = await manager.usage_by_level()
    assert set(before) == {CompressionLevel.REPLY}
    assert set(after) == {CompressionLevel.REPLY, CompressionLevel.SESSION}
    assert after[CompressionLevel.REPLY] < before[CompressionLevel.REPLY] * 0.51


@pytest.mark.parametrize(("limit", "threshold"), [(0, 0.8), (1, 0.0), (1, 1.5)])
def test_a_limit_must_make_sense(file: LayerFile, limit: int, threshold: float) -> None:
    """000-R083: it is refused when the manager is made."""
    with pytest.raises(Incorrect, match="threshold"):
        StorageManager(file, max_storage_bytes=limit, compression_threshold=threshold)
