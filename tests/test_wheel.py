"""The wheel contains everything it needs and nothing else, and works in an empty environment."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from ctxmgr.errors import DISTRIBUTION
from tests.components import ROOT
from tests.xtdb.servers import require_xtdb

WHEEL_BYTES_MAX = 2_200_000
FILE_BYTES_MAX = 64 * 1024
"""It contains only text, in files that a person can read; jars are downloaded when needed."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel like a release."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with only the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder)
    _install(folder / "bin", str(wheel))
    return folder / "bin"


def test_the_wheel_contains_the_server_and_the_sandbox(wheel: Path) -> None:
    """003-R198: an installed ctxmgr can start XTDB without a checkout."""
    names = _names(wheel)

    expected = [
        f"ctxmgr/shipped/{path.relative_to(ROOT)}"
        for folder in ("xtdb", "sandbox")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    ]
    assert [name for name in expected if name not in names] == []
    assert {"ctxmgr/py.typed", "ctxmgr/shipped/xtdb/start"} <= names


def test_the_wheel_contains_every_module_and_statement(wheel: Path) -> None:
    """A missing .sql file would be noticed only after an installation."""
    files = [path for path in (ROOT / "ctxmgr").rglob("*") if path.suffix in {".py", ".sql"}]

    assert {str(path.relative_to(ROOT)) for path in files} <= _names(wheel)


def test_the_wheel_contains_nothing_else(wheel: Path) -> None:
    """No tests, caches, databases or jars."""
    unexpected = [
        name
        for name in _names(wheel)
        if not name.startswith(("ctxmgr/", "ctxmgr_agent-"))
        or name.endswith((".pyc", ".jar", ".class", ".db", ".log"))
    ]

    with ZipFile(wheel) as archive:
        files = [each for each in archive.infolist() if not each.filename.endswith("/RECORD")]
        large = [each.filename for each in files if each.file_size > FILE_BYTES_MAX]
        for each in files:
            archive.read(each).decode("utf-8")

    assert unexpected == []
    assert large == []
    assert wheel.stat().st_size < WHEEL_BYTES_MAX


def test_the_installed_command_prints_its_version(installed: Path, wheel: Path) -> None:
    """It is usually the first command after an installation."""
    version = wheel.name.split("-")[1]

    result = subprocess.run([installed / "ctxmgr", "--version"], capture_output=True, check=True)

    assert result.stdout.decode() == f"ctxmgr {version}\n"


def test_the_installed_wheel_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    """The project that its agent fixes is part of the wheel."""
    report = _run(installed, tmp_path, "ctxmgr", "demo")

    assert report["fixed"]
    assert report["proven"]


@pytest.mark.xtdb
@pytest.mark.timeout(900)
def test_the_installed_wheel_starts_a_server_and_stores_in_it(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    """From an empty environment to a document in XTDB, with no process left running."""
    require_xtdb()
    missing = _fail(installed, tmp_path, "ctxmgr", "store", "status", "--store", "xtdb+http://h")
    assert missing["code"] == "extra_missing"
    requirement = f"{DISTRIBUTION}[xtdb] @ {wheel.as_uri()}"
    _install(installed, requirement)
    server = _run(installed, tmp_path, "ctxmgr", "xtdb", "up", "--config", "memory", "--port", "0")
    try:
        stored = _run(installed, tmp_path, "python", "-c", _PUT_AND_GET, server["url"])
        fetched = _run(
            installed, tmp_path, "ctxmgr", "store", "get", "note", "--store", server["url"]
        )
    finally:
        stopped = _run(installed, tmp_path, "ctxmgr", "xtdb", "down")

    assert stored == fetched["document"] == {"xt/id": "note", "type": "note", "text": "hello"}
    assert stopped["running"] is False


_PUT_AND_GET = """
import asyncio, json, sys
from ctxmgr import Put, open_store

async def main():
    async with await open_store(sys.argv[1]) as store:
        await store.commit([Put({"xt/id": "note", "type": "note", "text": "hello"})])
        print(json.dumps((await store.get("note")).document))

asyncio.run(main())
"""


def _install(programs: Path, requirement: str) -> None:
    """With the pip of this environment: to create another takes longer than to install."""
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "--quiet")
    subprocess.run([*pip, "install", "--no-compile", requirement], check=True)


def _names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def _run(programs: Path, home: Path, program: str, *arguments: str) -> Any:
    result = _start(programs, home, program, *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def _fail(programs: Path, home: Path, program: str, *arguments: str) -> Any:
    return json.loads(_start(programs, home, program, *arguments).stderr)["error"]


def _start(
    programs: Path, home: Path, program: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    folders = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("DATA", "STATE", "CONFIG")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [programs / program, *arguments, *(["--json"] if program == "ctxmgr" else [])]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=home, env={**clean, **folders}
    )
