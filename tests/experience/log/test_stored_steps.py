"""Single steps of segments, read by their place in the file."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Corrupt
from ctxmgr.experience.log import fold, segments, stored_steps
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep, TimestepRecord

SESSIONS = ("a", "b-7", "ß")


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few steps span several row groups."""
    monkeypatch.setattr(segments, "ROW_GROUP_STEPS", 8)


def record(session: str, tick: int) -> TimestepRecord:
    return TimestepRecord(
        session_id=session,
        tick=tick,
        timestamp=tick,
        event_type=EventType.OUTPUT,
        content=f"{session} {tick}",
        concept_activations={"c": tick % 10 / 10},
    )


def open_files() -> Iterator[str]:
    """Yield the names of this process's open files."""
    for link in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # it was open for the list itself
            yield str(link.readlink())


async def fill(log: ExperienceLog, ticks: list[int]) -> None:
    for tick in ticks:
        for session in SESSIONS:
            await log.record_timestep(record(session, tick))
    await log.fold()


async def test_steps_are_found_in_a_session_with_gaps(tmp_path: Path) -> None:
    """000-R113: ticks only have to grow, so that a row does not follow from a tick."""
    ticks = [tick for tick in range(1, 60) if tick % 7 not in {3, 4}]
    async with await ExperienceLog.open(tmp_path) as log:
        await fill(log, ticks)

        for session in SESSIONS:
            found = [await log.get_timestep(f"ts-{session}-{tick}") for tick in range(1, 61)]
            assert [each for each in found if each] == [record(session, tick) for tick in ticks]
            records = await log.query(session_id=session, tick_range=(5, 50))
            assert [each.tick for each in records] == [tick for tick in ticks if 5 <= tick <= 50]


async def test_what_is_not_kept_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R113: a log may have more files than are kept open, and more steps than are decoded."""
    for bound in ("FILES_MAX", "KEPT_BYTES_MAX", "KEPT_STARTS_MAX"):
        monkeypatch.setattr(stored_steps, bound, 1)
    async with await ExperienceLog.open(tmp_path) as log:
        for start in (1, 21, 41):
            await fill(log, list(range(start, start + 20)))

        for _ in range(2):
            for tick in (1, 25, 60, 20, 41):
                assert await log.get_timestep(f"ts-b-7-{tick}") == record("b-7", tick)
        found = await log.query(concept_activations={"c": (0.9, 1.0)})
        assert [(each.session_id, each.tick) for each in found] == [
            (session, tick) for session in SESSIONS for tick in (9, 19, 29, 39, 49, 59)
        ]


async def test_steps_of_another_file_are_not_taken_for_those_asked_for(tmp_path: Path) -> None:
    """A file that was exchanged for another one is damage, and not an answer."""
    async with await ExperienceLog.open(tmp_path) as log:
        for session in ("x", "y"):
            step = NewTimestep(timestamp=1, event_type=EventType.OUTPUT, content="same")
            await log.append(session, [step] * 20)
            await log.fold()
    one, other = sorted((tmp_path / "segments").glob("timesteps-*"))
    swapped = one.read_bytes(), other.read_bytes()
    one.write_bytes(swapped[1])
    other.write_bytes(swapped[0])

    async with await ExperienceLog.open(tmp_path) as log:
        with pytest.raises(Corrupt, match="restore it from a backup"):
            await log.get_timestep("ts-x-7")


async def test_other_ticks_of_a_session_are_not_taken_for_those_asked_for(tmp_path: Path) -> None:
    """What is not where the catalogue says is damage; it is not left out of an answer."""
    async with await ExperienceLog.open(tmp_path) as log:
        await fill(log, list(range(1, 21)))
    database = sqlite3.connect(tmp_path / "log.sqlite")
    database.execute("UPDATE part SET tick0 = tick0 + 1, tick1 = tick1 + 1 WHERE session = 'a'")
    database.commit()
    database.close()

    async with await ExperienceLog.open(tmp_path) as log:
        with pytest.raises(Corrupt, match="has ts-a-6 where ts-a-7 should be; restore it"):
            await log.get_timestep("ts-a-7")


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Its size tells nothing: another one of many files would be looked for."""
    async with await ExperienceLog.open(tmp_path) as log:
        await fill(log, list(range(1, 21)))
    (file,) = (tmp_path / "segments").glob("timesteps-*")
    content = file.read_bytes()
    file.write_bytes(bytes(len(content)))

    async with await ExperienceLog.open(tmp_path) as log:
        with pytest.raises(Corrupt, match=f"{file.name} cannot be read"):
            await log.get_timestep("ts-a-7")


async def test_files_that_were_merged_away_do_not_stay_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open file keeps its place on the disk after it was removed."""
    monkeypatch.setattr(fold, "REPLACED_KEPT_MS", -1)
    async with await ExperienceLog.open(tmp_path) as log:
        for tick in range(1, 2 * fold.MERGE_SEGMENTS + 1):
            await fill(log, [tick])
            assert await log.get_timestep(f"ts-a-{tick}") == record("a", tick)
        held = [name for name in open_files() if str(tmp_path / "segments") in name]

        assert held
        assert not [name for name in held if name.endswith("(deleted)")]
        for tick in range(1, 2 * fold.MERGE_SEGMENTS + 1):
            assert await log.get_timestep(f"ts-a-{tick}") == record("a", tick)
