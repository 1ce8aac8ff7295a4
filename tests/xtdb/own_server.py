"""An XTDB server for the tests of one module, which take ``xtdb_url`` from here.

For tests that read the whole log, or write so much that others would wait for it.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.xtdb.servers import PATIENCE_S, XtdbServer, require_xtdb


@pytest.fixture(scope="module")
def xtdb_url() -> Iterator[str]:
    """The store URL of a new server, or of the one in ``CTXMGR_TEST_XTDB_URL``."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("ctxmgr.stores.xtdb.store.TIMEOUT_S", PATIENCE_S)
        url = os.environ.get("CTXMGR_TEST_XTDB_URL")
        if url is None:
            require_xtdb()
            url = stack.enter_context(XtdbServer()).url
        yield f"xtdb+{url}"
