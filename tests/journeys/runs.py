"""Shared by journeys of the loop: a session in a real sandbox, a scripted model on loopback."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.harness.loop import LoopResult, work
from ctxmgr.harness.loop_events import LoopEvent
from ctxmgr.models.open_model import HttpModel
from ctxmgr.sandboxes.start import start_sandbox
from tests.components import need
from tests.models.model_server import ModelServer
from tests.models.requests import make_model


@dataclass
class Workplace:
    """Everything that one run needs."""

    server: ModelServer
    model: HttpModel
    client: Client
    session: LiveSession
    events: list[LoopEvent] = field(default_factory=list)

    async def work(self, user: str = "Do it.", *, max_turns: int = 10) -> LoopResult:
        """Let the model work, and record the events."""
        return await work(
            self.session,
            model=self.model,
            user=user,
            max_turns=max_turns,
            on_event=self.events.append,
        )


@asynccontextmanager
async def workplace(
    server: ModelServer, *, store_url: str, sid: str, project: Path, api: str = "anthropic"
) -> AsyncIterator[Workplace]:
    """A session in a bubblewrap sandbox around the project, new or resumed."""
    need("bubblewrap")
    sandbox, directory = await start_sandbox("bubblewrap", folder=project)
    try:
        async with (
            make_model(api, server) as model,
            ctxmgr.connect(store_url, sandbox=sandbox, directory=directory) as client,
        ):
            yield Workplace(server, model, client, await _session(client, sid))
    finally:
        await sandbox.close()


class Fifo:
    """A pipe in the project by which a command in the sandbox signals that it runs."""

    def __init__(self, project: Path) -> None:
        self._path = project / "here"
        os.mkfifo(self._path)

    command = "echo here > here; exec sleep 600"
    """Signals, and then runs until it is killed."""

    def wait(self) -> None:
        """Return once the command has signalled. Blocks: call it in a thread."""
        self._path.read_text(encoding="utf-8")


async def _session(client: Client, sid: str) -> LiveSession:
    try:
        return await client.resume(sid)
    except ctxmgr.NotFound:
        return await client.start(sid, system_prompt="Be careful.")
