"""Run an agent on this terminal, with a proxy in between. Starts processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxmgr.core.store.urls import redact_url
from ctxmgr.proxy.server.agent_commands import upstreams_of
from ctxmgr.proxy.server.providers import read_upstreams
from ctxmgr.proxy.server.running import RunningProxy, announced, ask_status
from ctxmgr.settings import state_dir
from ctxmgr.surfaces.operations.agents.proxy_server import open_proxy, proxy_settings

if TYPE_CHECKING:
    from ctxmgr.app import App

SIGNALLED: Final = 128
"""Added to a signal's number in the exit code of a process that it ended."""

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_FROM_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT})
"""A terminal sends these to the agent itself, too."""


@asynccontextmanager
async def joined_proxy(
    app: "App",
    *,
    upstream: tuple[str, ...],
    record_only: bool,
    fidelity: float,
    memory: Path | None,
    knowledge: Path | None,
) -> AsyncIterator[tuple[RunningProxy, bool]]:
    """Yield a proxy with these settings, and whether it was running.

    Otherwise it is started, and ends with the block.
    """
    running = announced(state_dir())
    known = [running.url] if running is not None else []
    chosen = read_upstreams([*upstreams_of(os.environ, known=known), *upstream])
    shown = {str(name): redact_url(address) for name, address in chosen.items()}
    if running is not None and running.upstreams == shown:
        status = await ask_status(running)
        store = (await (await app.store()).status()).url
        wanted = proxy_settings(
            record_only=record_only, fidelity=fidelity, memory=memory, knowledge=knowledge
        )
        same = status is not None and {name: status.get(name) for name in wanted} == wanted
        if same and running.store == store:
            yield running, True
            return
    async with open_proxy(
        app,
        port=0,
        upstreams=chosen,
        record_only=record_only,
        fidelity=fidelity,
        token=True,
        announced=False,
        memory=memory,
        knowledge=knowledge,
    ) as own:
        yield own, False


async def run_program(words: tuple[str, ...], *, environment: Mapping[str, str]) -> int:
    """Run a program on this terminal; return its exit code."""
    process = await asyncio.create_subprocess_exec(*words, env=environment)
    try:
        with _signals_to(process):
            code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    return SIGNALLED - code if code < 0 else code


@contextmanager
def _signals_to(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Pass signals on to a process instead of ending."""
    loop = asyncio.get_running_loop()

    def pass_on(number: signal.Signals) -> None:
        if process.returncode is None and not (number in _FROM_TERMINAL and sys.stdin.isatty()):
            process.send_signal(number)

    for number in _PASSED_ON:
        loop.add_signal_handler(number, pass_on, number)
    try:
        yield
    finally:
        for number in _PASSED_ON:
            loop.remove_signal_handler(number)
