"""The images of the container tests, on machines without access to an image registry.

    base     Debian with a Java runtime and Python. Built from Debian's packages if
             possible, so that nothing is pulled; otherwise the official images.
    tools    Debian with only what a sandbox needs: a fifth of the base.
    server   xtdb/Dockerfile on the base, with jars downloaded before: the build needs no
             network and no Maven.
    client   the base; code and dependencies are mounted (``clients``).
    sandbox  sandbox/Dockerfile on the tools.

``python -m tests.containers.images`` builds base and tools before the tests need them; a
second process waits for the first. Touches the Docker engine and the file system.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs
from testcontainers.core.image import DockerImage

from tests.components import ROOT

TOOLS: Final = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "hostname"),
    *("libc-bin", "passwd", "procps", "sed", "util-linux"),
)
JAVA_AND_PYTHON: Final = ("default-jre-headless", "python3")
JAVA_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/lib/jvm/default-java/bin"
"""Packages are unpacked but not configured, which takes half the time. Therefore no link to Java
is on the PATH."""

ACCOUNTS: Final = (
    'for file in passwd group; do cp "$1/usr/share/base-passwd/$file.master" "$1/etc/$file"; done'
)
"""The only result of configuration that tests need."""

BUILD_SECONDS: Final = 300
"""To unpack and import some 380 MB, or to build on it; 30 s on an idle machine."""

FETCH_SECONDS: Final = 400
"""For Maven to copy the jars and Java to compile the server, if the cache is outdated."""

CACHE: Final = Path(
    os.environ.get("CTXMGR_XTDB_LIB") or platformdirs.user_cache_path("ctxmgr") / "xtdb"
)
"""The cache of the servers of other tests."""

PULLED_CLIENT: Final = "python:3.11-slim"


@dataclass(frozen=True)
class Images:
    server: str
    client: str


@contextmanager
def made_images(context: Path) -> Iterator[Images]:
    """Build the images; the server's image is removed at the end, the base is kept."""
    base = base_image()
    _fill_context(context)
    arguments = {} if base is None else {"BASE_IMAGE": base}
    with DockerImage(path=context, tag="ctxmgr-test-xtdb", buildargs=arguments) as image:
        yield Images(server=str(image), client=base or PULLED_CLIENT)


def base_image() -> str | None:
    """Return an image with Java and Python, built if needed; None if it must be pulled."""
    if given := os.environ.get("CTXMGR_TEST_BASE_IMAGE"):
        return given
    return _bootstrapped("ctxmgr-test-base", (*TOOLS, *JAVA_AND_PYTHON))


@contextmanager
def sandbox_image(name: str) -> Iterator[str]:
    """Build the shipped image of the Docker sandbox; it is removed at the end."""
    tools = _bootstrapped("ctxmgr-test-tools", TOOLS) or PULLED_CLIENT
    arguments = ("--build-arg", f"BASE_IMAGE={tools}", "--build-arg", "PACKAGES=")
    build = ["docker", "build", "--quiet", "--tag", name, *arguments, str(ROOT / "sandbox")]
    subprocess.run(build, check=True, capture_output=True, timeout=BUILD_SECONDS)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rmi", "--force", name], check=True, capture_output=True)


def has_image(name: str) -> bool:
    """Whether the engine has the image."""
    asked = ["docker", "image", "inspect", name]
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def _bootstrapped(name: str, packages: Sequence[str]) -> str | None:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        return None
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    tag = f"{name}:{suite}"
    with Path(tempfile.gettempdir(), f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not has_image(tag):
            _bootstrap(suite, tag, packages)
    return tag


def _bootstrap(suite: str, tag: str, packages: Sequence[str]) -> None:
    """Import a root file system of only these packages through a pipe."""
    made = [
        *("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(packages)}"),
        *(f"--extract-hook={ACCOUNTS}", suite, "-"),
    ]
    with subprocess.Popen(made, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as packing:
        imported = subprocess.run(
            ["docker", "import", "--change", f"ENV PATH={JAVA_PATH}", "-", tag],
            check=False,
            stdin=packing.stdout,
            capture_output=True,
            timeout=BUILD_SECONDS,
        )
        _, complaints = packing.communicate(timeout=BUILD_SECONDS)
    assert packing.returncode == 0, complaints.decode()[-2000:]
    assert imported.returncode == 0, imported.stderr.decode()[-2000:]


def _fill_context(context: Path) -> None:
    """Create the build context: the folder itself, and the jars in ``lib``."""
    shutil.copytree(ROOT / "xtdb", context, dirs_exist_ok=True)
    for pattern in ("jars-*", "classes-*"):  # outdated ones are downloaded and compiled again
        newest = max(CACHE.glob(pattern), key=lambda path: path.stat().st_mtime, default=None)
        if newest is not None:
            shutil.copytree(newest, context / "lib" / newest.name)
    fetched = subprocess.run(
        [str(context / "start"), "--fetch"],
        check=False,
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS,
        env={**os.environ, "CTXMGR_XTDB_LIB": str(context / "lib")},
    )
    assert fetched.returncode == 0, fetched.stderr[-2000:]


if __name__ == "__main__":
    _bootstrapped("ctxmgr-test-tools", TOOLS)
    base_image()
