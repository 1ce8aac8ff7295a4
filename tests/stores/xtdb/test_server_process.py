"""Errors of the server commands when the server cannot be prepared."""

from pathlib import Path

import pytest

from ctxmgr.errors import Unavailable
from ctxmgr.stores.xtdb import server_process
from ctxmgr.stores.xtdb.server_process import XtdbProcess


async def test_a_fetch_that_takes_too_long_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network failure gives no stack trace and leaves nothing running (003-R198)."""
    (tmp_path / "start").write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    monkeypatch.setattr(server_process, "shipped", lambda _: tmp_path)
    monkeypatch.setattr(server_process, "FETCH_WAIT_S", 0.1)
    server = XtdbProcess(state_dir=tmp_path, data_dir=tmp_path, lib_dir=tmp_path)

    with pytest.raises(Unavailable, match=r"within 0\.1 s.*start again"):
        await server._fetch()
