"""The command line as a person meets it: folders of its own, no settings from this machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxmgr.surfaces.cli import COMMANDS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which ctxmgr was never used."""
    for name in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in [each for each in os.environ if each.startswith("CTXMGR_")]:
        if name != "CTXMGR_XTDB_LIB":
            monkeypatch.delenv(name)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def ctxmgr(home: Path) -> Callable[..., Result]:
    """Run a command line in this process."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(COMMANDS, list(arguments), prog_name="ctxmgr")

    return run
