"""The HTTP API as a separate process on a free port, and requests to it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.warm.commands import ctxmgr

CTXMGR = (
    *("env", "--default-signal=INT"),  # a shell's background job ignores SIGINT
    *(sys.executable, "-c", "from ctxmgr.surfaces.terminal.cli import main; main()"),
)
WAIT_SECONDS = 60
RATE = "1000000"


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    process: "subprocess.Popen[str]"

    def get(self, path: str, token: str | None = None, **query: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.get(self.url + path, params=query, headers=headers, timeout=WAIT_SECONDS)

    def post(self, path: str, /, token: str | None = None, **body: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.post(self.url + path, json=body, headers=headers, timeout=WAIT_SECONDS)

    def end(self) -> int:
        """Stop it and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def serving(store: str, *flags: str) -> Iterator[Server]:
    """Start a server and wait until it prints its address."""
    words = ("serve", "--port", "0", "--rate", RATE, "--store", store, *flags)
    with subprocess.Popen([*ctxmgr(), *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r" at (http://\S+)", process.stdout.readline())
            assert address, "the server did not start"
            yield Server(address[1], process)
        finally:
            process.kill()


def events_of(text: str) -> list[dict[str, Any]]:
    """Parse a stream of events, each with id, name and data."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            data = json.loads(fields["data"])
            events.append({"id": fields.get("id"), "event": fields["event"], "data": data})
    return events
