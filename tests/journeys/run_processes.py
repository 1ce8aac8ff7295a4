"""``ctxmgr run`` as a separate process, with its output while it runs."""

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.components import need
from tests.models.model_server import KEY, ModelServer
from tests.warm.commands import ctxmgr

SECONDS: Final = 120
"""For every wait: a slow machine needs seconds to start Python."""

_SESSION: Final = re.compile(r"^session (\S+)", re.MULTILINE)


@dataclass
class Ended:
    exit_code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        assert self.out, self.err
        result: dict[str, Any] = json.loads(self.out)
        return result


class Running:
    """A process that was started."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._printed = ""

    async def session(self) -> str:
        """Wait until it prints the name of its session."""
        assert self.process.stderr is not None
        while not (match := _SESSION.search(self._printed)):
            line = await asyncio.wait_for(self.process.stderr.readline(), SECONDS)
            assert line, f"it exited early: {self._printed}"
            self._printed += line.decode()
        return match[1]

    async def ended(self) -> Ended:
        out, err = await asyncio.wait_for(self.process.communicate(), SECONDS)
        code = self.process.returncode
        assert code is not None
        return Ended(code, out.decode(), self._printed + err.decode())


@dataclass(frozen=True)
class Shell:
    """Where commands are run: a project, a store, the server of a model."""

    server: ModelServer
    store_url: str
    project: Path
    home: Path

    @asynccontextmanager
    async def running(
        self, *words: str, as_json: bool = True, cold: bool = False, **settings: str
    ) -> AsyncIterator[Running]:
        """Start ``ctxmgr run`` with these arguments; it ends with the block at the latest.

        ``settings`` are further variables. SIGINT works as in a terminal, even if the
        tests run in the background. ``cold`` starts the installed program, for tests that kill it.
        """
        need("bubblewrap")
        program = str(Path(sys.executable).with_name("ctxmgr"))
        process = await asyncio.create_subprocess_exec(
            *(("env", "--default-signal=INT", program) if cold else ctxmgr()),
            *("run", *words, "--store", self.store_url),
            *(["--json"] if as_json else []),
            stdout=PIPE,
            stderr=PIPE,
            cwd=self.project,
            env={**self._environment(), **settings},
        )
        try:
            yield Running(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def run(self, *words: str, as_json: bool = True, **settings: str) -> Ended:
        """Run it to the end."""
        async with self.running(*words, as_json=as_json, **settings) as running:
            return await running.ended()

    def new(self, task: str, *, api: str = "anthropic") -> tuple[str, ...]:
        """Return the arguments of a new run."""
        base_url = self.server.base_url(api)
        return (task, "--model", "scripted-1", "--api", api, "--base-url", base_url)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "DOCKER_HOST") if name in os.environ
        }
        places = {f"XDG_{kind}_HOME": str(self.home / kind) for kind in ("DATA", "STATE", "CONFIG")}
        keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
        return {**kept, **places, **keys, "HOME": str(self.home), "COLUMNS": "150"}
