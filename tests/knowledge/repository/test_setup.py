"""Setting up a repository, adopting a folder, hooks and checks."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ctxmgr.client_layers import open_library
from ctxmgr.errors import Corrupt, Incorrect, NewerFormat, Unavailable
from ctxmgr.knowledge.notes.layout import Category, Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.hooks import install_hooks
from ctxmgr.knowledge.repository.lfs import pointer_for
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from ctxmgr.knowledge.repository.setup import init_repository, is_set_up, open_layout, raw_folder
from ctxmgr.knowledge.repository.staged_check import check_notes, check_staged
from ctxmgr.surfaces.terminal.cli import COMMANDS

from .conftest import RunsGit

CONVERSATION = "raw/conversations/2026/11/18/1000-ses_0123abcd-hello.md"


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


async def test_a_new_repository_has_every_folder(memory: MemoryGit, git: RunsGit) -> None:
    """002-R011, 002-R012, 002-R013, 002-R015, 002-R016, 002-R017, 002-R018, 002-R019, 002-R020."""
    root = memory.layout.root
    folders = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_dir()}

    assert folders >= {
        *("knowledge/identity", "knowledge/memory", "knowledge/journal", "knowledge/projects"),
        *("knowledge/people", "knowledge/procedures", "knowledge/reference", "topics"),
        *("attachments", "archive", "scripts", "scratch"),
    }
    assert {path.name for path in memory.layout.identity.iterdir()} == {
        *("SOUL.md", "USER.md", "AGENTS.md", "TOOLS.md")
    }
    assert memory.layout.conversations.is_dir()
    assert git("status", "--porcelain") == ""
    assert await check_notes(memory.layout) == ()
    assert (await open_layout(root, raw=memory.layout.raw)).adopted is False


def test_scripts_call_commands_that_exist(memory: MemoryGit) -> None:
    """002-R020: commit, index, archive and extract, for cron."""
    scripts = {path.stem: path for path in memory.layout.scripts.iterdir()}

    assert set(scripts) == {"commit", "check", "index", "archive", "extract"}
    for script in scripts.values():
        group, name, folder = script.read_text(encoding="utf-8").split()[-4:-1]
        below = COMMANDS.commands[group]
        assert isinstance(below, click.Group)
        assert name in below.commands
        assert folder == "--folder"


def test_what_git_ignores_and_what_lfs_tracks(memory: MemoryGit, git: RunsGit) -> None:
    """002-R084, 002-R085: asked of git itself."""
    names = "memory.db memory.db-wal memory.db-shm scratch/x tmp/x a.tmp .env secrets/x a.key"
    ignored = [*names.split(), "a.pem", ".DS_Store", "Thumbs.db"]
    endings = ("png", "jpg", "pdf", "mp4")

    assert git("check-ignore", *ignored).split() == ignored
    shown = git("check-attr", "filter", *(f"attachments/2026/a.{each}" for each in endings))
    assert [line.rpartition(" ")[2] for line in shown.splitlines()] == ["lfs"] * 4


async def test_setting_up_again_adds_what_is_missing_only(memory: MemoryGit, git: RunsGit) -> None:
    """A clone on another machine has the files and not the hooks."""
    soul = memory.layout.identity / "SOUL.md"
    soul.write_text("# Mine\n", encoding="utf-8")
    (memory.layout.root / ".git" / "hooks" / "pre-commit").unlink()
    before = files(memory.layout.root)

    report = await init_repository(memory.layout)

    assert report.created == ()
    assert files(memory.layout.root) == before
    assert (memory.layout.root / ".git" / "hooks" / "pre-commit").exists()


async def test_an_adopted_folder_stays_as_it_is(layout: Layout, git: RunsGit) -> None:
    """A vault and its CLAUDE.md are used where they are; nothing of them is rewritten."""
    theirs = {
        "CLAUDE.md": "# Rules\n",
        "Daily Notes/2026-11-18.md": "---\ntags: daily\n---\nx\n",
        "People/Ada.md": "[[Bob]]\n",
        "People/Bob.md": "b\n",
        ".obsidian/app.json": "{}",
        ".gitignore": "private\n",
        "broken.md": "---\na: [\n---\n",
    }
    for path, text in theirs.items():
        (layout.root / path).parent.mkdir(parents=True, exist_ok=True)
        (layout.root / path).write_text(text, encoding="utf-8")
    before = files(layout.root)
    with pytest.raises(Incorrect, match="--adopt"):
        await init_repository(layout)

    report = await init_repository(layout, adopt=True)

    assert report.adopted
    assert files(layout.root) == before
    adopted = await open_layout(layout.root, raw=layout.raw)
    notes = NotesFolder(adopted)
    assert notes.paths(Category.IDENTITY) == ["CLAUDE.md"]
    assert notes.paths(Category.JOURNAL) == ["Daily Notes/2026-11-18.md"]
    assert [each.path for each in notes.scan().unreadable] == ["broken.md"]
    notes.write("knowledge/people/eve.md", "# Eve\n", replacing=None)
    made = await MemoryGit(adopted).batch_commit()
    assert made is not None
    assert made.paths == ("knowledge/people/eve.md",)
    assert "?? CLAUDE.md" in git("status", "--porcelain")


async def test_conversations_cannot_be_inside_the_workspace(tmp_path: Path) -> None:
    """002-R003, 002-A02: an agent that works in the folder must not reach what was said."""
    for raw in (tmp_path / "a" / "raw", tmp_path / "a", tmp_path):
        with pytest.raises(Incorrect, match="outside"):
            await init_repository(Layout(tmp_path / "a", raw))

    first, second = (raw_folder(tmp_path / name, data=tmp_path) for name in ("x/a", "y/a"))
    assert first != second


async def test_a_repository_that_was_not_set_up_is_refused(layout: Layout, git: RunsGit) -> None:
    """A clone of somebody's repository is not ours because it looks alike."""
    layout.root.mkdir()
    git("init", "-q")
    with pytest.raises(Incorrect, match="not set up"):
        await open_layout(layout.root, raw=layout.raw)
    marker = layout.root / ".git" / "ctxmgr" / "knowledge.json"
    marker.parent.mkdir()
    marker.write_text("[]", encoding="utf-8")
    with pytest.raises(Corrupt):
        await open_layout(layout.root, raw=layout.raw)
    marker.write_text(json.dumps({"format": 2, "adopted": False}), encoding="utf-8")
    with pytest.raises(NewerFormat):
        await open_layout(layout.root, raw=layout.raw)


async def test_notes_are_read_where_git_is_not_installed(
    memory: MemoryGit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The marker says how the folder was set up; only what needs git is refused."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    root = memory.layout.root

    assert await is_set_up(root)
    assert not (await open_layout(root, raw=memory.layout.raw)).adopted
    library = await open_library(root)
    assert "knowledge/identity/USER.md" in library.notes.paths()
    with pytest.raises(Unavailable, match="git is not installed"):
        await MemoryGit(memory.layout).batch_commit()


async def test_hooks_of_the_person_are_kept_and_run_first(memory: MemoryGit, git: RunsGit) -> None:
    """A hook of theirs that fails still stops their commit."""
    hooks = memory.layout.root / ".git" / "hooks"
    (hooks / "pre-commit").write_text("#!/bin/sh\necho theirs >&2\nexit 3\n", encoding="utf-8")
    (hooks / "pre-commit").chmod(0o755)

    (remark,) = await install_hooks(memory.git)
    assert "runs first" in remark
    assert await install_hooks(memory.git) == []

    (memory.layout.root / "x.txt").write_text("x\n", encoding="utf-8")
    git("add", "x.txt")
    assert "theirs" in git("commit", "-m", "x", fails=True)
    git("config", "core.hooksPath", "elsewhere")
    assert "elsewhere" in (await install_hooks(memory.git))[0]


async def test_staged_notes_are_checked(memory: MemoryGit, git: RunsGit) -> None:
    """002-R074, 002-R075, 002-R076: as staged, not as they are on disk."""
    staged = {
        CONVERSATION: "# No frontmatter\n",
        "knowledge/memory/MEMORY.md": "x\n" * 221,
        "topics/a.md": "---\ntype: topic\n---\n## Instructions\n## Context Notes\n",
        "knowledge/people/ok.md": "# Fine\n",
    }
    for path, text in staged.items():
        file = memory.layout.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    git("add", "-f", *staged)
    (memory.layout.root / CONVERSATION).write_text("---\nsession_id: x\n---\n", encoding="utf-8")

    found = [(each.path, each.severity) for each in await check_staged(memory.git)]

    assert (CONVERSATION, "error") in found
    assert ("knowledge/memory/MEMORY.md", "error") in found
    assert ("topics/a.md", "warning") in found
    assert ("topics/a.md", "error") not in found


def test_a_commit_with_a_bad_note_is_stopped_by_the_hook(memory: MemoryGit, git: RunsGit) -> None:
    """002-R074, 002-R075: the real hook, run by the person's own git commit."""
    assert (Path(sys.executable).parent / "ctxmgr").exists()
    file = memory.layout.memory
    right = file.read_text(encoding="utf-8")
    file.write_text(right + "- 2026-11-18: x\n" * 221, encoding="utf-8")
    git("add", "-A")
    assert "220" in git("commit", "-qm", "too long", fails=True)
    file.write_text(right + "- 2026-11-18: x\n", encoding="utf-8")

    git("commit", "-qam", "fits")

    assert git("log", "-1", "--format=%s") == "fits\n"


async def test_links_that_lead_nowhere_are_warnings(memory: MemoryGit) -> None:
    """002-R221: a note was renamed; the one that names it is found."""
    notes = NotesFolder(memory.layout)
    notes.write("knowledge/reference/a.md", "x\n\n[[b]] [[nobody]] ![[m.png]]\n", replacing=None)
    notes.write("knowledge/reference/b.md", "x\n", replacing=None)

    found = [each for each in await check_notes(memory.layout) if "leads" in each.message]

    assert [(each.line, each.severity) for each in found] == [(3, "warning")]


def test_a_pointer_is_what_lfs_writes(memory: MemoryGit, git: RunsGit) -> None:
    """002-R085: the form of version 1 of the specification, and the file where LFS looks for it."""
    (memory.layout.attachments / "a.png").write_bytes(b"png")

    pointer = pointer_for(
        NotesFolder(memory.layout)._files, "attachments/a.png", git_dir=memory.layout.root / ".git"
    )

    lines = pointer.decode().splitlines()
    assert lines[0] == "version https://git-lfs.github.com/spec/v1"
    digest = lines[1].removeprefix("oid sha256:")
    assert lines[2] == "size 3"
    stored = memory.layout.root / ".git/lfs/objects" / digest[:2] / digest[2:4] / digest
    assert stored.read_bytes() == b"png"
    summed = subprocess.run(["sha256sum", stored], capture_output=True, text=True, check=True)
    assert summed.stdout.split()[0] == digest
