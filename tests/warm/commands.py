"""`ctxmgr` as a process of its own that need not import everything again.

Most of what a short command costs is importing. Tests of what a command does, not of how it
starts, run it from a process that forks: one for all tests of a worker, started at first use.
"""

import atexit
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 60


@cache
def ctxmgr() -> tuple[str, ...]:
    """The words of a command line that `ctxmgr`'s own follow."""
    folder = Path(tempfile.mkdtemp(prefix="ctxmgr-warm-"))
    path = folder / "socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm.forking", str(path)],
        stdin=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads do not outlive a fork
    )
    atexit.register(_end, process, folder)
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        assert process.poll() is None, "the process that forks has ended"
        assert time.monotonic() < deadline, "the process that forks has not started"
        time.sleep(0.02)
    return (sys.executable, "-I", "-S", str(ROOT / "tests" / "warm" / "launcher.py"), str(path))


def _end(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(START_SECONDS)
    (folder / "socket").unlink()
    folder.rmdir()
