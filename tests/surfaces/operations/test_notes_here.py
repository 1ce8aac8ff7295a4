"""Commands that a person types inside a folder of notes find it, as git finds a repository."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ctxmgr.app import App
from ctxmgr.errors import Denied, NotFound
from ctxmgr.knowledge.repository.setup import find_root
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.catalogue.operations import OPERATIONS

COMMANDS = (
    ("lifecycle", "status"),
    ("topics", "tune"),
    ("knowledge", "status"),
    ("knowledge", "check"),
    ("knowledge", "commit"),
    ("knowledge", "log"),
    ("knowledge", "show", "knowledge/memory/MEMORY.md"),
    ("knowledge", "review"),
    ("compile", "hello"),
    ("topics", "list"),
    ("topics", "try", "hello"),
    ("lifecycle", "extract"),
    ("search", "memory"),
)


@pytest.fixture
def notes(ctxmgr: Callable[..., Result], home: Path) -> Path:
    """A folder of notes that was set up; there is no store yet."""
    assert ctxmgr("knowledge", "init", "kb").exit_code == 0
    return home / "work" / "kb"


def test_every_command_works_inside_the_folder_that_was_set_up(
    ctxmgr: Callable[..., Result], notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ran `knowledge init kb; cd kb` names no folder again; nor further down."""
    monkeypatch.chdir(notes / "knowledge" / "people")
    for command in COMMANDS:
        result = ctxmgr(*command)

        assert result.exit_code == 0, (command, result.output)
    monkeypatch.chdir(notes)
    status = json.loads(ctxmgr("knowledge", "status", "--json").stdout)
    assert status["root"] == str(notes)
    assert json.loads(ctxmgr("search", "memory", "--json").stdout)["scope"] == "notes"


def test_a_vault_that_was_adopted_is_found(
    ctxmgr: Callable[..., Result], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has none of our folders; what was set up says so in its .git."""
    vault = home / "vault"
    (vault / "People").mkdir(parents=True)
    (vault / "People" / "Ada.md").write_text("Ada likes tea.\n", encoding="utf-8")
    assert ctxmgr("knowledge", "init", str(vault), "--adopt").exit_code == 0
    monkeypatch.chdir(vault / "People")

    assert "Ada likes tea." in ctxmgr("compile", "what does Ada like?").stdout
    assert json.loads(ctxmgr("knowledge", "status", "--json").stdout)["adopted"] is True


def test_elsewhere_the_error_names_the_option_with_an_example(
    ctxmgr: Callable[..., Result], home: Path
) -> None:
    """It says what to type."""
    for command in COMMANDS[:-1]:  # a search has sessions, too
        result = ctxmgr(*command)

        assert result.exit_code == 3, (command, result.output)
        assert "--folder notes" in result.stderr
        assert "ctxmgr knowledge init notes" in result.stderr


def test_the_setting_wins_and_says_so(
    ctxmgr: Callable[..., Result], notes: Path, home: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As GIT_DIR does in git; a person who forgot it sees which folder was used."""
    assert ctxmgr("knowledge", "init", "other").exit_code == 0
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(home / "work" / "other"))
    monkeypatch.chdir(notes)

    result = ctxmgr("knowledge", "status", "--json")

    assert json.loads(result.stdout)["root"] == str(home / "work" / "other")
    assert f"--folder {notes}" in result.stderr


def test_servers_and_agents_do_not_look_around(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs for others uses the notes of the settings, wherever it was started."""
    monkeypatch.chdir(notes)
    names = {operation.name for operation in OPERATIONS if operation.looks_here}

    with pytest.raises(NotFound, match="CTXMGR_KNOWLEDGE"):
        App(load_settings()).knowledge_folder()
    assert names.isdisjoint({"serve", "mcp", "run", "demo", "hook"})


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A folder that says that it was set up."""
    root = tmp_path / "kb"
    for name in (".git/ctxmgr", "knowledge/identity"):
        (root / name).mkdir(parents=True)
    (root / ".git/ctxmgr/knowledge.json").write_text("{}", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    "lead_out",
    [
        lambda root: (root / ".git").rename(root.parent / "elsewhere"),
        lambda root: (root / ".git/commondir").write_text("../../elsewhere\n"),
    ],
)
def test_a_folder_that_leads_elsewhere_is_not_found(
    lead_out: Callable[[Path], Any], marked: Path
) -> None:
    """What is merely found must not make git read another repository."""
    lead_out(marked)
    if not (marked / ".git").exists():
        (marked / ".git").write_text(f"gitdir: {marked.parent / 'elsewhere'}\n", encoding="utf-8")

    assert find_root(marked) is None


def test_links_and_nearer_repositories_end_the_search(marked: Path, tmp_path: Path) -> None:
    """A clone inside of the notes is another project, and a link is not a folder of notes."""
    (marked / "scratch/clone/.git").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/knowledge").symlink_to(marked / "knowledge")

    assert find_root(marked / "scratch/clone") is None
    assert find_root(marked / "scratch") == marked
    assert find_root(tmp_path / "linked") is None


def test_a_folder_of_another_user_is_not_used(
    marked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may create one above a shared folder such as /tmp."""
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(Denied, match="--folder"):
        find_root(marked)


def test_the_setting_is_used_in_a_folder_of_another_user(
    marked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not used need not be trusted."""
    owner = os.geteuid()
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("CTXMGR_KNOWLEDGE", str(tmp_path / "mine"))
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert App(load_settings(), here=marked).knowledge_folder() == tmp_path / "mine"
