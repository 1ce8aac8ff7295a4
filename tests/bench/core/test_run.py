"""`ctxmgr bench core` measures real runs, here of few objects. Times are not checked."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ctxmgr.app import connect
from ctxmgr.bench.core import append, bundles, files, render, resume, run, turns
from ctxmgr.bench.report import Figure
from ctxmgr.bench.stores.xtdb_server import tapped_xtdb
from ctxmgr.bench.surfaces.long_session import LongPlan, build_long_session
from ctxmgr.core.history.reading import read_chat, read_prompts
from ctxmgr.errors import Incorrect


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def quiet(_: str) -> None:
    pass


def check(figures: Sequence[Figure], *, bounds: Sequence[str]) -> None:
    assert [figure.bound for figure in figures] == list(bounds)
    for figure in figures:
        assert figure.value is not None
        assert figure.value > 0 or "beyond" in figure.what
        assert figure.meets is not None
        assert figure.against


def check_left_nothing(folder: Path) -> None:
    assert list(folder.iterdir()) == []


async def test_renders_are_measured_turn_by_turn(tmp_path: Path) -> None:
    """The target is for a growing chat, so every figure comes from one."""
    sizes = render.RenderSizes(sessions=1, turns_each=2, huge=20, huge_turns=2)

    figures = await render.render_figures(sizes, say=quiet)

    check(figures, bounds=["at most 2×", "at most 5 ms", "at most 1×"])
    assert "p99 of 2" in figures[1].what
    check_left_nothing(tmp_path)


async def test_files_are_changed_rescanned_and_indexed(tmp_path: Path) -> None:
    """Changes are stored by real trackers, and rescanned files were really indexed."""
    sizes = files.FileSizes(files=30, changes=3, rounds=1)

    figures = await files.files_figures(sizes, say=quiet)

    check(figures, bounds=["at most 100 ms", "at most 2×", "at most 3×"])
    assert figures[1].what == "index 30 new files of 4 KB"
    check_left_nothing(tmp_path)


async def test_a_built_session_is_resumed_by_another_process(tmp_path: Path) -> None:
    """Time and memory are those of a fresh process."""
    sizes = resume.ResumeSizes(objects=120, pool=40, active=10, rounds=1, on_xtdb=0)

    figures = await resume.embedded_figures(sizes, say=quiet)

    check(figures, bounds=["at most 300 ms", "at most 1×"])
    assert "120 objects, 40 in the pool, 10 active" in figures[0].what
    check_left_nothing(tmp_path)


@pytest.mark.xtdb
async def test_a_resume_on_xtdb_is_compared_with_its_query(tmp_path: Path, xtdb_url: str) -> None:
    """The baseline is the same query that the client sent."""
    sizes = resume.ResumeSizes(objects=0, pool=0, active=0, rounds=1, on_xtdb=120)

    async with tapped_xtdb(xtdb_url, data_dir=tmp_path) as xtdb:
        figure = await resume.xtdb_figure(sizes, xtdb, say=quiet)

    check([figure], bounds=["at most 2×"])


async def test_turns_are_ended_in_a_short_and_a_long_chat(tmp_path: Path) -> None:
    """Both chats grow in the same minute, so a busy machine slows both."""
    sizes = turns.TurnSizes(turns=130, measured=2, past=12, rounds=1)

    figures = await turns.sqlite_turn_figures(sizes, say=quiet)

    check(figures, bounds=["at most 1.5×", "at most 5 ms"] * 2)
    assert "economy" in figures[2].what
    check_left_nothing(tmp_path)


async def test_past_prompts_are_built_at_three_turns(tmp_path: Path) -> None:
    """A prompt near the end has more to read than one near the beginning."""
    sizes = turns.TurnSizes(turns=0, measured=0, past=22, rounds=1)

    figures = await turns.past_figures(sizes, say=quiet)

    check(figures, bounds=["at most 40 ms"] * 3)
    assert [figure.what for figure in figures] == [
        f"prompt as of turn {turn} of 22, processor time" for turn in (10, 11, 20)
    ]
    check_left_nothing(tmp_path)


async def test_processes_append_turns_as_clients_and_without(tmp_path: Path) -> None:
    """The baseline commits what the clients commit, in as many processes."""
    figures = await append.append_figures(append.AppendSizes(turns=2, rounds=1), say=quiet)

    check(figures, bounds=["at least 0.7×"])
    check_left_nothing(tmp_path)


@pytest.mark.xtdb
async def test_turns_are_ended_on_xtdb(tmp_path: Path, xtdb_url: str) -> None:
    """The client's own time is measured against a real server."""
    sizes = turns.TurnSizes(turns=130, measured=2, past=0, rounds=1)

    async with tapped_xtdb(xtdb_url, data_dir=tmp_path) as xtdb:
        figures = await turns.xtdb_turn_figures(sizes, xtdb, say=quiet)

    check(figures, bounds=["at most 1.5×"] * 2)


async def test_the_histories_option_is_refused() -> None:
    """A flag that has no effect is an error that names the right benchmark."""
    with pytest.raises(Incorrect, match="bench stores"):
        await run.run(quick=True, histories=5, say=quiet)


async def test_a_long_session_is_verified_and_resumed(tmp_path: Path) -> None:
    """The generated session must equal one that a client stored."""
    plan = LongPlan(turns=30, pool=150, objects=200, turns_per_commit=8)
    async with connect(f"sqlite:///{tmp_path}/s.db", tracking=False) as client:
        record = await build_long_session(client.store, plan)
        chat = await read_chat(client.store, plan.session_id)
        read = await read_prompts(client.store, chat, first=1, last=plan.turns)
        made = [prompt.text() for _, prompt in read.prompts(count=len)]
        again = await client.prompt_as_of(plan.session_id, turn=30)
        session = await client.resume(plan.session_id)

        assert made[-1] == again.text()
        assert (len(made), len(record.session_index), len(record.metadata_pool)) == (30, 200, 150)
        assert list(session.sets.active_set) == list(record.active_set)
        assert session.turn == 31


async def test_bundles_are_exported_and_imported(tmp_path: Path) -> None:
    """What is compared per turn are sessions that a client made turn by turn."""
    sizes = bundles.BundleSizes(short=2, long=4, rounds=1)

    figures = await bundles.bundle_figures(sizes, say=quiet)

    check(figures, bounds=["at most 1.2×"])
    assert "4 turns" in figures[0].what
    check_left_nothing(tmp_path)
