"""SQL over the log: live, and closed off from everything else."""

import asyncio
import errno
import os
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from ctxmgr.errors import Incorrect, Unavailable
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.stores import duckdb_engine
from tests.experience.log.test_log import HONESTY, filled, step


def files_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


TIMESTEPS = (
    "id session_id tick ts event_type content event_id event_start event_end token_id role"
    " fidelity compression_level concept_activations"
)


async def test_the_table_has_the_columns_of_the_requirements(tmp_path: Path) -> None:
    """000-R184, 000-R193: people query it under these names."""
    async with await filled(tmp_path, 4, folds=1) as log:
        result = await log.sql("SELECT * FROM timesteps ORDER BY tick")

        assert result.columns == tuple(TIMESTEPS.split())
        assert [row[0] for row in result.rows] == ["ts-s-1", "ts-s-2", "ts-s-3", "ts-s-4"]
        assert result.rows[0][11:13] == ("hot", 0)
        assert result.rows[0][13][HONESTY] == 0.5


async def test_tail_and_segments_are_one_table(tmp_path: Path) -> None:
    """A step is in it from the moment it was recorded."""
    async with await filled(tmp_path, 30, folds=2) as log:
        result = await log.sql(
            "SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM activations),"
            f" (SELECT sum(concept_activations['{HONESTY}']) FROM timesteps) FROM timesteps"
        )

        assert result.rows == ((30, 30, 60, 15.0),)


async def test_fidelity_is_that_of_the_window(tmp_path: Path) -> None:
    """000-R184: moving a window from hot to warm rewrites no file."""
    async with await filled(tmp_path, 20, folds=1) as log:
        await log.file.write(
            lambda connection: connection.execute(
                "INSERT INTO time_windows (id, session_id, start_tick, end_tick, start_time,"
                " end_time, fidelity) VALUES ('w', 's', 5, 14, 0, 0, 'warm')"
            ).fetchall()
        )

        result = await log.sql(
            "SELECT fidelity, min(tick), max(tick), count(*) FROM timesteps GROUP BY 1 ORDER BY 1"
        )

        assert result.rows == (("hot", 1, 20, 10), ("warm", 5, 14, 10))


async def test_a_second_process_reads_while_one_writes(tmp_path: Path) -> None:
    """Every statement sees whole transactions, and all that were acknowledged before it."""
    async with (
        await ExperienceLog.open(tmp_path) as writer,
        await ExperienceLog.open(tmp_path) as reader,
    ):
        acknowledged = 0

        async def write() -> None:
            nonlocal acknowledged
            for number in range(40):
                await writer.append("s", [step(number)] * 5)
                acknowledged += 5
                if number % 6 == 5:
                    await writer.fold()

        writing = asyncio.create_task(write())
        while not writing.done():
            before = acknowledged
            ((count, distinct),) = (
                await reader.sql("SELECT count(*), count(DISTINCT tick) FROM timesteps")
            ).rows
            assert count == distinct
            assert count % 5 == 0
            assert count >= before
        await writing


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM tables",  # a variable of the program
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.db'",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO tags SELECT 1",
        "DROP VIEW timesteps",
        "SET enable_external_access = true",
        "PRAGMA version",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "EXPLAIN ANALYZE INSERT INTO tags SELECT 1",
        "SELEC",
        "",
    ],
)
async def test_a_statement_reads_the_log_and_nothing_else(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: SQL of a person, or of whoever got at the command, stays inside of the log."""
    monkeypatch.chdir(tmp_path)
    async with await filled(tmp_path / "log", 4, folds=1) as log:
        before = files_below(tmp_path)

        with pytest.raises(Incorrect):
            await log.sql(statement)

        assert files_below(tmp_path) == before
        assert (await log.sql("SELECT count(*) FROM timesteps")).rows == ((4,),)


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{file}'",
        (
            "WITH x AS (COPY (SELECT 42 b) TO '{file}' (FORMAT csv, USE_TMP_FILE false))"
            " SELECT * FROM x"
        ),
        (
            "SELECT * FROM (WITH x AS (COPY (SELECT 42 b) TO '{file}' (FORMAT csv,"
            " USE_TMP_FILE false)) SELECT * FROM x)"
        ),
        "SELECT 1) ; COPY (SELECT 42 b) TO '{file}' (FORMAT csv, USE_TMP_FILE false",
    ],
)
async def test_a_segment_cannot_be_overwritten(statement: str, tmp_path: Path) -> None:
    """Its path is the only kind that a statement may open at all."""
    async with await filled(tmp_path, 4, folds=1) as log:
        (file,) = (tmp_path / "segments").glob("timesteps-*")

        with pytest.raises(Incorrect):
            await log.sql(statement.replace("{file}", str(file)))

        assert await log.check(hashes=True) == 1


async def test_a_statement_is_run_as_it_is_written(tmp_path: Path) -> None:
    """Its order, its own tables, its quotes and its comments are kept."""
    async with await filled(tmp_path, 4, folds=1) as log:
        result = await log.sql(
            "WITH late AS (SELECT tick, 'it''s' AS word FROM timesteps WHERE tick > 1)"
            " SELECT tick, word FROM late ORDER BY tick DESC; -- the last first"
        )

        assert result.columns == ("tick", "word")
        assert result.rows == ((4, "it's"), (3, "it's"), (2, "it's"))


async def test_answers_are_bounded(tmp_path: Path) -> None:
    """Rows and time have a limit, and a person is told."""
    async with await filled(tmp_path, 10) as log:
        result = await log.sql("FROM timesteps", rows_max=3)
        assert (len(result.rows), result.truncated) == (3, True)

        with pytest.raises(Unavailable, match=r"stopped after 0\.05 s"):
            await log.sql(
                "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
                seconds_max=0.05,
            )


async def test_an_export_holds_every_table(tmp_path: Path) -> None:
    """Other programs read it without ctxmgr."""
    async with await filled(tmp_path / "log", 10, folds=1) as log:
        counts = await log.export(tmp_path / "out")

        assert counts["timesteps"] == 10
        assert counts["activations"] == 20
        assert set(counts) >= {"tags", "tag_applications", "comments", "time_windows"}
        table = pq.read_table(tmp_path / "out" / "timesteps.parquet")
        assert sorted(table.column("tick").to_pylist()) == list(range(1, 11))
        with pytest.raises(Incorrect, match="exists"):
            await log.export(tmp_path / "out")


async def test_an_export_to_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-18: the log is not called damaged, and the next attempt may use the same name."""

    def full(*_: object) -> int:
        raise duckdb.IOException(f"Could not write file: {os.strerror(errno.ENOSPC)}")

    async with await filled(tmp_path / "log", 10, folds=1) as log:
        with monkeypatch.context() as patched:
            patched.setattr(duckdb_engine, "_copy", full)
            with pytest.raises(Unavailable, match="the disk is full"):
                await log.export(tmp_path / "out")

        assert (await log.export(tmp_path / "out"))["timesteps"] == 10
