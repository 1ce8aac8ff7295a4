"""The examples in ``sandbox/`` can be used unchanged."""

import json
from pathlib import Path

import pytest

from ctxmgr.core.files.mount_settings import read_mappings
from ctxmgr.core.files.mounts import Mounts
from tests.components import ROOT

EXAMPLES = sorted((ROOT / "sandbox" / "mounts").glob("*.json"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_of_mounts_is_valid(example: Path) -> None:
    """003-R155, 003-R159: users who copy it start from something that works."""
    values = json.loads(example.read_text(encoding="utf-8"))

    mounts = Mounts.of_sandbox(read_mappings(values, host_id="host"), own_id="own")

    location = mounts.forward("/workspace/src/main.py")
    assert (location.filesystem_id, location.path) == ("host", "/home/me/project/src/main.py")
    assert mounts.reverse(location) == "/workspace/src/main.py"
