"""`ctxmgr lifecycle` and `ctxmgr knowledge review`: from a session to notes, by commands."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ctxmgr import connect, open_store
from ctxmgr.knowledge.lifecycle.review import ReviewQueue
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from tests.surfaces.worked_sessions import json_of

MEMORY = "knowledge/memory/MEMORY.md"


@pytest.fixture
def ask(ctxmgr: Callable[..., Result], tmp_path: Path) -> Callable[..., Any]:
    """Run a command on the store and notes of a test, and return its JSON."""

    def run(*arguments: str) -> Any:
        places = ("--store", str(tmp_path / "a.db"), "--folder", str(tmp_path / "notes"))
        return json_of(ctxmgr(*arguments, *places, "--json"))

    return run


@pytest.fixture
def notes(ctxmgr: Callable[..., Result], tmp_path: Path) -> Path:
    """A repository of notes, and a session that used it."""
    root = tmp_path / "notes"
    json_of(ctxmgr("knowledge", "init", str(root), "--json"))

    async def work() -> None:
        async with connect(tmp_path / "a.db", knowledge=root, tracking=False) as client:
            live = await client.start("s1", system_prompt="Be brief.")
            await live.end_turn("Turns out the disk was full.", user="Why did the export fail?")
            await client.pause("s1")

    asyncio.run(work())
    return root


def test_a_session_becomes_notes_and_commits(ask: Callable[..., Any], notes: Path) -> None:
    """Nothing more than `connect(knowledge=DIR)`.

    Rows: 002-R004, 002-R061, 002-R170, 002-R174, 002-R176, 002-R214.
    """
    status = ask("lifecycle", "status")

    raw = Path(status["raw"])
    (transcript,) = raw.rglob("*.md")
    log = subprocess.run(
        ["git", "log", "--format=%B"], cwd=raw, check=True, capture_output=True, text=True
    ).stdout
    assert (status["transcripts"], status["pending"], status["waiting"]) == (1, [], 0)
    assert "Turns out the disk was full." in (notes / MEMORY).read_text()
    assert not transcript.is_relative_to(notes)
    assert f"Session: {transcript.relative_to(raw)}" in log
    hashes = subprocess.run(
        ["git", "show", "HEAD:SHA256SUMS"], cwd=raw, check=True, capture_output=True, text=True
    ).stdout
    assert transcript.name in hashes
    tasks = {task["task"] for task in status["tasks"]}
    assert tasks == {"commit", "extract", "condense", "prune", "tag"}


def test_steps_run_by_command(ask: Callable[..., Any], notes: Path) -> None:
    """002-R170, 002-R185, 002-R243: each with a dry run that prints the diff."""
    memory = (notes / MEMORY).read_text()

    replayed = ask("lifecycle", "replay", "--dry-run")
    (notes / "knowledge/reference/a.md").write_text("text\n")
    dry = ask("lifecycle", "archive", "knowledge/reference/a.md", "--dry-run")
    assert (notes / "knowledge/reference/a.md").exists()
    done = ask("lifecycle", "archive", "knowledge/reference/a.md")
    condensed = ask("lifecycle", "condense", "weekly", "--dry-run")
    pruned = ask("lifecycle", "prune")
    extracted = ask("lifecycle", "extract")
    ran = ask("lifecycle", "run")
    again = ask("lifecycle", "run")

    assert (replayed["paths"], extracted["paths"]) == ([], [])
    assert dry["paths"] == done["paths"]
    assert "+++ b/archive/reference/a.md" in dry["diff"]
    assert (notes / "archive/reference/a.md").read_text() == "text\n"
    assert "Active Context" in condensed["diff"]
    assert pruned["done"] == []
    assert [step["step"] for step in ran["steps"]][-1:] == ["commit"]
    assert again["steps"] == []
    assert memory.splitlines()[0] == "---"


def test_notes_are_reconstructed_by_command(ask: Callable[..., Any], notes: Path) -> None:
    """002-R196, 002-R199: on a branch, then merged."""
    built = ask("lifecycle", "reconstruct", "again")
    merged = ask("lifecycle", "reconstruct", "again", "--merge")

    assert (built["branch"], built["merged"], built["transcripts"]) == ("extract/again", False, 1)
    assert merged["merged"]
    assert "Turns out the disk was full." in (notes / MEMORY).read_text()


def test_an_altered_transcript_is_found(
    ask: Callable[..., Any], ctxmgr: Callable[..., Result], notes: Path, tmp_path: Path
) -> None:
    """002-R003, 002-A06: the check fails, and names the file."""
    intact = ask("lifecycle", "check", "--project", str(notes))
    (transcript,) = Path(ask("lifecycle", "status")["raw"]).rglob("*.md")
    transcript.chmod(0o600)
    transcript.write_text(transcript.read_text().replace("full", "empty"))

    places = ("--store", str(tmp_path / "a.db"), "--folder", str(notes))
    result = ctxmgr("lifecycle", "check", *places)

    assert intact["transcripts"] == []
    assert result.exit_code != 0
    assert "was altered after it was closed" in result.output


def test_a_person_decides_about_topics(
    ask: Callable[..., Any], ctxmgr: Callable[..., Result], notes: Path, tmp_path: Path
) -> None:
    """002-A35: list, look at the diff and the origin, accept or reject."""

    async def propose(text: str) -> str:
        async with await open_store(tmp_path / "a.db") as store:
            queue = ReviewQueue(store, NotesFolder(Layout(notes, tmp_path / "raw")))
            origin = {"session": "s1", "turn": 3}
            proposal = await queue.propose(
                "topics/mail.md", text, origin=origin, reason="learned", at=0
            )
            return proposal.id

    one, other = (asyncio.run(propose(f"# Mail {name}\n")) for name in "ab")
    waiting = ask("knowledge", "review")["proposals"]
    (shown,) = ask("knowledge", "review", one)["proposals"]
    assert not (notes / "topics/mail.md").exists()
    (accepted,) = ask("knowledge", "review", one, "--accept")["proposals"]
    (rejected,) = ask("knowledge", "review", other, "--reject")["proposals"]
    places = ("--store", str(tmp_path / "a.db"), "--folder", str(notes))
    wrong = ctxmgr("knowledge", "review", "--accept", *places)

    assert {each["id"] for each in waiting} == {one, other}
    assert shown["origin"] == "session s1, turn 3"
    assert "+# Mail a" in shown["diff"]
    assert (accepted["state"], rejected["state"]) == ("accepted", "rejected")
    assert (notes / "topics/mail.md").read_text() == "# Mail a\n"
    assert ask("knowledge", "review")["proposals"] == []
    assert "name the proposal" in wrong.output


def test_everything_that_waits_is_listed_by_page(
    ask: Callable[..., Any], notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-A35: nothing is left out, however many proposals are read at once."""
    monkeypatch.setattr("ctxmgr.knowledge.lifecycle.review.PAGE", 2)

    async def propose() -> list[str]:
        async with await open_store(tmp_path / "a.db") as store:
            queue = ReviewQueue(store, NotesFolder(Layout(notes, tmp_path / "raw")))
            made = [
                await queue.propose("topics/mail.md", f"# {n}\n", origin={}, reason="", at=n)
                for n in range(5)
            ]
            await queue.reject(made[0].id, at=9)
            return [each.id for each in made[1:]]

    waiting = asyncio.run(propose())
    first = ask("knowledge", "review", "--limit", "3")
    second = ask("knowledge", "review", "--limit", "3", "--cursor", first["cursor"])

    assert [each["id"] for each in (*first["proposals"], *second["proposals"])] == waiting
    assert (first["total"], second["cursor"]) == (4, None)
