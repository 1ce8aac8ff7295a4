"""`ctxmgr bench knowledge` on a small set in the form of the public ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.bench.knowledge.questions import read_locomo, read_longmemeval
from ctxmgr.bench.knowledge.recall_figures import locomo_figures, longmemeval_figures
from ctxmgr.bench.knowledge.run import run
from ctxmgr.errors import Incorrect
from ctxmgr.search.static_vectors import StaticEmbedder


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    path.write_bytes(gzip.compress(json.dumps(entries).encode()))


def _locomo(folder: Path) -> None:
    topics = ["hiking in the hills", "a new kitten", "the broken boiler", "violin lessons"]
    conversation: dict[str, Any] = {"speaker_a": "Ann", "speaker_b": "Bob"}
    for number, topic in enumerate(topics, start=1):
        conversation[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        conversation[f"session_{number}"] = [
            {"speaker": "Ann", "dia_id": f"D{number}:1", "text": "Hello!"},
            {"speaker": "Bob", "dia_id": f"D{number}:2", "text": f"I must tell you of {topic}."},
        ]
    questions = [
        {"question": "Who has a kitten?", "evidence": ["D2:2; D:2:1"], "category": 1},
        {"question": "What is broken?", "evidence": ["D3:2"], "category": 2},
        {"question": "Which instrument?", "evidence": ["D9:9"], "category": 2},
    ]
    _write(folder / "locomo-small.json.gz", [{"conversation": conversation, "qa": questions}])


def _longmemeval(folder: Path) -> None:
    entry = {
        "question_id": "q1",
        "question": "Where did I buy the lamp?",
        "question_date": "2023/04/10 (Mon) 23:07",
        "haystack_dates": ["2023/04/01 (Sat) 10:00", "2023/04/02 (Sun) 10:00"],
        "haystack_session_ids": ["one", "two"],
        "haystack_sessions": [
            [{"role": "user", "content": "I bought a lamp at the market."}],
            [{"role": "user", "content": "Tell me about rain."}],
        ],
        "answer_session_ids": ["one"],
    }
    _write(folder / "longmemeval-small.json.gz", [entry, {**entry, "question_id": "q2_abs"}])


def test_evidence_is_read_however_it_is_written(tmp_path: Path) -> None:
    """LoCoMo has several spellings, and evidence that does not exist."""
    _locomo(tmp_path)

    (questions,) = read_locomo(tmp_path)

    assert [sorted(question.turns) for question in questions.questions] == [
        [("session_02", 0), ("session_02", 1)],
        [("session_03", 1)],
    ]
    assert [source.day.day for source in questions.sources if source.day] == [1, 2, 3, 4]


def test_figures_are_measured_against_fts5(tmp_path: Path) -> None:
    """Each figure states its baseline, from the same run."""
    _locomo(tmp_path)
    _longmemeval(tmp_path)
    embedder = StaticEmbedder.load()

    figures = locomo_figures(read_locomo(tmp_path), embedder, say=lambda _: None)
    figures += longmemeval_figures(read_longmemeval(tmp_path), embedder, say=lambda _: None)

    assert [figure.value for figure in figures] == [1.0] * len(figures)
    assert len(figures) == 8
    assert all("FTS5" in figure.against for figure in figures)


async def test_without_a_folder_it_says_what_it_needs(tmp_path: Path) -> None:
    """The question sets may not be shipped."""
    report = await run(quick=True, say=lambda _: None)

    assert "not shipped; pass a folder" in report.figures[-1].note
    assert report.figures[-1].value is None
    assert all(figure.value is not None for figure in report.figures[:-1])
    with pytest.raises(Incorrect, match="has no locomo"):
        await run(quick=True, say=lambda _: None, folder=tmp_path)
