"""`ctxmgr bench memory` measures what it says, on tiny inputs."""

import gzip
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from ctxmgr.bench.memory import run as memory_bench
from ctxmgr.bench.memory.contradiction_set import contradiction_figures
from ctxmgr.bench.memory.year import year_figures


def _silent(_: str) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One conversation of two people, and a question whose answer is in one turn."""
    said = ["I adopted a dog called Rex.", "How lovely!", "We went hiking.", "Rain again."]
    conversation = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": ("Ann", "Bob")[number % 2], "dia_id": f"D1:{number + 1}", "text": text}
            for number, text in enumerate(said)
        ],
    }
    question = {"question": "Which dog did Ann adopt?", "evidence": ["D1:1"], "category": 1}
    (tmp_path / "retrieval").mkdir()
    data = orjson.dumps([{"conversation": conversation, "qa": [question]}])
    (tmp_path / "retrieval" / "locomo-x.json.gz").write_bytes(gzip.compress(data))
    return tmp_path


async def test_the_figures_have_values_and_targets(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """001-R132 to 001-R135: every target of the table is checked in one run."""
    monkeypatch.setattr(memory_bench, "QUICK_SIZES", (60,))
    monkeypatch.setattr(memory_bench, "QUESTIONS", 10)
    monkeypatch.setattr(memory_bench, "QUICK_WEEKS", 1)
    monkeypatch.setattr("ctxmgr.bench.memory.year.SESSIONS_PER_WEEK", 4)

    report = await memory_bench.run(quick=True, say=_silent, folder=folder)

    figures = {figure.what: figure for figure in report.figures}
    assert all(figure.value is not None for figure in figures.values() if figure.bound)
    (evidence,) = [each for what, each in figures.items() if "2,000 tokens" in what]
    assert evidence.value == 1.0


def test_a_rule_that_flags_nothing_misses_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """001-R134: the figure of contradictions depends on the rules."""
    monkeypatch.setattr(
        "ctxmgr.bench.memory.contradiction_set.disagreement", lambda _one, _other: None
    )

    assert not any(figure.meets for figure in contradiction_figures(20))


def test_keys_in_other_words_are_known_without_false_alarms() -> None:
    """001-R134: half of them were found before synonyms, endings and questions counted."""
    recalls, precisions = [], []
    for figure in contradiction_figures(200):
        assert isinstance(figure.value, float)
        (recalls if figure.what.endswith("recall") else precisions).append(figure.value)

    own, read, unread = recalls
    assert own > 0.95
    assert read > 0.85
    assert unread > 0.6
    assert min(precisions) > 0.95


async def test_a_year_without_consolidation_has_duplicates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PG-24: the simulated year shows what consolidation is for."""

    async def nothing(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace()

    monkeypatch.setattr("ctxmgr.memory.living.LivingMemory.consolidate", nothing)
    monkeypatch.setattr("ctxmgr.bench.memory.year.SESSIONS_PER_WEEK", 12)

    figures = {figure.what: figure for figure in await year_figures(weeks=2, say=_silent)}

    assert figures["a simulated year: paraphrased duplicates"].meets is False
