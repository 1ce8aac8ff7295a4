"""External programs that some tests need: skipped if missing, a failure on CI."""

import os
import shutil
import subprocess
from functools import cache
from typing import Final

import pytest

SYSTEM: Final = (
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--unshare-all", "--die-with-parent"),
)
"""The minimal arguments of bubblewrap to run a program."""


def need_program(name: str) -> None:
    """Continue if the program is installed."""
    if not shutil.which(name):
        _missing(f"needs {name}: install it")


def need_bubblewrap() -> None:
    """Continue if bubblewrap can create a sandbox: the system may forbid it."""
    need_program("bwrap")
    if not _makes_sandboxes():
        _missing("needs bubblewrap to work: allow user namespaces")


@cache
def _makes_sandboxes() -> bool:
    return not subprocess.run(
        ["bwrap", *SYSTEM, "true"], capture_output=True, check=False
    ).returncode


def _missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
