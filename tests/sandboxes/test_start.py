"""A sandbox around one folder."""

from pathlib import Path

import pytest

from ctxmgr.errors import Incorrect
from ctxmgr.sandboxes.start import start_sandbox
from tests.components import need


async def test_the_agent_can_read_and_write_its_folder(tmp_path: Path) -> None:
    """Also through a link: the folder itself is mounted, not its name."""
    need("bubblewrap")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    sandbox, directory = await start_sandbox("bubblewrap", folder=tmp_path / "link")

    try:
        ran = await sandbox.run("echo hello > new; pwd", cwd=directory, timeout_s=60)
    finally:
        await sandbox.close()

    assert (ran.exit_code, ran.text) == (0, "/workspace\n")
    assert (tmp_path / "real" / "new").read_text(encoding="utf-8") == "hello\n"
    assert not sandbox.describe().network


async def test_on_the_host_the_folder_keeps_its_path(tmp_path: Path) -> None:
    """Without isolation there is no path translation."""
    sandbox, directory = await start_sandbox("host", folder=tmp_path)
    await sandbox.close()

    assert directory == str(tmp_path)
    assert not sandbox.describe().isolates


async def test_a_file_is_refused_as_a_workspace(tmp_path: Path) -> None:
    """The error comes before anything is started."""
    (tmp_path / "file").touch()

    with pytest.raises(Incorrect, match="file' is not a directory"):
        await start_sandbox("host", folder=tmp_path / "file")
