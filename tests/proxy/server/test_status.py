"""``ctxmgr proxy status`` as a person reads it."""

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctxmgr.app import App
from ctxmgr.core.model import Usage
from ctxmgr.errors import NotFound
from ctxmgr.proxy.engine import Outgoing
from ctxmgr.proxy.server import running
from ctxmgr.proxy.server.running import RunningProxy
from ctxmgr.proxy.server.traffic import Traffic
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.operations import doctor_checks
from ctxmgr.surfaces.operations.agents.proxy import proxy_status
from ctxmgr.surfaces.terminal.tables import render
from tests.proxy.recording.exchanges import exchange
from tests.proxy.server.scripted_upstream import ScriptedUpstream, answer

URL = "http://127.0.0.1:8322"


@pytest.fixture(autouse=True)
def _announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    proxy = RunningProxy(url=URL, pid=os.getpid(), store="sqlite:///a.db", upstreams={})
    running.announce(tmp_path / "ctxmgr", proxy)


def reports(monkeypatch: pytest.MonkeyPatch, status: dict[str, Any]) -> None:
    async def asked(_: RunningProxy) -> dict[str, Any]:
        return status

    monkeypatch.setattr(running, "ask_status", asked)


def counted() -> dict[str, Any]:
    """Return what a proxy reports that lost a cached prefix."""
    records = {"recorded": 3, "waiting": 0, "dropped": 1, "failed": 0}
    traffic = Traffic(describe=lambda: {"record_only": False, "records": records})
    outgoing = Outgoing(body=b"{}", conversation="c1", break_cause="the client changed message 1")
    for read in (9_000, 0):
        traffic.prepared(outgoing, seconds=0.01)
        usage = Usage(input_tokens=5, cache_read_tokens=read, cache_written_tokens=9_000 - read)
        traffic.ended(exchange([], [], outgoing=outgoing, usage=usage))
    return traffic.status()


async def test_the_status_is_tables_and_not_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy rule 34: what was not shaped, and why, is read at a glance."""
    reports(monkeypatch, counted())

    status = await proxy_status(App(load_settings()))

    file = io.StringIO()
    Console(file=file, width=100).print(render(status))
    assert "{" not in file.getvalue()
    for words in ("nothing to shape", "proxy-c1", "9005", "the client changed message 1"):
        assert words in file.getvalue()
    assert status.not_recorded == 1
    assert status.details["records"]["recorded"] == 3


async def test_a_proxy_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may run for days while ctxmgr is upgraded."""
    reports(monkeypatch, {"requests": {}})

    with pytest.raises(NotFound, match="another version"):
        await proxy_status(App(load_settings()))


async def test_doctor_names_a_proxy_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other checks must not fail because of it."""

    async def older(_: RunningProxy) -> dict[str, Any]:
        return {"requests": {}}

    monkeypatch.setattr(doctor_checks, "ask_status", older)

    finding = await doctor_checks._proxy()

    assert "another version" in finding.note


async def test_a_program_that_took_the_port_counts_as_none() -> None:
    """It would receive credentials. Its process id proves nothing: ids are used again."""
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    found = []
    async with ScriptedUpstream() as other:
        for pid, said in (
            (ended.pid, {}),
            (os.getpid(), {}),
            (os.getpid(), {"proof": "0" * 64}),
            (os.getpid(), {"proof": "é"}),
        ):
            other.otherwise = answer(json.dumps({"pid": pid, **said}).encode())
            proxy = RunningProxy(url=other.url, pid=pid, store="", upstreams={})
            found.append(await running.ask_status(proxy))
        assert len(other.requests) == 3

    assert found == [None] * 4
    assert proxy.key not in str(other.requests)


def test_the_file_has_what_proves_the_proxy(tmp_path: Path) -> None:
    """Whoever reads the file can check the proof, and the proof depends on the challenge."""
    proxy = RunningProxy(url=URL, pid=1, store="s", upstreams={})

    running.announce(tmp_path, proxy)

    read = running.announced(tmp_path)
    assert read == proxy
    assert read.proof("a") == proxy.proof("a") != proxy.proof("b")
    assert proxy.key not in repr(proxy)
