"""`ctxmgr search`: one session, a project, everything, or notes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr.app import App
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.local_state import remember_folder
from tests.surfaces.worked_sessions import json_of

SECRET = "gh" + "p_" + "A1b2" * 9


@pytest.fixture
def url(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three sessions that have seen a port; one worked in another folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    url = f"sqlite:///{tmp_path}/s.db"
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()

    async def work() -> None:
        async with library.connect(url, tracking=False) as client:
            for name, folder in (("one", here), ("two", here), ("far", there)):
                session = await client.start(name, system_prompt="")
                output = f"port of {name}: 8080\ntoken {SECRET}\n"
                args = {"command": f"listening --as {SECRET}"}
                await session.record(f"call-{name}", tool="bash", args=args, output=output)
                for tool in ("mcp__ctxmgr__recall", "mcp_ctxmgr_show"):  # they quote it
                    quoted = f"{tool}-{name}"
                    await session.record(quoted, tool=tool, args={}, output=output)
                await session.end_turn("done", user="go")
                remember_folder(App(load_settings(store=url)), name, folder=folder)

    asyncio.run(work())
    return url


def _found(result: Result) -> list[tuple[str, str]]:
    assert result.exit_code == 0, result.output
    return sorted((hit["object_id"], hit["session_id"]) for hit in json_of(result)["hits"])


def test_sessions_are_searched_by_scope(
    url: str, ctxmgr: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-R155, 002-R200: one session, those of a folder, or all."""
    ask = ("search", "ports", "--json", "--store", url)
    everything = [("call-far", "far"), ("call-one", "one"), ("call-two", "two")]
    monkeypatch.chdir(tmp_path / "here")

    assert _found(ctxmgr(*ask)) == everything
    assert _found(ctxmgr(*ask, "--all", "--limit", "5")) == everything
    assert _found(ctxmgr(*ask, "--project")) == everything[1:]
    assert _found(ctxmgr(*ask, "--session", "two")) == [("call-two", "two")]
    assert _found(ctxmgr(*ask, "--category", "file")) == []
    assert len(_found(ctxmgr(*ask, "--category", "toolcall", "--limit", "2"))) == 2
    assert ctxmgr("sessions", "delete", "far", "--store", url).exit_code == 0
    assert _found(ctxmgr(*ask)) == everything[1:]


def test_the_result_is_readable_and_masked(url: str, ctxmgr: Callable[..., Result]) -> None:
    """A secret in an output is as secret in an extract."""
    result = ctxmgr("search", "token", "--session", "one", "--store", url)
    assert result.output.startswith("bash listening --as [secret:")
    assert "] [toolcall] session=one id=call-one\n  2: token [secret:" in result.output
    assert SECRET not in result.output
    assert ctxmgr("search", "zebra", "--store", url).output == "nothing found: zebra\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", "--all", "--project"), "pass one of"),
        (("x", "--limit", "0"), "limit must be"),
        ((" ",), "must have 1 to"),
        (("x", "--category", "odd"), "one of: file, toolcall"),
        (("x", "--notes", "/missing"), "is not a folder"),
        (("x", "--notes", ".", "--category", "odd"), "one of: identity, memory"),
        (("x", "--session", "missing"), "missing"),
    ],
)
def test_a_wrong_request_says_what_to_do(
    url: str, ctxmgr: Callable[..., Result], arguments: tuple[str, ...], message: str
) -> None:
    result = ctxmgr("search", *arguments, "--store", url)
    assert result.exit_code != 0
    assert message in result.output


def test_notes_of_a_folder_are_searched(
    url: str, ctxmgr: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-R155, 002-R157, 002-R167: any folder of Markdown; nothing is written to it."""
    vault = tmp_path / "vault"
    (vault / "people").mkdir(parents=True)
    (vault / "people" / "ann.md").write_text("Ann likes tea.\n")
    (vault / "boiler.md").write_text("The boiler is broken.\n")
    ask = ("search", "--notes", str(vault), "--json", "--store", url)

    hit = json_of(ctxmgr(*ask, "who likes tea?"))["hits"][0]
    assert (hit["path"], hit["category"]) == ("people/ann.md", "person")
    assert hit["snippet"] == "Ann **likes** **tea**."
    (vault / "boiler.md").write_text("The kettle is new.\n")
    found = json_of(ctxmgr(*ask, "kettle", "--category", "reference"))["hits"]
    assert [hit["path"] for hit in found] == ["boiler.md"]
    assert sorted(path.name for path in vault.iterdir()) == ["boiler.md", "people"]
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(vault))
    default = json_of(ctxmgr("search", "kettle", "--json", "--store", url))
    assert (default["scope"], default["hits"][0]["path"]) == ("notes", "boiler.md")
    assert json_of(ctxmgr("search", "port", "--all", "--json", "--store", url))["scope"] == "all"
