"""The audit log over HTTP: for reviewers, who can read it and nothing else."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctxmgr import connect
from ctxmgr.settings import data_dir
from tests.surfaces.http.servers import serving
from tests.surfaces.worked_sessions import json_of

Run = Callable[..., Result]

PATHS = ("/v1/audit/status", "/v1/audit/verify", "/v1/audit/query")


@pytest.fixture
def url(home: Path, ctxmgr: Run) -> str:
    """A store whose only session is audited."""
    url = f"sqlite:///{home}/agent.db"
    assert ctxmgr("audit", "init").exit_code == 0

    async def work() -> None:
        async with connect(url, audit=data_dir() / "audit", tracking=False) as client:
            session = await client.start("s1", system_prompt="Be brief.")
            await session.record("call-1", tool="bash", args={"command": "ls"}, output="a.py")
            await session.end_turn("One file.", user="What is here?")

    asyncio.run(work())
    return url


def test_only_a_reviewers_token_opens_the_log(
    url: str, ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R104, 000-R100: on loopback too, where everything else needs no token; read only."""
    reviewer, anyone, session = (
        str(json_of(ctxmgr("token", *flags, "--json"))["token"])
        for flags in (("--reviewer", "alice"), (), ("--session", "s1"))
    )
    monkeypatch.setenv("CTXMGR_REVIEWER_TOKEN", reviewer)  # the server's own is nobody else's
    with serving(url, "--read-only") as server:
        for path in PATHS:
            for token in (None, anyone, session, "ctxmgr_x.y"):
                refused = server.post(path, token)
                assert refused.status_code == 401, (path, token)
            assert "ctxmgr token --reviewer" in server.post(path).json()["error"]["message"]
        others = {"/sessions", "/log", "/feed", "/events", "/v1/xdb/recall", "/audit-export"}
        for path in others:
            assert server.get(path, reviewer, session="s1").status_code == 401, path

        status = server.get("/v1/audit/status", reviewer).json()
        found = server.post("/v1/audit/query", reviewer, session="s1", kind="input").json()
        notes = server.post("/v1/audit/query", reviewer, kind="system", text="alice").json()
        verified = server.post("/v1/audit/verify", reviewer).json()
        wrong = server.post("/v1/audit/query", reviewer, limit=0)
        described = server.get("/openapi.json").json()["paths"]

    assert status["records"] >= 4
    assert [record["raw_content"] for record in found] == ["What is here?"]
    assert len(notes) == 1
    assert verified["verified"] is True
    assert wrong.status_code == 400
    assert set(PATHS) <= set(described)
    assert not any("checkpoint" in path or "export" in path for path in described)


def test_a_revoked_reviewer_is_refused_at_once(url: str, ctxmgr: Run) -> None:
    """000-R104: also by a server that is running."""
    token = str(json_of(ctxmgr("token", "--reviewer", "alice", "--json"))["token"])
    with serving(url) as server:
        before = server.get("/v1/audit/status", token).status_code
        assert ctxmgr("token", "--revoke", token).exit_code == 0
        after = server.get("/v1/audit/status", token).status_code

    assert (before, after) == (200, 401)
