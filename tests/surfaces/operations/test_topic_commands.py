"""`ctxmgr topics`: for people who write topics."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ctxmgr import open_store
from ctxmgr.knowledge.topics.decision_log import DecisionLog
from ctxmgr.knowledge.topics.gate_decision import GateDecision, GateResult
from tests.surfaces.worked_sessions import json_of

DEPLOYMENT = """---
type: topic
description: Deploying services
triggers:
  - {type: pattern, match: '\\bdeploy'}
  - {type: cron, schedule: '0 9 * * 1'}
  - {type: pattern, match: kubectl delete, scope: output, correction_hint: Change the chart.}
priority: high
---

## Instructions

- Deploy services to staging first, then watch the canary.
"""
DECISION = GateDecision(
    timestamp=1_000,
    message_hash="h",
    topic_name="deployment",
    tier1_matched=True,
    tier2_score=0.2,
    gate_result=GateResult.YES,
    was_useful=False,
    direction="input",
    decider="rule",
    session_id="s1",
)


@pytest.fixture
def topics(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of notes with one topic."""
    folder = home / "notes" / "topics"
    folder.mkdir(parents=True)
    (folder / "deployment.md").write_text(DEPLOYMENT, encoding="utf-8")
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(folder.parent))
    monkeypatch.setenv("CTXMGR_STORE", f"sqlite:///{home}/sessions.db")
    return folder


@pytest.fixture
def run(ctxmgr: Callable[..., Result], topics: Path) -> Callable[..., Any]:
    return lambda *words: json_of(ctxmgr("topics", *words, "--json"))


def test_topics_are_listed_and_shown(run: Callable[..., Any]) -> None:
    """Rows: 002-R052."""
    (row,) = run("list")["topics"]
    shown = run("show", "deployment")

    assert (row["name"], row["priority"], row["triggers"]) == ("deployment", "high", 3)
    assert row["next_fire"].endswith("T09:00:00.000Z")
    assert shown["triggers"] == [r"pattern \bdeploy", "cron 0 9 * * 1", "pattern kubectl delete"]
    assert shown["shown"].startswith("## deployment\n\n- Deploy services to staging")
    assert "canary" in shown["keywords"]


def test_an_unknown_topic_or_folder_is_reported(
    ctxmgr: Callable[..., Result], topics: Path
) -> None:
    """Rows: 002-R052."""
    unknown = ctxmgr("topics", "show", "soup")
    nowhere = ctxmgr("topics", "list", "--folder", "nowhere")

    assert "there is no topic 'soup' (there are: deployment)" in unknown.stderr
    assert "nowhere is not a folder" in nowhere.stderr
    assert 0 not in {unknown.exit_code, nowhere.exit_code}


def test_a_check_lists_every_problem_and_fails_on_errors(
    ctxmgr: Callable[..., Result], run: Callable[..., Any], topics: Path
) -> None:
    """An invalid topic does not stop the others. Rows: 002-R052, 002-R099, 002-R112."""
    assert ctxmgr("topics", "check").exit_code == 0

    bad = {
        "a.md": "---\ntype: topic\npriority: urgent\n---\n## Instructions\n\nx",
        "b.md": "---\ntype: topic\ntriggers: [{type: pattern, match: '('}]\n---\n"
        "## Instructions\n\nx",
        "c.md": "---\ntype: topic\ntriggers: [{type: cron, schedule: soon}]\n---\n"
        "## Instructions\n\nx",
        "d.md": "---\ntype: [\n---\n",
        "e.md": "---\ntype: topic\n---\n## Instructions\n\nx",
    }
    for name, text in bad.items():
        (topics / name).write_text(text, encoding="utf-8")
    result = ctxmgr("topics", "check", "--json")

    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["topics"], found["errors"]) == (2, 4)
    assert [(each["path"], each["severity"]) for each in found["problems"]] == [
        ("topics/a.md", "error"),
        ("topics/a.md", "warning"),
        ("topics/b.md", "error"),
        ("topics/c.md", "error"),
        ("topics/d.md", "error"),
        ("topics/e.md", "warning"),
    ]
    assert [row["name"] for row in run("list")["topics"]] == ["deployment", "e"]


def test_a_trial_says_which_tiers_fired_and_why(run: Callable[..., Any]) -> None:
    """Rows: 002-R087, 002-R205."""
    trial = run("try", "deploy the services to staging, watch the canary")
    nothing = run("try", "good morning")
    output = run("try", "I run kubectl delete", "--direction", "output")

    (candidate,) = trial["candidates"]
    assert trial["active"] == ["deployment"]
    assert candidate["tier1"] == [r"pattern \bdeploy"]
    assert candidate["tfidf"] > 0.3
    assert candidate["reason"].startswith("high, score")
    assert nothing == {"active": [], "candidates": [], "costs": []}
    assert output["candidates"][0]["hint"] == "Change the chart."


def test_the_log_is_listed_and_tuned(run: Callable[..., Any], home: Path) -> None:
    """Rows: 002-R125, 002-R126."""

    async def record() -> None:
        store = await open_store(f"sqlite:///{home}/sessions.db")
        useful = replace(DECISION, tier2_score=0.5, was_useful=True)
        await DecisionLog(store).record([DECISION] * 6 + [useful] * 6)
        await DecisionLog(store).record([replace(DECISION, timestamp=9_000, topic_name="soup")])
        await store.close()

    asyncio.run(record())
    newest, *_ = run("log", "--limit", "3")["decisions"]
    tuned = run("tune")

    assert (newest["topic"], newest["time"]) == ("soup", "1970-01-01T00:00:09.000Z")
    assert len(run("log", "deployment", "--session", "s1")["decisions"]) == 12
    assert (tuned["decisions"], tuned["judged"]) == (13, 13)
    (proposal,) = tuned["proposals"]
    assert proposal["change"] == "similarity_threshold: 0.205"
    assert "6 were wrong at 0.15 and 0 would be" in proposal["evidence"]


def test_a_project_cannot_say_where_the_topics_are(
    ctxmgr: Callable[..., Result], topics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settings file that came with a project needs a person's consent."""
    monkeypatch.delenv("CTXMGR_KNOWLEDGE")
    Path("ctxmgr.toml").write_text(f'knowledge = "{topics.parent}"\n', encoding="utf-8")

    result = ctxmgr("topics", "list")

    assert result.exit_code != 0
    assert "sets knowledge, but that file has not been confirmed" in result.stderr
