"""Real coding agents from npm, pinned; run with `make test-clients`, which sets the variable.

They are 1.4 GB and need a minute to install, so the other tests do not wait for them.
"""

import os
from pathlib import Path

import pytest

from tests.clients.desk import Desk
from tests.clients.programs import installed

VARIABLE = "CTXMGR_TEST_CLIENTS"

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with the agents' programs; they are installed once for all runs."""
    return installed()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk.make(tmp_path)
