"""The command line as users see it: temporary folders, no settings from this machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests.surfaces.worked_sessions import Worked, work_three_turns
from tests.xtdb.servers import SHORT_LIVED


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user who never used ctxmgr."""
    for name in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in [variable for variable in os.environ if variable.startswith("CTXMGR_")]:
        if name != "CTXMGR_XTDB_LIB" and name not in SHORT_LIVED:
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


@pytest.fixture(params=["sqlite", pytest.param("xtdb", marks=pytest.mark.xtdb)])
def any_store_url(request: pytest.FixtureRequest, home: Path) -> str:
    """A store of either technology: the output must not depend on it."""
    if request.param == "sqlite":
        return f"sqlite:///{home}/sessions.db"
    url: str = request.getfixturevalue("xtdb_url")
    return url


@pytest.fixture
async def worked(any_store_url: str, home: Path) -> Worked:
    """A paused session of three turns."""
    return await work_three_turns(any_store_url, home / "project")
