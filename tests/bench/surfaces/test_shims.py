"""The integrations are measured beside the classes of their frameworks. Times are not checked."""

from pathlib import Path

import pytest

from ctxmgr.bench.surfaces.shims import ShimSizes, shim_figures


def quiet(_: str) -> None:
    pass


async def test_both_sides_hold_the_same_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ratio of two different workloads would say nothing; the run asserts that they agree."""
    monkeypatch.chdir(tmp_path)
    sizes = ShimSizes(turns=2, appended=2, resumed=1)

    figures = await shim_figures(sizes, say=quiet)

    assert [figure.what for figure in figures] == [
        "OpenAI Agents: append at 2 turns",
        "OpenAI Agents: resume at 2 turns",
        "LangGraph: append at 2 turns",
        "LangGraph: resume at 2 turns",
    ]
    assert all(figure.bound == "at most 1×" for figure in figures)
    assert all(figure.value is not None and figure.value > 0 for figure in figures)
