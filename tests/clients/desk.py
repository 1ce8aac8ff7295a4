"""A home folder, a project and a store for one agent. Starts processes."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

CLIENT_SECONDS = 240
"""For one run, which takes five on a machine that is not busy."""

CTXMGR = Path(sys.executable).parent / "ctxmgr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A home folder, a project and a store."""

    home: Path
    project: Path
    store: str
    environment: Mapping[str, str]

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Make the folders, with a file that says which port is used."""
        home, project = folder / "home", folder / "project"
        home.mkdir()
        project.mkdir()
        (project / "port.txt").write_text("the port is 8080\n", encoding="utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        quiet = (
            *("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        )
        environment = {**kept, "HOME": str(home), **dict.fromkeys(quiet, "1")}
        store = f"sqlite:///{folder}/store.db"
        return cls(home=home, project=project, store=store, environment=environment)

    def run(self, *command: str, **more: str) -> str:
        """Run a program in the project; it must succeed."""
        ran = subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def ctxmgr(self, *words: str) -> Any:
        return json.loads(self.run(str(CTXMGR), *words, "--store", self.store, "--json"))
