"""``ctxmgr wrap`` and ``ctxmgr proxy`` as a person runs them: real processes."""

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.app import App
from ctxmgr.errors import Incorrect
from ctxmgr.proxy.server.providers import read_upstreams
from ctxmgr.settings import load_settings
from ctxmgr.surfaces.operations.agents.agent_process import joined_proxy
from ctxmgr.surfaces.operations.agents.proxy_server import open_proxy, proxy_settings
from tests.proxy.server.events import anthropic_stream
from tests.proxy.server.scripted_upstream import ScriptedUpstream, stream

CTXMGR = (sys.executable, "-c", "from ctxmgr.surfaces.terminal.cli import main; main()")
WAIT = 120.0
AGENT = """#!{python}
import json, os, sys, time, urllib.request
messages = [{{"role": "user", "content": "Hi"}}]
body = {{"model": "m", "tools": [{{"name": "Read"}}], "messages": messages}}
headers = {{"content-type": "application/json", "x-api-key": "sk-ant-s3cret"}}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
with urllib.request.urlopen(request) as reply:
    print(reply.headers["x-ctxmgr-proxy"], len(reply.read()), *sys.argv[1:], flush=True)
if "wait" in sys.argv:
    time.sleep(600)
sys.exit(7)
"""

WITHOUT_NETWORK = """
import os, sys

def check(event, args):
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in {"socket.connect", "socket.sendto"} and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if host not in (None, b"127.0.0.1", "127.0.0.1", "::1", "localhost"):
        with open(os.environ["CONTACTED"], "a") as file:
            print(event, host, file=file)
        raise OSError("there is no network")

open(os.environ["CONTACTED"], "a").close()
sys.addaudithook(check)
"""
"""Run by every Python process that finds it as ``sitecustomize``."""


def environment(tmp_path: Path) -> dict[str, str]:
    """An empty home without network, and a PATH with an agent that sends one request."""
    folder = tmp_path / "bin"
    folder.mkdir()
    agent = folder / "claude"
    agent.write_text(AGENT.format(python=sys.executable), encoding="utf-8")
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT_NETWORK, encoding="utf-8")
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("STATE", "DATA", "CONFIG")}
    kept = {name: os.environ[name] for name in ("LANG",) if name in os.environ}
    offline = {"PYTHONPATH": str(tmp_path / "site"), "CONTACTED": str(tmp_path / "contacted")}
    home = {"HOME": str(tmp_path / "HOME")}  # nothing was downloaded before
    return {**kept, **homes, **home, **offline, "PATH": f"{folder}:{os.environ['PATH']}"}


def everything_below(folder: Path) -> bytes:
    """All files but the agent itself."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "claude")
    return b"".join(path.read_bytes() for path in files)


async def start(tmp_path: Path, home: dict[str, str], *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(*CTXMGR, "--store", str(tmp_path / "s.db"), *words),
        env=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def finished(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(WAIT):
        out, error = await process.communicate()
    return process.returncode, out.decode(), error.decode()


async def test_an_agent_runs_through_a_proxy_that_ends_with_it(tmp_path: Path) -> None:
    """Proxy rules 32, 33: exit code and signals are the agent's, and only the record is left.

    Nobody but the provider is contacted, and nothing is downloaded.
    """
    home = environment(tmp_path)
    async with ScriptedUpstream() as provider:
        provider.otherwise = stream(*anthropic_stream())
        flags = ("--upstream", f"anthropic={provider.url}")
        ran = await finished(await start(tmp_path, home, "wrap", "claude", *flags, "--", "a b"))
        waiting = await start(tmp_path, home, "wrap", "claude", *flags, "--", "wait")
        assert waiting.stdout is not None
        async with asyncio.timeout(WAIT):
            await waiting.stdout.readline()
        waiting.send_signal(signal.SIGTERM)
        ended = await finished(waiting)
    sessions = await finished(await start(tmp_path, home, "sessions", "--json"))

    assert ran[0] == 7, ran
    assert ran[1].startswith("shaped; ")
    assert ran[1].endswith(" a b\n")
    assert ended[0] == 128 + signal.SIGTERM, ended
    assert provider.requests[0].named["x-api-key"] == "sk-ant-s3cret"
    assert [row["session_id"][:6] for row in json.loads(sessions[1])["sessions"]] == ["proxy-"]
    assert not (tmp_path / "STATE" / "ctxmgr" / "proxy.json").exists()
    assert b"s3cret" not in everything_below(tmp_path)
    assert (tmp_path / "contacted").read_text() == ""


async def test_an_agent_joins_the_proxy_that_runs(tmp_path: Path) -> None:
    """Proxy rules 34 and 39: one process for many sessions, which says what it did."""
    home = environment(tmp_path)
    async with ScriptedUpstream() as provider:
        provider.otherwise = stream(*anthropic_stream())
        flags = ("--record-only", "--upstream", f"anthropic={provider.url}")
        proxy = await start(tmp_path, home, "proxy", "--port", "0", "--token", *flags)
        assert proxy.stdout is not None
        async with asyncio.timeout(WAIT):
            await proxy.stdout.readline()
        announced = tmp_path / "STATE" / "ctxmgr" / "proxy.json"
        assert stat.S_IMODE(announced.stat().st_mode) == 0o600
        ran = await finished(await start(tmp_path, home, "wrap", "claude", *flags, "--json"))
        shown = await asyncio.create_subprocess_exec(
            *(*CTXMGR, "proxy", "status", "--json"), env=home, stdout=asyncio.subprocess.PIPE
        )
        status: dict[str, Any] = json.loads((await finished_output(shown)) or "{}")
        proxy.send_signal(signal.SIGTERM)
        await finished(proxy)

    assert ran[0] == 7, ran
    assert '"joined": true' in ran[1]
    assert [row["requests"] for row in status["unshaped"]] == [1]
    assert status["details"]["records"]["dropped"] == 0
    assert status["details"]["billed"]["usage"]["output_tokens"] == 7
    assert not announced.exists()


async def test_an_agent_does_not_join_a_proxy_with_another_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one project has learnt is not said in conversations of another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "STATE"))
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()

    async with App(load_settings(store=f"sqlite:///{tmp_path}/a.db")) as app:

        async def joins(memory: Path | None) -> bool:
            async with joined_proxy(
                app, upstream=(), record_only=False, fidelity=0.5, memory=memory, knowledge=None
            ) as (_, joined):
                return joined

        async with open_proxy(
            app,
            port=0,
            upstreams=read_upstreams(()),
            record_only=False,
            token=True,
            fidelity=0.5,
            memory=tmp_path / "project",
        ):
            assert await joins(tmp_path / "project" / ".." / "project")
            assert not await joins(None)
            assert not await joins(tmp_path)


async def finished_output(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(WAIT):
        out, _ = await process.communicate()
    return out.decode()


@pytest.mark.parametrize("option", ["memory", "knowledge"])
def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path, option: str) -> None:
    """A mistyped one would begin every conversation with nothing, and nobody would notice."""
    given = {"memory": None, "knowledge": None, option: tmp_path / "nowhere"}

    with pytest.raises(Incorrect, match=f"--{option} .*nowhere: there is no such folder"):
        proxy_settings(record_only=False, fidelity=0.5, **given)
