"""Shared by journeys: unique session ids and a small project to work on."""

import uuid
from pathlib import Path

import pytest


@pytest.fixture
def sid() -> str:
    """A session id that no other test uses."""
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project on the host."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print('one')\n", encoding="utf-8")
    (root / "src" / "extra.py").write_text("x = 1\n", encoding="utf-8")
    (root / "notes.md").write_text("# notes\n", encoding="utf-8")
    return root
