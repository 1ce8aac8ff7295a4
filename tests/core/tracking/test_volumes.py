"""003-R117: a volume that is not mounted is not a volume whose files were deleted."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import ctxmgr
from tests.components import ROOT, need

STEPS: Final = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
import ctxmgr

folder, point, way = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
url = f"sqlite:///{folder}/store.db"
mounts = [] if way == "host" else [
    {"agentPrefix": "/w", "canonicalPrefix": str(point.parent), "filesystemId": "h"}
]
path = f"/w/{point.name}" if mounts else str(point)

def run(*words):
    subprocess.run(words, check=True)

async def first():
    async with ctxmgr.connect(url, mounts=mounts, tracking=False) as client:
        session = await client.start("s", system_prompt="")
        for name in ("a", "sub/b", "gone", "old/c"):
            await session.read(f"{path}/{name}")
        await session.record("r", tool="read", args={"path": f"{path}/binary"}, output="x")
        await session.end_turn("done", user="go")
        await client.pause("s")

async def again():
    async with ctxmgr.connect(url, mounts=mounts, tracking=False) as client:
        session = await client.resume("s")
        await client.reconciliation("s").wait()
        contents = [(await session.read(f"{path}/{name}")).content for name in sys.argv[4:]]
        report = client.reconciliation("s")
        print(json.dumps([len(report.updated), len(report.orphaned), contents]))
        await client.pause("s")

point.mkdir(parents=True, exist_ok=True)
run("mount", "-t", "tmpfs", "none", str(point))
for name in ("a", "sub/b", "gone", "old/c"):
    (point / name).parent.mkdir(exist_ok=True)
    (point / name).write_text("precious")
    os.utime(point / name, (1, 1))
(point / "binary").write_bytes(b"\\xff\\0")
asyncio.run(first())
(point / "gone").unlink()
run("rm", "-r", str(point / "old"))
run("mount", "--move", str(point), "/proc/tty")
if way == "removed":
    point.rmdir()
sys.argv[4:] = []
asyncio.run(again())
point.mkdir(exist_ok=True)
run("mount", "--move", "/proc/tty", str(point))
sys.argv[4:] = ["a", "sub/b"]
asyncio.run(again())
"""
"""Reads files of a volume, and resumes without the volume and with it."""


def in_a_namespace(folder: Path, point: Path, way: str) -> list[str]:
    need("mounting")
    private = f"mount -t tmpfs none /media && exec {sys.executable} - {folder} {point} {way}"
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", private],
        input=STEPS,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("way", ["host", "mount"])
def test_an_unmounted_volume_orphans_its_files(tmp_path: Path, way: str) -> None:
    """003-R117, 003-A12: they keep their text; what was deleted on it is known when it is back."""
    without, with_it = in_a_namespace(tmp_path, tmp_path / "disk" / "volume", way)

    assert without == "[0, 5, []]"
    assert with_it == '[2, 0, ["precious", "precious"]]'


def test_a_volume_that_takes_its_mount_point_along_orphans_its_files(tmp_path: Path) -> None:
    """003-R117: desktops create a folder for a stick, and remove it with the stick."""
    without, with_it = in_a_namespace(tmp_path, Path("/media/me/stick"), "removed")

    assert without == "[0, 5, []]"
    assert with_it == '[2, 0, ["precious", "precious"]]'


LIVE: Final = """
import asyncio, subprocess, sys
from pathlib import Path
import ctxmgr

async def main(folder, point):
    for name in ("a", "b"):
        (point / name).write_text(f"text of {name}")
    async with ctxmgr.connect(f"sqlite:///{folder}/store.db", directory=str(folder)) as client:
        session = await client.start("s", system_prompt="")
        for name in ("a", "b"):
            await session.read(str(point / name))
        (point / "b").unlink()
        async with asyncio.timeout(60):
            while "[deleted]" not in (prompt := await session.render("q")):
                await asyncio.sleep(0.05)
        subprocess.run(["umount", "--lazy", str(point)], check=True)
        await asyncio.sleep(1)  # many times as long as a tracker waits
        print((await session.render("q")) == prompt, "text of a" in prompt)

asyncio.run(main(*map(Path, sys.argv[1:3])))
"""


def test_a_volume_that_is_unmounted_while_its_files_are_followed_orphans_them(
    tmp_path: Path,
) -> None:
    """003-R117: the kernel reports the end of the volume, and a deletion before it as one."""
    need("mounting")
    (tmp_path / "volume").mkdir()
    where = f"{tmp_path} {tmp_path}/volume"
    script = f"mount -t tmpfs none {tmp_path}/volume && exec {sys.executable} - {where}"

    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        input=LIVE,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert ran.stdout == "True True\n", ran.stderr


@pytest.mark.parametrize("tracking", [False, True])
async def test_what_is_deleted_is_found_when_a_session_is_resumed(
    tmp_path: Path, *, tracking: bool
) -> None:
    """003-R118: files and whole folders, also if the store was used for other things since."""
    url, folder = f"sqlite:///{tmp_path}/store.db", tmp_path / "project"
    paths = [folder / "a", folder / "sub" / "deep" / "b", folder / "kept"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")
    async with ctxmgr.connect(url, directory=str(folder), tracking=tracking) as client:
        session = await client.start("s", system_prompt="")
        for path in paths:
            await session.read(str(path))
        await session.end_turn("done", user="go")
        await client.pause("s")
    paths[0].unlink()
    await asyncio.to_thread(shutil.rmtree, folder / "sub")
    async with ctxmgr.connect(url, directory=str(folder), tracking=tracking) as client:
        await asyncio.sleep(0.1)  # longer than the time of a change may lag behind
        other = await client.start("other", system_prompt="")
        await other.end_turn("done", user="go")

    async with ctxmgr.connect(url, directory=str(folder), tracking=tracking) as client:
        session = await client.resume("s")
        await client.reconciliation("s").wait()

        assert len(client.reconciliation("s").updated) == 2
        assert client.reconciliation("s").orphaned == []
        assert (await session.render("q")).count("[deleted]") >= 2
