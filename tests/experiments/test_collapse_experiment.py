"""The experiment on collapse, in its short form, and the rules for experiments."""

import asyncio
import re
from pathlib import Path

import pytest

from ctxmgr import Query, connect
from experiments.collapse import run as experiment
from experiments.collapse.behaviour import Behaviour
from experiments.plot import lines
from tests.components import ROOT
from tests.models.model_server import APIS, KEY, ModelServer, breaks, says
from tests.models.wire import Call, Text

PG_05 = (
    "activate",
    "deactivate",
    "recall after prune",
    "peak active",
    "end active",
    "first deactivate",
    "tasks solved",
    "tokens sent",
)


@pytest.fixture(scope="module")
def runs() -> list[Behaviour]:
    """Both conditions on one project."""
    return asyncio.run(experiment.measure_all(projects=1))


def test_both_conditions_use_the_same_prompt_and_protocol(runs: list[Behaviour]) -> None:
    """Prompt and protocol are fixed, so that only the window differs (003-R190)."""
    assert [run.condition for run in runs] == list(experiment.CONDITIONS)
    assert all(run.prompts_proven for run in runs)
    assert [run.turns for run in runs] == [13, 13]


def test_collapse_bounds_the_prompt_and_loses_nothing(runs: list[Behaviour]) -> None:
    """Prompts are smaller, the result is the same, and outputs are restored (PG-04, PG-05)."""
    with_it, without = runs

    assert [run.solved for run in runs] == [1, 1]
    assert with_it.peak_active < without.peak_active
    assert with_it.tokens_sent < without.tokens_sent
    assert (with_it.recall_after_prune, without.recall_after_prune) == (1, 0)
    assert (with_it.first_folded, without.first_folded) == (4, None)
    assert with_it.deactivate == without.deactivate == 1


@pytest.mark.parametrize("api", APIS)
async def test_a_model_runs_the_same_experiment(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script shows the cost of prompts; only a model shows behaviour (PG-05)."""
    monkeypatch.setenv(f"{api.upper()}_API_KEY", KEY)
    look = says(Call("bash", {"command": "ls"}))
    async with ModelServer() as server:
        server.script(*[breaks(look, after=1, then="cut"), look, says(Text("Done."))] * 2)

        runs = await experiment.measure_model("m", api=api, base_url=server.base_url(api))

    assert [run.turns for run in runs] == [2, 2]
    assert [run.solved for run in runs] == [0, 0]
    assert all(run.prompts_proven for run in runs)


def test_the_report_has_every_column(runs: list[Behaviour], tmp_path: Path) -> None:
    """An evaluation without one of them cannot be compared with others (PG-05)."""
    page = tmp_path / "docs" / "collapse.md"

    experiment.write(runs, data=tmp_path / "data.json", to=page)

    rows = re.findall(r"^\| ([a-z ,]+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(any(row.startswith(name) for row in rows) for name in PG_05)
    assert page.with_suffix(".svg").read_text(encoding="utf-8").count("<polyline") == 2
    assert "prompts_proven" in (tmp_path / "data.json").read_text(encoding="utf-8")


def test_every_experiment_has_its_report() -> None:
    """Scripts are in experiments/, reports in docs/experiments/ (003-R191)."""
    names = {path.parent.name for path in (ROOT / "experiments").glob("*/run.py")}
    pages = (ROOT / "docs" / "experiments").glob("*.md")
    reports = {path.stem.replace("-", "_"): path for path in pages}

    assert "collapse" in names
    assert names <= reports.keys()
    for name in names:
        assert f"experiments.{name}.run" in reports[name].read_text(encoding="utf-8")
        assert (ROOT / "experiments" / name / "data.json").exists()


async def test_concurrent_experiments_are_independent() -> None:
    """A store in memory is visible only to its client (003-R192)."""
    async with connect("sqlite://:memory:") as one, connect("sqlite://:memory:") as two:
        await one.start("collapse", system_prompt="")
        await two.start("collapse", system_prompt="")

        pages = [await client.store.find(Query("session")) for client in (one, two)]

    assert [len(page.versions) for page in pages] == [1, 1]


def test_a_plot_contains_every_value() -> None:
    """A line that leaves the axes or ends early would be misleading."""
    drawn = lines({"a & b": [0, 5, 10], "c": [7]}, title="t", x="x", y="y")

    (first, second) = re.findall(r'points="([^"]+)"', drawn)
    assert len(first.split()) == 3
    assert first.split()[0].endswith(",295.0")
    assert second == "70.0,146.2"
    assert "a &amp; b" in drawn
