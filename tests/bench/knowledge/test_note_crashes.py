"""What survives `kill -9` while agents and a person write the same notes."""

import random
from pathlib import Path

import pytest

from ctxmgr.bench.knowledge import write_child
from ctxmgr.bench.knowledge.note_crashes import faults_of, one_round, prepared


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))


async def test_no_acknowledged_line_is_lost_and_the_repository_is_clean(tmp_path: Path) -> None:
    """PG-32: two agents and a person, killed at any moment; then a check that can fail."""
    layout, chance = await prepared(tmp_path), random.Random(7)
    acknowledged: dict[str, int] = {}
    for number in range(2):
        acknowledged |= await one_round(layout, number, chance)

    assert any(acknowledged.values())
    assert await faults_of(layout, acknowledged) == []

    assert await faults_of(layout, {"agent-9-9": 1}) == ["agent-9-9: 1 of 1 lines are missing"]


def test_a_person_does_not_save_over_a_line_that_is_being_put_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An agent's text is taken back: the person loads the note again, as editors do (PG-32)."""
    file = tmp_path / "personal.md"
    file.write_text("- agent visited\n", encoding="utf-8")

    def put_back(_seconds: float) -> None:
        file.write_text("- person-1-2 1\n", encoding="utf-8")

    monkeypatch.setattr(write_child.time, "sleep", put_back)

    assert write_child.loaded(file, last=None) == "- agent visited\n"
    assert write_child.loaded(file, last="- person-1-2 1") == "- person-1-2 1\n"
