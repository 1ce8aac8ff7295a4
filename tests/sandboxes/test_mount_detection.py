"""Mount detection, on output of real sandboxes."""

import json
import subprocess
from pathlib import Path

import pytest

from ctxmgr.core.files.filesystem_ids import container_filesystem_id, device_filesystem_id
from ctxmgr.core.files.mounts import FileLocation, MountMapping, Mounts
from ctxmgr.errors import Incorrect
from ctxmgr.sandboxes.mount_detection import (
    container_id,
    location_by_device,
    merge,
    mounts_from_inspect,
    mounts_from_mountinfo,
    parse_mountinfo,
    visible_mounts,
)
from tests.components import ROOT
from tests.sandboxes.programs import SYSTEM, need_bubblewrap

REAL = ROOT / "sandbox" / "inspect"
INSPECTED = json.loads((REAL / "docker-20.10.json").read_text(encoding="utf-8"))
HOST_INFO = (REAL / "host-of-docker-20.10.mountinfo").read_text(encoding="utf-8")

AGENT_PATHS = {
    "/workspace/src/main.py": ("host", "/srv/example/project/src/main.py"),
    "/workspace/data/x": ("host", "/srv/example/my data/x"),
    "/workspace/tmp/x": ("own", "/workspace/tmp/x"),
    "/etc/passwd": ("own", "/etc/passwd"),
    "/proc/self/environ": ("own", "/proc/self/environ"),
}


def real(name: str) -> str:
    return (REAL / name).read_text(encoding="utf-8")


def detected(name: str) -> Mounts:
    if name == "inspect":
        return mounts_from_inspect(INSPECTED, host_id="host", own_id="own")
    return mounts_from_mountinfo(real(name), host=HOST_INFO, host_id="host", own_id="own")


@pytest.mark.parametrize(
    "name", ["inspect", "docker-20.10.mountinfo", "bubblewrap-0.8.0.mountinfo"]
)
def test_the_mounts_of_a_real_sandbox_are_detected(name: str) -> None:
    """003-R153, 003-R159, 003-R160, 003-R163: bind mounts are on the host, others are not."""
    mounts = detected(name)

    places = {path: mounts.forward(path) for path in AGENT_PATHS}

    assert {
        path: (location.filesystem_id, location.path) for path, location in places.items()
    } == AGENT_PATHS
    assert {path: location.on_host for path, location in places.items()} == {
        path: filesystem_id == "host" for path, (filesystem_id, _) in AGENT_PATHS.items()
    }


@pytest.mark.parametrize("name", ["inspect", "docker-20.10.mountinfo"])
def test_a_volume_is_on_the_host_and_a_tmpfs_is_not(name: str) -> None:
    """003-R154, 003-R162: an engine keeps volumes in its folder on the host."""
    mounts = detected(name)

    cached = "/var/lib/docker/volumes/example-cache/_data/x"
    assert mounts.forward("/cache/x").path == cached
    assert not mounts.forward("/scratch/x").on_host


def test_a_containers_overlay_is_private_although_the_host_mounts_it() -> None:
    """003-R162: otherwise a container's files would be the host's, under another path."""
    mounts = detected("docker-20.10.mountinfo")

    assert "/" not in {mapping.agent_prefix for mapping in mounts.mappings}


def test_a_sandbox_that_binds_the_hosts_root_is_detected() -> None:
    """003-R163: bubblewrap's simplest profile binds the root, with private /proc and /dev."""
    sandbox = (
        "75 47 254:0 / / ro - ext4 /dev/vda ro\n"
        "77 75 0:43 / /proc rw - proc proc rw\n"
        "80 75 0:44 / /tmp rw - tmpfs tmpfs rw\n"
    )

    mounts = mounts_from_mountinfo(sandbox, host=HOST_INFO, host_id="host", own_id="own")

    assert mounts.forward("/home/me/a") == FileLocation(
        filesystem_id="host", path="/home/me/a", on_host=True
    )
    assert not mounts.forward("/proc/self/environ").on_host
    assert not mounts.forward("/tmp/a").on_host


def test_hidden_mounts_are_ignored() -> None:
    """003-R160: the kernel lists mounts that can no longer be reached."""
    listed = (
        "1 0 8:1 / / rw - ext4 d rw\n"
        "2 1 8:2 / /w/inner rw - ext4 d rw\n"
        "3 1 8:3 / /w rw - ext4 d rw\n"
        "4 3 8:4 / /w rw - ext4 d rw\n"
        "5 4 8:5 /a\\040b /w/x\\134y rw shared:1 - ext4 d rw\n"
    )

    seen = list(visible_mounts(parse_mountinfo(listed)))

    assert [(mount.device, mount.point) for mount in seen] == [
        ("8:1", "/"),
        ("8:4", "/w"),
        ("8:5", "/w/x\\y"),
    ]
    assert seen[-1].root == "/a b"


def test_a_mount_whose_folder_was_deleted_is_not_looked_up() -> None:
    """003-A12: another folder may be at that path now."""
    sandbox = "1 0 0:9 / / rw - overlay o rw\n2 1 254:0 /srv/x//deleted /w rw - ext4 d rw"

    mounts = mounts_from_mountinfo(sandbox, host=HOST_INFO, host_id="host", own_id="own")

    assert not mounts.forward("/w/a").on_host


def test_declared_mounts_take_precedence() -> None:
    """003-R159, 003-R160: detection only adds undeclared mounts."""
    mine = MountMapping(agent_prefix="/workspace", canonical_prefix="/mine", filesystem_id="share")
    declared = Mounts.of_sandbox([mine], own_id="mine")

    mounts = merge(declared, detected("inspect"))

    assert mounts.forward("/workspace/a").path == "/mine/a"
    assert mounts.forward("/workspace/data/a").path == "/srv/example/my data/a"
    assert mounts.forward("/workspace/tmp/a") == FileLocation(
        filesystem_id="mine", path="/workspace/tmp/a", on_host=False
    )


@pytest.mark.parametrize(
    ("path", "device", "expected"),
    [
        ("/workspace/a", 65024, "host"),
        ("/workspace/a", 51, "host"),
        ("/etc/a", 41, "own"),
        ("/models/a", 65024, "undeclared"),
    ],
)
def test_an_undeclared_mount_is_identified_by_its_device(
    path: str, device: int, expected: str
) -> None:
    """003-R154, 003-R160: a stat reports it anyway; its path on the host is not guessed."""
    undeclared = device_filesystem_id("own", device=device)

    location = location_by_device(
        detected("inspect"), path, device=device, own_device=41, device_id=undeclared
    )

    assert location.filesystem_id == (undeclared if expected == "undeclared" else expected)


def test_a_container_is_identified_by_its_id() -> None:
    """003-R162: by the engine's id, not by the machine id in its image."""
    assert container_id(INSPECTED).startswith("b80f2c5f")
    assert len(container_filesystem_id(container_id(INSPECTED))) == 64


@pytest.mark.parametrize("inspected", [None, [], {}, [{}, {}], [{"Id": 7}]])
def test_an_invalid_inspection_is_refused(inspected: object) -> None:
    """003-R159: two containers in one answer would mix their mounts."""
    with pytest.raises(Incorrect, match="one container"):
        mounts_from_inspect(inspected, host_id="host", own_id="own")


@pytest.mark.parametrize(
    "line", ["", "1 2 3", "1 0 8:1 / /  rw ext4", "a 0 8:1 / / rw - ext4 d rw"]
)
def test_an_invalid_mountinfo_is_refused(line: str) -> None:
    """003-R160: a misread line would give every file below it a wrong location."""
    with pytest.raises(Incorrect, match="is not a line of mountinfo"):
        list(parse_mountinfo(f"{line}\n\n"))


def test_a_running_sandbox_is_detected(tmp_path: Path) -> None:
    """003-R153, 003-R160: the kernel of this machine agrees with the fixtures."""
    here = Path("/proc/self/mountinfo")
    need_bubblewrap()
    bound = ["--proc", "/proc", "--bind", str(tmp_path), "/workspace"]
    command = ["bwrap", *SYSTEM, *bound, "cat", str(here)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)

    mounts = mounts_from_mountinfo(
        run.stdout, host=here.read_text(encoding="utf-8"), host_id="host", own_id="own"
    )

    assert mounts.forward("/workspace/a").path == f"{tmp_path.resolve()}/a"
    assert mounts.forward("/workspace/a").on_host
    assert not mounts.forward("/etc/passwd").on_host
