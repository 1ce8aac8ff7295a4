"""Install the agents that the tests run, once for all runs: ``python -m tests.clients.programs``.

Writes to the user's cache folder, and starts npm.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
INSTALL_SECONDS = 900


def installed() -> Path:
    """Return the folder with the programs; if somebody installs them already, wait for that."""
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ctxmgr-test-clients" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _install(folder)
            (folder / "ready").touch()
    return folder / "node_modules" / ".bin"


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    # not `npm ci`: a registry may lack packages for other systems, and then no lock file has them
    _run(folder, "npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
    _run(folder, "node", "node_modules/@anthropic-ai/claude-code/install.cjs")
    _run(folder, "node", "node_modules/opencode-ai/postinstall.mjs")


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(
        words, cwd=folder, timeout=INSTALL_SECONDS, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2_000:]


if __name__ == "__main__":
    installed()
