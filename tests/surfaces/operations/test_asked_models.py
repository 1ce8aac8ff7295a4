"""Commands about notes that ask a model, on loopback, and say what that cost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctxmgr import connect
from ctxmgr.app import App
from ctxmgr.knowledge.repository.setup import init_repository
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.operations.layers.compile import compile_context
from ctxmgr.surfaces.operations.layers.knowledge import knowledge_commit
from ctxmgr.surfaces.operations.layers.lifecycle import lifecycle_condense, lifecycle_extract
from ctxmgr.surfaces.operations.layers.topics import topics_try
from tests.models.model_server import KEY, ModelServer, refuse, says
from tests.models.wire import Text

MODEL = "claude-haiku-4-5"
TOPIC = """---
type: topic
description: Baking bread
triggers:
  - {type: pattern, match: oven}
priority: medium
---

## Instructions

- Heat the oven first.
"""


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def app(
    home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    """A person in a folder of notes, with a key and a model server."""
    monkeypatch.setenv("CTXMGR_BASE_URL", server.base_url("anthropic"))
    monkeypatch.setenv("CTXMGR_ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("CTXMGR_STORE", f"sqlite:///{home}/a.db")
    async with App(load_settings()) as app:
        root = home / "notes"
        await init_repository(app.new_knowledge_layout(root))
        (root / "topics/bread.md").write_text(TOPIC, encoding="utf-8")
        app.here = root
        yield app


async def test_the_gate_asks_a_model_only_if_it_is_named(app: App, server: ModelServer) -> None:
    """002-R090, 002-R116, 002-R117, 002-R223, 002-A15: one token, and the ledger has its price."""
    server.script(says(Text("YES")), says(Text("YES")))

    asked = await topics_try(app, "Which oven?", model=MODEL)
    by_rule = await topics_try(app, "Which oven?")
    compiled = await compile_context(app, "Which oven?", model=MODEL)

    assert (asked.active, by_rule.active) == (("bread",), ())
    assert "Heat the oven first." in compiled.text
    (cost,) = asked.costs
    assert (cost.purpose, cost.model, cost.calls) == ("gate", MODEL, 1)
    assert cost.usd is not None
    assert 0 < cost.usd < 0.001
    assert compiled.costs[0].calls == 1
    assert by_rule.costs == ()
    assert [request.body["max_tokens"] for request in server.requests] == [1, 1]
    assert all(request.body["temperature"] == 0 for request in server.requests)


async def test_a_model_that_is_refused_leaves_the_rule(app: App, server: ModelServer) -> None:
    """002-R118: the command answers, and nothing was paid."""
    server.script(refuse(401))

    tried = await topics_try(app, "Which oven?", model=MODEL)

    assert (tried.active, tried.costs) == ((), ())
    assert tried.candidates[0].decider == "rule"


async def test_a_model_extracts_condenses_and_summarises(
    app: App, server: ModelServer, home: Path
) -> None:
    """002-R066, 002-R176, 002-R187, 002-R226: what it answers is written, with what it cost."""
    assert app.here is not None
    async with connect(home / "a.db", tracking=False, knowledge=app.here) as client:
        live = await client.start("s1", system_prompt="Be brief.")
        await live.end_turn("The queue is the way to go.", user="How do we export?")
        await client.pause("s1")
    transcript = next((await app.lifecycle()).layout.raw.rglob("*.md"))
    path = transcript.relative_to((await app.lifecycle()).layout.raw).as_posix()
    entry = json.dumps([{"decision": "Use a queue", "project": "", "context": ""}])
    server.script(
        says(Text(entry)), says(Text('[{"entry": "Exports use a queue."}]')), says(Text("Bake"))
    )

    extracted = await lifecycle_extract(app, (path,), extractor=("decisions",), model=MODEL)
    condensed = await lifecycle_condense(app, "daily", model=MODEL)
    await asyncio.to_thread((app.here / "topics/bread.md").write_text, TOPIC + "\n- Wait.\n")
    committed = await knowledge_commit(app, model=MODEL)

    purposes = [cost.purpose for each in (extracted, condensed, committed) for cost in each.costs]
    assert len(server.requests) == 3
    assert (len(purposes), extracted.calls, condensed.calls) == (3, 1, 1)
    assert purposes[2] == "commit_message"
    assert committed.message.startswith("memory: Bake\n")
    memory = (app.here / "knowledge/memory/MEMORY.md").read_text(encoding="utf-8")
    (journal,) = (app.here / "knowledge/journal").glob("*.md")
    assert "Use a queue" in memory
    assert "Exports use a queue." in journal.read_text(encoding="utf-8")
