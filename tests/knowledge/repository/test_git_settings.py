"""What happens in the repository by itself, as ``GitConfig`` says."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.store.contract import Store
from ctxmgr.knowledge.config import GitConfig, LifecycleConfig
from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from tests.knowledge.repository.conftest import RunsGit

DAY_MS = 86_400_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(tmp_path / "agent.db") as opened:
        yield opened


def lifecycle(memory: MemoryGit, store: Store, **config: bool) -> Lifecycle:
    return Lifecycle(
        NotesFolder(memory.layout),
        store=store,
        config=LifecycleConfig(),
        git=memory,
        git_config=GitConfig(**config),
    )


async def test_days_and_weeks_are_tagged_when_they_have_ended(
    memory: MemoryGit, store: Store, git: RunsGit
) -> None:
    """Once each, only days with commits, also after a week of sleep.

    Rows: 002-R070, 002-R071, 002-R213.
    """
    committed = int(git("log", "-1", "--format=%ct")) * 1_000
    day = datetime.fromtimestamp(committed / 1_000, UTC)
    year, week, _ = day.isocalendar()
    door = lifecycle(memory, store)

    first = await door.run_due(now=committed)
    later = await door.run_due(now=committed + 8 * DAY_MS)
    again = await door.run_due(now=committed + 8 * DAY_MS)

    tags = [tag for step in [*first, *later] if step.step == "tag" for tag in step.done]
    assert tags == [f"memory/daily/{day:%Y-%m-%d}", f"memory/weekly/{year}-W{week:02}"]
    assert set(git("tag").split()) == set(tags)
    assert again == []


async def test_what_is_switched_off_does_not_happen(
    memory: MemoryGit, store: Store, git: RunsGit
) -> None:
    """002-R213, 002-A34: notes are written and left to the person; nothing is tagged or pushed."""
    head = git("rev-parse", "HEAD")
    note = "knowledge/reference/a.md"
    door = lifecycle(memory, store, auto_commit=False, auto_tag_daily=False)
    NotesFolder(memory.layout).write(note, "text\n", replacing=None)

    steps = await door.run_due(now=int(git("log", "-1", "--format=%ct")) * 1_000 + DAY_MS)
    await door.archive([note])

    assert {step.step for step in steps} == {"nightly", "prune"}
    assert git("rev-parse", "HEAD") == head
    assert (memory.layout.root / "archive/reference/a.md").exists()
    assert git("tag") == ""


async def test_a_push_that_fails_is_said_and_costs_nothing(
    memory: MemoryGit, store: Store, git: RunsGit
) -> None:
    """002-R213: the commit stays, and the task is done; the next push has it."""
    memory = MemoryGit(memory.layout, find_secrets=lambda _: [])
    door = lifecycle(memory, store, auto_push=True)
    NotesFolder(memory.layout).write("knowledge/reference/a.md", "text\n", replacing=None)

    steps = await door.run_due(now=int(git("log", "-1", "--format=%ct")) * 1_000)

    (commit,) = [step for step in steps if step.step == "commit"]
    assert commit.done[0] == "memory: add a"
    assert commit.done[1].startswith("not pushed: there is no remote 'origin'")
    assert "memory: add a" in git("log", "-1", "--format=%s")
