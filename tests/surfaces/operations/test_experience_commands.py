"""`ctxmgr experience`: what was recorded, for a person at a terminal."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from ctxmgr import connect
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.xdb import XDB
from tests.surfaces.worked_sessions import json_of

Run = Callable[..., Result]


@pytest.fixture
def run(ctxmgr: Callable[..., Result]) -> Run:
    """Run a command that must end with this code."""

    def run(*arguments: str, code: int = 0) -> Result:
        result = ctxmgr(*arguments)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The experience of one short session."""
    root = tmp_path / "xdb"

    async def work() -> None:
        async with connect(tmp_path / "a.db", experience=root, tracking=False) as client:
            session = await client.start("s1", system_prompt="Be brief.")
            await session.record("call-1", tool="bash", args={"command": "ls"}, output="a.py")
            await session.end_turn("One file.", user="What is here?")

    asyncio.run(work())
    monkeypatch.setenv("CTXMGR_EXPERIENCE", str(root))
    return root


def test_sql_answers_about_what_was_recorded(run: Run, folder: Path) -> None:
    """000-R193: any question, without a program."""
    answer = json_of(
        run(
            *("experience", "sql", "--json"),
            "SELECT role, count(*) AS n, min(ts) AS first, 1 AS n FROM timesteps"
            " WHERE role IS NOT NULL GROUP BY role ORDER BY role",
        )
    )

    assert answer["columns"] == ["role", "n", "first", "n_1"]
    assert [(row["role"], row["n"]) for row in answer["rows"]] == [
        *(("assistant", 2), ("system", 1), ("tool", 1), ("user", 1)),
    ]
    assert not answer["truncated"]


def test_a_wrong_statement_is_explained(run: Run, folder: Path) -> None:
    """PG-18: an error is an error, with the reason of DuckDB."""
    result = run("experience", "sql", "SELECT nothing FROM timesteps", code=2)

    assert "nothing" in result.output


def test_recall_filters(run: Run, folder: Path) -> None:
    """000-R004, 000-R161: every filter that a person needs at a terminal."""
    found = json_of(
        run("experience", "recall", "FILE", "--session", "s1", "--kind", "output", "--json")
    )
    nothing = json_of(run("experience", "recall", "--ticks", "900-901", "--json"))
    run("experience", "recall", "--ticks", "x", code=2)

    assert [(step["role"], step["content"]) for step in found["steps"]] == [
        ("assistant", "One file.")
    ]
    assert nothing == {"steps": []}


def test_a_long_session_is_shown_in_few_points(run: Run, tmp_path: Path) -> None:
    """000-R180: each with the highest scores of its ticks; a name is never a part of the SQL."""
    session = 'it\'s "s1"'
    steps = [
        NewTimestep(
            timestamp=tick,
            event_type=EventType.INPUT if tick <= 10 else EventType.OUTPUT,
            concept_activations={"it's": tick / 100, "low": 0.01},
        )
        for tick in range(1, 96)
    ]

    async def record() -> None:
        async with XDB(tmp_path / "xdb", "be") as xdb:
            await xdb.experience_log.append(session, steps)
            await xdb.experience_log.append("other", steps)

    asyncio.run(record())
    asked = ("experience", "curves", "--folder", str(tmp_path / "xdb"), "--json")
    curves = json_of(run(*asked, session, "--points", "10", "--concepts", "1"))
    nothing = json_of(run(*asked, "unknown"))
    wrong = run(*asked, session, "--points", "0", code=2)

    shape = (curves["last_tick"], curves["ticks_per_point"], curves["concepts"])
    assert shape == (95, 10, ["it's"])
    assert [point["start_tick"] for point in curves["points"]] == list(range(1, 95, 10))
    assert [point["steps"] for point in curves["points"]] == [10] * 9 + [5]
    assert curves["points"][0]["event_type"] == "input"
    assert curves["points"][1]["concept_activations"] == {"it's": 0.2}
    assert (nothing["last_tick"], nothing["points"]) == (0, [])
    assert "points are 1 to 2,000" in wrong.output


def test_status_counts_and_checks(run: Run, folder: Path) -> None:
    """The files are what was written, or the command fails."""
    status = json_of(run("experience", "status", "--check", "--json"))

    assert status["sessions"] >= 1
    assert status["steps"] == status["tail_steps"] > 4


def test_an_export_is_parquet(run: Run, folder: Path, tmp_path: Path) -> None:
    """000-R200: other programs read it."""
    written = json_of(run("experience", "export", "--parquet", str(tmp_path / "out"), "--json"))

    tables = {table["table"]: table["rows"] for table in written}
    assert pq.read_table(tmp_path / "out" / "timesteps.parquet").num_rows == tables["timesteps"]


def test_without_experience_the_next_step_is_named(run: Run) -> None:
    """A person who has recorded nothing learns how to."""
    result = run("experience", "status", code=3)

    assert "ctxmgr run --experience" in result.output


def test_a_folder_without_a_log_is_not_created(run: Run, tmp_path: Path) -> None:
    """A mistyped folder is reported."""
    run("experience", "status", "--folder", str(tmp_path / "typo"), code=3)

    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("limit", ["0", "2001", "100000"])
def test_an_answer_of_recall_is_bounded(run: Run, folder: Path, limit: str) -> None:
    """000-R122: contents can be long, and a request comes from anywhere."""
    result = run("experience", "recall", "--limit", limit, code=2)

    assert "limit must be 1 to 2,000" in result.output


def test_rows_of_sql_are_a_table(run: Run, folder: Path) -> None:
    """000-R193: a person reads columns, also those that are empty, and no JSON."""
    statement = "SELECT event_type, token_id, tick > 1 AS later, [tick] AS ticks FROM timesteps"
    lines = run("experience", "sql", f"{statement} ORDER BY tick", "--limit", "2").output.split(
        "\n"
    )

    assert lines[0].split() == ["event_type", "token_id", "later", "ticks"]
    assert lines[1].split() == ["system", "NULL", "false", "[1]"]
    assert lines[2].split() == ["system", "NULL", "true", "[2]"]
    assert lines[3].rstrip() == "there are more rows: --limit returns them"
