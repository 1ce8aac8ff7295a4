"""ctxmgr's own files are recognised, whatever path or link leads to them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctxmgr.core.files.host_files import HostFiles
from ctxmgr.core.files.mounts import MountMapping, Mounts
from ctxmgr.core.files.outcomes import ReadFile, Refusal, RefusedFile
from ctxmgr.core.files.own_files import OwnFiles, host_paths, own_folders, steps_of
from ctxmgr.settings import cache_dir, data_dir, settings_files, state_dir
from tests.components import ROOT, need


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """What an agent may see of a folder that contains a store."""
    (tmp_path / "state").mkdir()
    for name in ("agent.db", "agent.db-wal", "agent.db-shm", "agent.db-journal", "state/x.json"):
        (tmp_path / name).write_text("own", encoding="utf-8")
    for name in ("agent.db-notes", "agent.dbx", "agent", "other.db", "statement"):
        (tmp_path / name).write_text("the agent's", encoding="utf-8")
    mapping = MountMapping(
        agent_prefix="/workspace", canonical_prefix=str(tmp_path), filesystem_id="h"
    )
    own = OwnFiles([tmp_path / "agent.db"], folders=[tmp_path / "state"])
    return HostFiles(Mounts.of_sandbox([mapping], own_id="own"), own=own)


def is_own(files: HostFiles, path: str) -> bool:
    outcomes = {type(files.look(path)), type(files.read(path))}
    refused = files.read(path)
    if outcomes == {RefusedFile} and isinstance(refused, RefusedFile):
        return refused.refusal is Refusal.OWN
    return False


@pytest.mark.parametrize(
    "name", ["agent.db", "agent.db-wal", "agent.db-shm", "agent.db-journal", "state/x.json"]
)
def test_a_store_is_not_read_in_a_mount(files: HostFiles, name: str) -> None:
    """D10: it holds every session, and reading it would store it in itself."""
    assert is_own(files, f"/workspace/{name}")
    assert is_own(files, f"/workspace/state/../{name}")


@pytest.mark.parametrize("name", ["agent.db-notes", "agent.dbx", "agent", "other.db", "statement"])
def test_files_of_similar_names_are_the_agents(files: HostFiles, name: str) -> None:
    """Only what ctxmgr writes is its own."""
    assert isinstance(files.read(f"/workspace/{name}"), ReadFile)


def test_a_file_that_does_not_exist_yet_is_recognised_when_it_does(
    files: HostFiles, tmp_path: Path
) -> None:
    """A log comes and goes with the connections to its database."""
    (tmp_path / "agent.db-wal").unlink()
    (tmp_path / "agent.db-wal").write_text("new", encoding="utf-8")

    assert is_own(files, "/workspace/agent.db-wal")


@pytest.mark.parametrize("name", ["agent.db", "agent.db-wal"])
def test_links_to_a_store_are_recognised(files: HostFiles, tmp_path: Path, name: str) -> None:
    """Both kinds: a hard link has another path and the same content."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "soft").symlink_to(f"../{name}")
    os.link(tmp_path / name, tmp_path / "sub" / "hard")
    os.link(tmp_path / "other.db", tmp_path / "sub" / "twin")

    assert is_own(files, "/workspace/sub/soft")
    assert is_own(files, "/workspace/sub/hard")
    assert isinstance(files.read("/workspace/sub/twin"), ReadFile)


def test_a_store_behind_a_link_is_recognised(tmp_path: Path) -> None:
    """SQLite opens what the link names, and keeps its other files there."""
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to("real.db")

    files = HostFiles(Mounts.of_host("h"), own=OwnFiles([tmp_path / "link.db"]))

    assert is_own(files, f"{tmp_path}/real.db")
    assert is_own(files, f"{tmp_path}/link.db")


def test_the_folders_of_the_settings_are_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings contain keys, and the state says what a person has confirmed."""
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))

    expected = {data_dir(), state_dir(), cache_dir(), settings_files()[1].parent}

    assert set(own_folders()) == expected
    settings_files()[1].parent.mkdir(parents=True)
    settings_files()[1].write_text('anthropic_api_key = "x"', encoding="utf-8")
    assert is_own(HostFiles(Mounts.of_host("h")), str(settings_files()[1]))


def test_the_steps_of_a_path_are_its_links_and_its_end(tmp_path: Path) -> None:
    """Whoever can replace one of them decides what the path names."""
    real = Path(os.path.realpath(tmp_path))
    (real / "a").mkdir()
    (real / "b").symlink_to("a")
    (real / "a" / "c").symlink_to(f"{real}/b/../d")

    steps = steps_of(f"{real}/b/./c")

    assert steps == (f"{real}/b", f"{real}/a/c", f"{real}/b", f"{real}/d")


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    """Anyone can make one."""
    (tmp_path / "x").symlink_to("x")

    assert len(steps_of(f"{tmp_path}/x")) < 100


ALIASES = """
import os, sys
from pathlib import Path
from ctxmgr.core.files.own_files import host_paths
folder = sys.argv[1]
print(*host_paths(folder + "/home/me/store"), sep="\\n")
print(*host_paths(folder + "/home/me/store/not/yet"), sep="\\n")
"""


def test_a_folder_that_is_mounted_twice_has_both_paths(tmp_path: Path) -> None:
    """Homes are often bound from a larger disk, and no link shows it."""
    need("mounting")
    folder = Path(os.path.realpath(tmp_path))
    (folder / "disk" / "home" / "me" / "store").mkdir(parents=True)
    (folder / "home").mkdir()
    script = f"mount --bind {folder}/disk/home {folder}/home && exec {sys.executable} - {folder}"

    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        input=ALIASES,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    both = [f"{folder}/home/me/store", f"{folder}/disk/home/me/store"]
    assert ran.stdout.splitlines() == [*both, *(f"{path}/not/yet" for path in both)], ran.stderr


def test_without_a_mount_table_a_folder_has_its_real_path(tmp_path: Path) -> None:
    """Other systems than Linux have none."""
    assert host_paths(str(tmp_path), mountinfo=tmp_path / "none") == (os.path.realpath(tmp_path),)
