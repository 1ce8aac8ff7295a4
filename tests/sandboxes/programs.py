"""Programs that some tests run beside the package: skipped where missing, a failure on CI."""

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
"""What a sandbox needs to run a program: bubblewrap's arguments."""


def need_program(name: str) -> None:
    """Go on if the program is here."""
    if not shutil.which(name):
        _missing(f"needs {name}: install it")


def need_bubblewrap() -> None:
    """Go on if bubblewrap can make a sandbox: it may be forbidden to."""
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
