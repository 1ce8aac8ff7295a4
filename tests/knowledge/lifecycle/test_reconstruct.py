"""Notes can be built again from the transcripts, on a branch, without touching what is there."""

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ctxmgr.app import open_store
from ctxmgr.errors import Conflict, Incorrect
from ctxmgr.knowledge.config import LifecycleConfig
from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.branches import Branches
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from ctxmgr.knowledge.repository.setup import init_repository
from tests.knowledge.lifecycle.notes_folders import AT, DAY_MS, conversation, keep, texts

MEMORY = "knowledge/memory/MEMORY.md"
SOUL = "knowledge/identity/SOUL.md"


async def git(root: Path, *arguments: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run, ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout


async def test_notes_are_built_again_on_a_branch_and_merged(tmp_path: Path) -> None:
    """With a rollup for every historic week.

    Rows: 002-R007, 002-R008, 002-R009, 002-R196, 002-R197, 002-R198, 002-R199, 002-A28.
    """
    layout = Layout(tmp_path / "notes", tmp_path / "raw")
    await init_repository(layout)
    notes = NotesFolder(layout)
    notes.write("knowledge/projects/billing/notes.md", "# Notes\n\nMine.\n", replacing=None)
    repository = MemoryGit(layout)
    await repository.batch_commit("my notes")
    for week in range(2):
        said = ("agent", f"Turns out disk {week} was full. We decided to ship billing {week}.")
        keep(notes, conversation(said, session=f"s{week}", at=AT + 7 * week * DAY_MS))
    async with await open_store(tmp_path / "agent.db") as store:
        lifecycle = Lifecycle(notes, store=store, config=LifecycleConfig(), git=repository)
        before = texts(notes)

        built = await lifecycle.reconstruct("rules-2", ["decisions", "lessons", "journal"])

        assert texts(notes) == before
        assert await git(layout.root, "status", "--porcelain") == ""
        assert built.branch == "extract/rules-2"
        assert built.transcripts == 2
        assert MEMORY in built.statistics
        memory = await git(layout.root, "show", f"{built.branch}:{MEMORY}")
        context = "knowledge/projects/billing/context.md"
        decisions = await git(layout.root, "show", f"{built.branch}:{context}")
        listed = await git(layout.root, "ls-tree", "-r", "--name-only", built.branch)
        assert "2026-05-20: Turns out disk 0 was full." in memory
        assert "2026-05-20: billing: 14:32" in memory
        assert "2026-05-27: billing: 14:32" in memory
        assert "2026-05-27: We decided to ship billing 1." in decisions
        assert "knowledge/projects/billing/notes.md" not in listed
        assert SOUL in listed
        with pytest.raises(Conflict):
            await lifecycle.reconstruct("rules-2")

        merged = await lifecycle.merge_reconstruction("rules-2")

        assert merged.branch == built.branch
        assert "Turns out disk 1 was full." in notes.read(MEMORY).text
        assert await git(layout.root, "branch", "--list", "extract/*") == ""
        assert "Mine." in await git(
            layout.root, "show", "HEAD~1:knowledge/projects/billing/notes.md"
        )


async def test_an_adopted_folder_keeps_its_files_on_the_branch(tmp_path: Path) -> None:
    """002-R197: only what is below knowledge/ is built again; the statistics show all notes."""
    layout = Layout(tmp_path / "notes", tmp_path / "raw")
    layout.root.mkdir()
    (layout.root / "CLAUDE.md").write_text("Be brief.\n")
    (layout.root / "ideas.md").write_text("Mine.\n")
    (layout.root / ".github").mkdir()
    (layout.root / ".github" / "pr.md").write_text("A template.\n")
    await init_repository(layout, adopt=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    await git(layout.root, "add", "CLAUDE.md", "ideas.md", ".github/pr.md")
    await git(layout.root, *identity, "commit", "-qnm", "Mine")
    layout = replace(layout, adopted=True)
    notes = NotesFolder(layout)
    keep(notes, conversation(("agent", "Turns out the disk was full.")))
    async with await open_store(tmp_path / "agent.db") as store:
        repository = MemoryGit(layout)
        lifecycle = Lifecycle(notes, store=store, config=LifecycleConfig(), git=repository)

        built = await lifecycle.reconstruct("again")
        (layout.root / "ideas.md").write_text("Mine, and more.\n")
        await git(layout.root, *identity, "commit", "-qnam", "More")
        statistics = await Branches(repository).statistics(built.branch)

    listed = await git(layout.root, "ls-tree", "-r", "--name-only", built.branch)
    assert {"CLAUDE.md", "ideas.md", ".github/pr.md", MEMORY} <= set(listed.split())
    assert "ideas.md" not in built.statistics
    assert "ideas.md" in statistics


async def test_a_failed_reconstruction_leaves_no_branch(tmp_path: Path) -> None:
    """002-R196: the name can be used again."""
    layout = Layout(tmp_path / "notes", tmp_path / "raw")
    await init_repository(layout)
    notes = NotesFolder(layout)
    keep(notes, conversation(("user", "Hello")))
    async with await open_store(tmp_path / "agent.db") as store:
        repository = MemoryGit(layout)
        lifecycle = Lifecycle(notes, store=store, config=LifecycleConfig(), git=repository)

        with pytest.raises(Incorrect, match="unknown extractor 'poems'"):
            await lifecycle.reconstruct("x", ["poems"])

    assert await git(layout.root, "branch", "--list", "extract/*") == ""


async def test_steps_are_committed_as_maintenance(tmp_path: Path) -> None:
    """002-R216: the nightly flow ends with a commit, and extraction names its session."""
    layout = Layout(tmp_path / "notes", tmp_path / "raw")
    await init_repository(layout)
    notes = NotesFolder(layout)
    path = keep(notes, conversation(("agent", "Turns out the disk was full.")))
    async with await open_store(tmp_path / "agent.db") as store:
        repository = MemoryGit(layout)
        lifecycle = Lifecycle(notes, store=store, config=LifecycleConfig(), git=repository)
        await lifecycle.extract([path])
        notes.write("knowledge/reference/a.md", "text\n", replacing=None)
        await lifecycle.archive(["knowledge/reference/a.md"])

    log = await git(layout.root, "log", "--format=%B%x00")
    newest, extracted = log.split("\0")[:2]
    assert newest.strip().startswith("maintenance: archive")
    assert extracted.strip().startswith("memory: extract")
    assert f"Session: {path}" in extracted
