"""``ctxmgr compile``: what a prompt would get of the notes, and why."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctxmgr import open_store
from tests.surfaces.http.servers import serving
from tests.surfaces.worked_sessions import json_of


@pytest.fixture
def notes(home: Path) -> Path:
    root = home / "notes"
    for path, text in {
        "knowledge/identity/SOUL.md": "You are careful.\n",
        "knowledge/memory/MEMORY.md": "- 2026-11-01 Ann prefers tea.\n",
        "knowledge/reference/ports.md": "The gateway listens on port 8443.\n",
        "topics/network.md": "---\ntype: topic\npriority: critical\ntriggers: [gateway]\n"
        "subscriptions: [knowledge/reference/gone.md]\n---\n## Instructions\n\nDraw a map.\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def test_the_text_and_the_reasons_are_shown(
    ctxmgr: Callable[..., Result], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-R001, 002-R129: a person sees what the model would see, and what it would not."""
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(notes))

    text = ctxmgr("compile", "which port has the gateway?").stdout
    why = ctxmgr("compile", "which port has the gateway?", "--why").stdout
    value = json_of(ctxmgr("compile", "which port has the gateway?", "--shared", "--json"))

    assert text.startswith("<!-- identity -->\nYou are careful.\n\n<!-- memory -->")
    assert "<!-- topic:network -->\n## network\n\nDraw a map." in text
    assert "of 8,192 tokens" in why
    assert "sub:knowledge/reference/gone.md  there is no such note (topic network)" in why
    assert "knowledge:knowledge/reference/ports.md  score" in why
    assert value["topics"] == ["network"]
    assert "Ann" not in json.dumps(value)


def test_a_budget_is_kept_and_a_wrong_one_refused(
    ctxmgr: Callable[..., Result], notes: Path
) -> None:
    """002-R136, 002-R137: ``--budget`` says how much may be shown."""
    small = json_of(
        ctxmgr("compile", "gateway", "--folder", str(notes), "--budget", "20", "--json")
    )
    wrong = ctxmgr("compile", "gateway", "--folder", str(notes), "--budget", "0")

    assert small["tokens"] <= 20
    assert small["left_out"]
    assert wrong.exit_code == 2
    assert "token_budget is 0" in wrong.stderr


def test_without_notes_the_setting_is_named(ctxmgr: Callable[..., Result]) -> None:
    """A clear error, with what to do."""
    result = ctxmgr("compile", "hello")

    assert result.exit_code != 0
    assert "setting `knowledge`" in result.stderr


def test_http_has_it_without_a_choice_of_folders(
    home: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller elsewhere cannot name folders of this machine."""
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(notes))
    url = f"sqlite:///{home}/agent.db"

    async def create() -> None:
        async with await open_store(url):
            pass

    asyncio.run(create())
    with serving(url) as server:
        found = server.get("/compile", message="gateway")
        named = server.get("/compile", message="gateway", folder="/etc")

    assert found.json()["topics"] == ["network"]
    assert named.status_code == 400


def test_a_folder_of_a_newer_version_is_refused(
    ctxmgr: Callable[..., Result], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its layout is not known here; taken for a folder of the person's own, it would be misread."""
    monkeypatch.chdir(home)
    assert ctxmgr("knowledge", "init", "later").exit_code == 0
    marker = home / "later" / ".git" / "ctxmgr" / "knowledge.json"
    marker.write_text(json.dumps({"format": 99, "adopted": False}), encoding="utf-8")

    refused = ctxmgr("compile", "anything", "--folder", "later")

    assert refused.exit_code != 0
    assert "upgrade ctxmgr" in refused.stderr
