"""Living memory over HTTP, at the paths and with the shapes of its requirements."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ctxmgr.app import App
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.access_tokens import Grant, Keys, mint
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.http.api import build
from ctxmgr.surfaces.http.event_hub import EventHub

SECRET = b"s" * 32
FOREVER = 2**40


def grant(**fields: Any) -> str:
    given = {"session_id": None, "writes": True, "expires": FOREVER, "token_id": "0" * 16}
    return mint(SECRET, Grant(**{**given, **fields}))


class Caller:
    """Somebody who calls the API in this process."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(self, path: str, *, token: str | None = None, **body: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token or grant()}"}
        return await self._client.post(path, json=body, headers=headers)


@pytest.fixture
async def caller(home: Path) -> AsyncIterator[Caller]:
    app = App(load_settings(store=f"sqlite:///{home}/a.db"))
    api = build(
        app,
        EventHub(await app.store()),
        operations=OPERATIONS,
        loopback=True,
        keys=lambda: Keys(SECRET, ()),
        token_required=True,
        read_only=False,
        rate_per_second=1_000_000,
    )
    transport = httpx.ASGITransport(app=api, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield Caller(client)
    await app.close()


async def test_a_context_is_assembled_from_signals(caller: Caller) -> None:
    """001-R106, 001-R107, 001-R108, 001-R143: signals in, text and tokens by tier out."""
    await caller.post("/v1/memory/add", key="indentation", value="tabs", kind="instruction")
    signals = {"current_file": "src/a.py", "recent_errors": ["E1"], "activity": "debugging"}
    answer = (await caller.post("/context/assemble", budget=2_000, signals=signals)).json()

    assert "tabs" in answer["context"]
    assert set(answer["tiers"]) == {"tier1", "tier2", "tier3", "tier4"}
    assert answer["token_count"] == sum(answer["tiers"].values()) > 0
    for wrong in (
        {"signals": {"mood": "good"}},
        {"signals": ["E1"]},
        {"signals": {"recent_errors": "E1"}},
        {"current_file": "src/a.py"},
    ):
        refused = await caller.post("/context/assemble", **wrong)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "incorrect"), wrong


async def test_a_context_is_predicted_from_a_file(caller: Caller) -> None:
    """001-R109: the opened file in, memories and a confidence out."""
    fact = {"key": "amounts", "value": "in cents", "kind": "decision", "tag": ["src/pay.py"]}
    added = (await caller.post("/v1/memory/add", **fact)).json()
    answer = (await caller.post("/context/predict", file_opened="src/pay.py")).json()

    assert added["memory"]["id"] in [each["id"] for each in answer["predicted_memories"]]
    assert 0 <= answer["confidence"] <= 1


async def test_consolidation_can_be_tried(caller: Caller) -> None:
    """001-R110, 001-R111: a dry run counts what a real run does, and changes nothing."""
    for value in ("pytest", "pytest "):
        await caller.post("/v1/memory/add", key="test runner", value=value, kind="decision")
    before = (await caller.post("/v1/memory/list")).json()
    tried = (await caller.post("/consolidate", dry_run=True)).json()
    same = (await caller.post("/v1/memory/list")).json()
    done = (await caller.post("/consolidate")).json()

    counts = ("deduped", "compressed", "forgotten", "contradictions_found")
    assert [tried[name] for name in counts] == [done[name] for name in counts]
    assert same == before
    assert tried["dry_run"] is True


async def test_a_contradiction_is_resolved_by_its_id(caller: Caller) -> None:
    """001-R112: the id is part of the path; resolution and note close it."""
    await caller.post("/v1/memory/add", key="port", value="8080")
    added = (await caller.post("/v1/memory/add", key="port", value="9090")).json()
    (pair,) = added["contradictions"]
    path = f"/contradictions/{pair['id']}/resolve"
    twice = await caller.post(path, id="x", resolution="a_wins")
    resolved = (await caller.post(path, resolution="b_wins", note="asked the team")).json()
    left = (await caller.post("/v1/memory/contradictions")).json()
    missing = await caller.post("/contradictions/nope/resolve", resolution="a_wins")

    assert twice.status_code == 400
    assert (resolved["resolution"], resolved["resolution_note"]) == ("b_wins", "asked the team")
    assert left["contradictions"] == []
    assert missing.status_code == 404


async def test_memory_needs_a_grant(caller: Caller) -> None:
    """Memory belongs to a person: no token of one session, and no writing with one that reads."""
    paths = ("/context/assemble", "/context/predict", "/consolidate", "/contradictions/x/resolve")
    of_session = [
        (await caller.post(path, token=grant(session_id="s1"), **_wanted(path))).status_code
        for path in paths
    ]
    reading = [
        (await caller.post(path, token=grant(writes=False), **_wanted(path))).status_code
        for path in paths
    ]
    nobody = [(await caller.post(path, token="none")).status_code for path in paths]

    assert of_session == [403] * 4
    assert reading == [200, 200, 403, 403]
    assert nobody == [401] * 4


def _wanted(path: str) -> dict[str, str]:
    """The arguments that a path cannot do without."""
    needed = {
        "/context/predict": {"file_opened": "a.py"},
        "/contradictions/x/resolve": {"resolution": "a_wins"},
    }
    return needed.get(path, {})
