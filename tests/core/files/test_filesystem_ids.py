"""Filesystem ids: how a client names the filesystems it declares."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from ctxmgr.core.files.filesystem_ids import (
    container_filesystem_id,
    device_filesystem_id,
    host_filesystem_id,
    platform_uuid,
)
from ctxmgr.errors import Unavailable

MACHINE_ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("text", [MACHINE_ID, f"{MACHINE_ID}\n", f" {MACHINE_ID}\r\n"])
def test_the_hosts_id_is_the_hash_of_its_machine_id(text: str, tmp_path: Path) -> None:
    """003-R161, 003-A32: surrounding whitespace is not a part of it."""
    file = tmp_path / "machine-id"
    file.write_text(text, encoding="utf-8")

    filesystem_id = host_filesystem_id(files=[tmp_path / "missing", file])

    assert filesystem_id == hashlib.sha256(MACHINE_ID.encode()).hexdigest()


@pytest.mark.parametrize("text", ["", "\n", "uninitialized\n"])
def test_the_error_for_a_missing_machine_id_says_what_to_do(text: str, tmp_path: Path) -> None:
    """003-R161: images ship an empty file, which would make them all the same host."""
    file = tmp_path / "machine-id"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(Unavailable, match="as root, with") as raised:
        host_filesystem_id(files=[file])

    advice = str(raised.value).split("`")[1]
    subprocess.run(["/bin/sh", "-c", advice], check=True)
    assert len(host_filesystem_id(files=[file])) == 64


def test_the_error_for_an_unreadable_machine_id_names_the_file(tmp_path: Path) -> None:
    """003-R161: another id would orphan every file of this machine."""
    with pytest.raises(Unavailable, match="cannot be read"):
        host_filesystem_id(files=[tmp_path])


def test_macos_uses_its_platform_id() -> None:
    """003-R161: the equivalent on systems without a machine-id file."""
    listing = '  | {\n  "IOPlatformUUID" = "00000000-1111-2222-3333-444444444444"\n  }'

    assert platform_uuid(listing) == "00000000-1111-2222-3333-444444444444"
    assert platform_uuid("") is None


def test_a_container_and_an_undeclared_mount_have_distinct_ids() -> None:
    """003-R154, 003-R160, 003-R162: each differs from the host's and from every other."""
    own = container_filesystem_id("b80f2c5f")

    ids = {own, container_filesystem_id("b80f2c50"), hashlib.sha256(b"b80f2c5f").hexdigest()}
    ids |= {device_filesystem_id(own, device=number) for number in (51, 52)}

    assert len(ids) == 5
    assert own == container_filesystem_id("b80f2c5f\n")
