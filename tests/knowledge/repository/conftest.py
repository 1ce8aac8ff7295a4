"""A knowledge repository, and git as a person runs it."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

import pytest

from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from ctxmgr.knowledge.repository.setup import init_repository

PERSON = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


class RunsGit(Protocol):
    def __call__(self, *arguments: str, fails: bool = False) -> str: ...


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine's own configuration of git decides nothing here."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "memory", tmp_path / "raw")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories as they are when set up; a copy is faster than a set-up."""
    folder = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))
        asyncio.run(init_repository(Layout(folder / "memory", folder / "raw")))
    return folder


@pytest.fixture
def memory(layout: Layout, template: Path) -> MemoryGit:
    shutil.copytree(template / "memory", layout.root, symlinks=True)
    shutil.copytree(template / "raw", layout.raw, symlinks=True)
    return MemoryGit(layout)


@pytest.fixture
def git(layout: Layout) -> RunsGit:
    """Git as the person runs it, with hooks and all."""

    def run(*arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=layout.root,
            env={**os.environ, **PERSON},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + (done.stderr if fails else "")

    return run
