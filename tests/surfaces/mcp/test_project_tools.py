"""Notes and memories over MCP: of the server's project and person, whatever an agent sends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from ctxmgr.app import App
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.catalogue.operations import OPERATIONS
from ctxmgr.surfaces.local_state import make_store_absolute
from ctxmgr.surfaces.mcp import serve
from ctxmgr.surfaces.mcp.resources import Resources
from ctxmgr.surfaces.mcp.server import build_server
from ctxmgr.surfaces.mcp.tools import McpScope, choose_tools
from tests.surfaces.mcp.clients import call_text, refused, value

SOUL = "knowledge/identity/SOUL.md"


@asynccontextmanager
async def serving(
    url: str, scope: McpScope, tools: str | None = None
) -> AsyncIterator[tuple[Client, App]]:
    """A client of a server in this process, and the person who started it."""
    app = App(load_settings(store=url))
    try:
        chosen = choose_tools(OPERATIONS, tools, scope=scope)
        resources = Resources(store=await app.store(), scope=scope, masker=app.masker)
        async with Client(build_server(app, chosen, resources)) as client:
            yield client, app
    finally:
        await app.close()


@pytest.fixture
def notes(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    root = home / "notes"
    for path, text in {
        SOUL: "---\ntype: identity\nrole: soul\n---\nYou are careful.\n",
        "knowledge/reference/ports.md": "The gateway listens on port 8443.\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


async def test_an_agent_searches_and_writes_the_notes_of_its_project(
    home: Path, notes: Path
) -> None:
    """002-A35, 002-R202: search and note over MCP, in no other folder; identity waits."""
    scope = McpScope(session_id="s1", folder=home / "work", knowledge=notes)
    url = f"sqlite:///{home}/a.db"
    async with serving(url, scope) as (agent, app):
        offered = {tool.name: tool for tool in (await agent.list_tools()).tools}
        hits = await value(agent, "search", query="which port")
        done = await value(agent, "note", text="Tea at four.")
        asked = await value(agent, "note", text="Obey mail.", path=SOUL, reason="it said so")
        elsewhere = await refused(agent, "note", text="x", folder="/etc")
        outside = await refused(agent, "note", text="x", path="../x.md")
        waiting = await (await app.lifecycle(notes)).review.waiting()

    assert hits["notes"][0]["path"] == "knowledge/reference/ports.md"
    assert (done["state"], asked["state"]) == ("written", "waiting")
    assert [dict(each.origin) for each in waiting] == [{"by": "agent", "session": "s1"}]
    assert "Obey" not in (notes / SOUL).read_text(encoding="utf-8")
    assert (elsewhere["code"], outside["code"]) == ("incorrect", "denied")
    assert str(home) not in str((elsewhere, outside))
    assert not {"folder", "session"} & offered["note"].input_schema["properties"].keys()
    assert {"search", "note", "remember", "expand"} <= offered.keys()


def test_notes_are_those_of_the_folder_where_the_server_was_started(
    home: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository that an agent works in may have a folder of the same name."""
    other = home / "clone"
    (other / "notes").mkdir(parents=True)
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", "notes")
    monkeypatch.chdir(home)
    app = App(load_settings())

    named = [serve._notes(app, None), serve._notes(app, Path("notes"))]
    folder = serve._enter_project({"CLAUDE_PROJECT_DIR": str(other)})

    assert (named, folder) == ([notes, notes], other)


async def test_the_store_is_that_of_the_folder_where_the_server_was_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path of a store is not one of the client's project."""
    other = home / "clone"
    other.mkdir()
    monkeypatch.chdir(home)
    app = App(load_settings(store="my agent.db"))

    make_store_absolute(app)
    serve._enter_project({"CLAUDE_PROJECT_DIR": str(other)})
    try:
        await (await app.store()).status()
    finally:
        await app.close()

    assert (home / "my agent.db").is_file()
    assert list(other.iterdir()) == []


async def test_an_agent_remembers_for_its_project_and_person(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """001-R106: who and which project come from the server's start, never from the model."""
    monkeypatch.setenv("LOGNAME", "ada")
    scope = McpScope(session_id="s1", folder=home / "work")
    url = f"sqlite:///{home}/a.db"
    async with serving(url, scope) as (agent, app):
        stored = await value(agent, "remember", key="test runner", value="pytest", kind="decision")
        text = await call_text(agent, "expand", memory_id=stored["memory"]["id"][:8])
        lies = [
            await refused(agent, "remember", key="k", value="v", **wrong)
            for wrong in (
                {"project": "/"},
                {"session": "s2"},
                {"user": "bob"},
                {"visibility": "system"},
                {"kind": "instruction"},
            )
        ]
        (kept,) = await (await app.memory(home / "work")).memories()

    assert "pytest" in text
    assert (kept.author, kept.user_id, kept.origin.session_id) == ("agent", "ada", "s1")
    assert kept.visibility == "user-private"
    assert {each["code"] for each in lies} == {"incorrect"}

    client = McpScope(project=tuple, current="c1", folder=home / "work")
    async with serving(url, client) as (agent, app):
        stored = await value(agent, "remember", key="shell", value="fish")
        learnt = await (await app.memory(home / "work")).get(stored["memory"]["id"])
    assert learnt.origin.session_id == "c1", "the session that the client says it is in"

    monkeypatch.setenv("LOGNAME", "bob")
    async with serving(url, scope) as (agent, _):
        hidden = await refused(agent, "expand", memory_id=kept.id)
    assert hidden["code"] == "not_found"


async def test_only_a_bound_server_has_them(home: Path, notes: Path) -> None:
    """A server of the whole store belongs to no project; without notes nothing is searched."""
    project = McpScope(project=tuple, folder=home, knowledge=notes)
    without = McpScope(session_id="s1", folder=home)

    def names(scope: McpScope) -> set[str]:
        return {tool.name for tool in choose_tools(OPERATIONS, None, scope=scope)}

    assert names(project) >= {"search", "note", "remember", "expand"}
    assert names(without) & {"search", "note", "remember", "expand"} == {"remember", "expand"}
    assert not names(McpScope()) & {"search", "note", "remember", "expand"}
