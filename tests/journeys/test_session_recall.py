"""Recall: an agent searches its session and activates objects by id."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.recall import MARK, update_index
from ctxmgr.core.client.tool_definitions import DEFINITIONS
from ctxmgr.core.client.tools import Tools
from ctxmgr.harness.loop import work
from ctxmgr.stores.fts5 import Fts5Index
from tests.models.model_server import ModelServer, says
from tests.models.requests import make_model
from tests.models.wire import Call, Text

SECRET = "gh" + "p_" + "A1b2" * 9


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, search=tmp_path / "s.search", directory=str(tmp_path)) as client:
        yield client


async def ran(session: LiveSession, n: int, output: str) -> None:
    await session.render(f"question {n}")
    await session.record(f"call-{n}", tool="bash", args={"command": f"run {n}"}, output=output)
    await session.end_turn("done")


async def recall(session: LiveSession, query: str, n: int = 1) -> str:
    result = await Tools(session).dispatch(f"recall-{n}", name="recall", args={"query": query})
    assert result.ok
    return result.message


async def test_a_folded_output_is_found_and_restored(client: Client) -> None:
    """003-A39: with a read-only recall tool everything once seen stays accessible."""
    session = await client.start("s1", system_prompt="")
    await ran(session, 1, "FAILED test_port - AssertionError: 8080\n")
    for n in range(2, 9):
        await ran(session, n, f"unrelated output {n}\n")
    assert "call-1" not in session.sets.active_set

    text = await recall(session, "which assertion failed?")
    await session.activate("call-1")

    assert "id=call-1 type=toolcall tool=bash status=ok" in text
    assert "1: FAILED test_port - AssertionError: 8080" in text
    assert "call-1" in session.sets.active_set


async def test_recalled_text_is_marked(client: Client) -> None:
    """The next prompt contains it, marked as a quotation."""
    session = await client.start("s1", system_prompt="")
    await ran(session, 1, "alpha beta\n")
    await session.render("look back")

    await recall(session, "alpha")
    await session.end_turn("found")

    assert f"ACTIVE_CONTENT id=recall-1\n{MARK} 1 object holds: alpha" in await session.render()


async def test_recalled_text_is_never_found_again(client: Client) -> None:
    """A quotation would rank above its source and then be quoted itself."""
    session = await client.start("s1", system_prompt="")
    await ran(session, 1, "alpha beta\n")
    await recall(session, "alpha")

    again = await recall(session, "alpha", 2)

    assert "id=call-1" in again
    assert "recall-1" not in again


async def test_recalled_text_discovers_no_files(client: Client, tmp_path: Path) -> None:
    """Paths in a quotation were already processed with the original output."""
    (tmp_path / "seen.py").write_text("x", encoding="utf-8")
    session = await client.start("s1", system_prompt="")
    await session.record("call-1", tool="note", args={}, output=f"{tmp_path}/seen.py: alpha\n")

    await recall(session, "alpha")

    assert list(session.sets.session_index) == ["call-1", "recall-1"]


async def test_a_file_is_found_in_its_current_version(client: Client, tmp_path: Path) -> None:
    """The latest version counts, under the agent's path."""
    (tmp_path / "a.py").write_text("one\nlisten(8080)\n", encoding="utf-8")
    session = await client.start("s1", system_prompt="")
    await session.read("a.py")
    (tmp_path / "a.py").write_text("one\nserve(9090)\n", encoding="utf-8")
    await session.read("a.py")

    assert "2: serve(9090)" in await recall(session, "serve")
    assert f"path={tmp_path}/a.py" in await recall(session, "9090", 2)
    assert "nothing" in await recall(session, "listen", 3)


async def test_a_session_finds_only_its_own_objects(client: Client) -> None:
    """An agent must not read another agent's outputs in the same store."""
    await ran(await client.start("other", system_prompt=""), 1, "alpha of another\n")
    session = await client.start("s1", system_prompt="")

    assert (
        await recall(session, "alpha") == f"{MARK} nothing that this session has met holds: alpha\n"
    )


async def test_secrets_are_masked_in_recalled_text(client: Client) -> None:
    """A quoted line is sent to the provider like any other."""
    session = await client.start("s1", system_prompt="")
    await ran(session, 1, f"token is {SECRET}\n")

    text = await recall(session, "token")

    assert SECRET not in text
    assert "[secret:github-token:" in text


async def test_without_an_index_the_tool_is_not_offered(tmp_path: Path) -> None:
    """003-A31: features of a policy are absent without it."""
    async with ctxmgr.connect("sqlite://:memory:") as client:
        session = await client.start("s1", system_prompt="")

        refused = await Tools(session).dispatch("c", name="recall", args={"query": "x"})

        assert Tools(session).definitions == DEFINITIONS
        assert not refused.ok
        assert "there is no tool 'recall'" in refused.message


async def test_with_an_index_the_tool_is_offered(client: Client) -> None:
    """003-A39: it is read-only, and listed with the others."""
    session = await client.start("s1", system_prompt="")

    assert [definition.name for definition in Tools(session).definitions][-1] == "recall"


async def test_a_deleted_index_is_rebuilt(client: Client, tmp_path: Path) -> None:
    """It is derived data, so users may delete it at any time."""
    session = await client.start("s1", system_prompt="")
    await ran(session, 1, "alpha\n")
    index = await Fts5Index.open(tmp_path / "another.search")

    assert await update_index(client.store, index) > 0
    assert await update_index(client.store, index) == 0
    assert [hit.object_id for hit in await index.search("alpha", limit=5)] == ["call-1"]
    await index.close()


async def test_an_index_of_another_store_is_rebuilt(client: Client, tmp_path: Path) -> None:
    """A restored or replaced store must not be searched with the old index."""
    await ran(await client.start("s1", system_prompt=""), 1, "alpha\n")
    index = await Fts5Index.open(tmp_path / "shared.search")
    await update_index(client.store, index)
    async with ctxmgr.connect("sqlite://:memory:") as other:
        await ran(await other.start("s2", system_prompt=""), 2, "beta\n")

        await update_index(other.store, index)

    assert await index.search("alpha", limit=5) in ((), [])
    assert [hit.object_id for hit in await index.search("beta", limit=5)] == ["call-2"]
    await index.close()


async def test_a_model_in_the_loop_recalls(tmp_path: Path) -> None:
    """003-A39: the loop offers the tool, and its result is in the next prompt."""
    call = Call("recall", {"query": "assertion"})
    async with (
        ModelServer() as server,
        make_model("anthropic", server) as model,
        ctxmgr.connect("sqlite://:memory:", search=tmp_path / "s.search") as client,
    ):
        session = await client.start("s1", system_prompt="")
        await ran(session, 1, "AssertionError: 8080\n")
        await session.deactivate("call-1")
        server.script(says(call), says(Text("It was 8080.")))

        await work(session, model=model, user="What failed?")

    assert ["[recalled]" in request.text for request in server.requests] == [False, True]
    assert "AssertionError: 8080" in server.requests[1].text


@pytest.mark.xtdb
async def test_recall_works_with_either_store(xtdb_url: str, tmp_path: Path) -> None:
    """The index is a separate file, so a store on a server can be searched too."""
    name = uuid.uuid4().hex
    async with ctxmgr.connect(xtdb_url, search=tmp_path / "x.search") as client:
        session = await client.start(name, system_prompt="")
        output = f"alpha {name}\n"
        await session.record(f"call-{name}", tool="bash", args={}, output=output)

        result = await Tools(session).dispatch(
            f"recall-{name}", name="recall", args={"query": name}
        )

    assert f"id=call-{name}" in result.message
