"""System components that some tests need, and what happens if one is missing.

Such a test is skipped with one line; on CI (``CI=true``) a missing component is a failure,
because everything is installed there and nothing may go untested.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
SHARED: Final = ROOT.parent / "shared"

LONG: Final = os.environ.get("CTXMGR_TEST_LONG") == "1"
"""Whether to generate many cases (``make test-long``), or as many as one can wait for."""

ENGINE_ANSWER_SECONDS: Final = 20
"""How long a Docker engine may take to respond: it may be busy with a build."""


def need(component: str) -> None:
    """Continue if the component is installed; otherwise skip, or fail on CI."""
    present, remedy = _COMPONENTS[component]
    if present():
        return
    reason = f"needs {component}: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _program(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


@cache
def _docker_answers() -> bool:
    """Whether an engine can be reached; the client alone is not enough."""
    if not shutil.which("docker"):
        return False
    asked = ["docker", "info", "--format", "{{.ServerVersion}}"]
    try:
        run = subprocess.run(asked, capture_output=True, timeout=ENGINE_ANSWER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


@cache
def _bubblewrap_makes_walls() -> bool:
    """Whether it is installed and this user may create namespaces."""
    trial = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    if not shutil.which(trial[0]):
        return False
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


@cache
def _may_mount() -> bool:
    """Tell whether this user may mount filesystems in a namespace of its own."""
    trial = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    if not shutil.which(trial[0]):
        return False
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's server programs: Debian keeps them off PATH, by version."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve()] if on_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_major, reverse=True)
    return next(
        (program.parent for program in candidates if (program.parent / "postgres").exists()),
        None,
    )


def _major(program: Path) -> int:
    version = program.parent.parent.name
    return int(version) if version.isdigit() else 0


_COMPONENTS: Final[dict[str, tuple[Callable[[], bool], str]]] = {
    "java": (_program("java"), "install a JRE, 17 or newer"),
    "maven": (_program("mvn"), "install Maven"),
    "node": (_program("node"), "install Node.js"),
    "chromium": (_program("chromium"), "install Chromium"),
    "ripgrep": (_program("rg"), "install ripgrep"),
    "bubblewrap": (_bubblewrap_makes_walls, "install it, and allow user namespaces"),
    "mounting": (_may_mount, "run as root"),
    "docker": (_docker_answers, "install and start a Docker engine"),
    "postgres": (lambda: postgres_programs() is not None, "install PostgreSQL's server"),
    "wordnet": (Path("/usr/share/wordnet/data.noun").is_file, "install wordnet-base"),
    "shared-data": ((SHARED / "data").is_dir, "check out the shared data beside the repository"),
}
