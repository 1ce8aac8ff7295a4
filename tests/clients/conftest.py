"""Real coding agents from npm, pinned; run with `make test-clients`, which sets the variable.

They are 760 MB and need a minute to install, so the other tests do not wait for them.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

VARIABLE = "CTXMGR_TEST_CLIENTS"
HERE = Path(__file__).parent
INSTALL_SECONDS = 900

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with the agents' programs; they are installed once for all runs."""
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ctxmgr-test-clients" / hashlib.sha256(lock).hexdigest()[:16]
    ready = folder / "ready"
    if not ready.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder / name)
        _run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        _run(folder, "node", "node_modules/@anthropic-ai/claude-code/install.cjs")
        ready.touch()
    return folder / "node_modules" / ".bin"


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(
        words, cwd=folder, timeout=INSTALL_SECONDS, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2_000:]
