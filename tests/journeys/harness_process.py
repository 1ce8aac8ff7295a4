"""A harness in a separate process, which reports what it sees or is killed while it works.

    python harness_process.py leave JOB      start a session, read files, pause; print their ids
    python harness_process.py take_up JOB    resume it, render, add a turn; print what was seen
    python harness_process.py work JOB       do all remaining turns, until killed

JOB is JSON, and so is the output. The worker prints ``> step`` before it sends a request
and ``< step`` once it was acknowledged. When restarted, it repeats the turn in progress
with the same ids, like a harness that does not know how far it got.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.events.events import Event, EventId
from ctxmgr.core.objects.session_record import SETS
from ctxmgr.core.tracking.trackers import TrackerState
from ctxmgr.errors import Conflict, NotFound

SETTLE_SECONDS = 60
"""For trackers to check four files; fast, but the machine may be busy."""

T = TypeVar("T")
Job = dict[str, Any]


class FileDiary:
    """A layer that writes the events it receives to a file, one write per event."""

    name = "diary"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def last_handled(self) -> EventId | None:
        written = self.written()
        return written[-1] if written else None

    async def handle(self, event: Event) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(f"{event.id.sequence} {event.id.position}\n".encode())

    def written(self) -> list[EventId]:
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [EventId(*map(int, line.split())) for line in lines]


async def leave(job: Job) -> Job:
    """Work for a turn and pause the session for another process."""
    sid = job["session"]
    async with ctxmgr.connect(job["url"], mounts=job["mounts"]) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        await session.render("go")
        files = {path: (await session.read(path)).object_id for path in job["read"]}
        await session.record(f"{sid}-1", tool="bash", args={"command": "make"}, output="made")
        await session.pin(f"{sid}-1")
        await session.end_turn("done")
        await client.pause(sid)
        return {"files": files, "sets": _sets(session)}


async def take_up(job: Job) -> Job:
    """Continue a session that another process paused."""
    async with ctxmgr.connect(job["url"], mounts=job["mounts"]) as client:
        session = await client.resume(job["session"])
        prompt, sets = await session.render("again"), _sets(session)
        return {
            "prompt": prompt,
            "sets": sets,
            "orphaned": client.reconciliation(job["session"]).orphaned,
            "trackers": await _settled(client, session),
            "turn": await session.end_turn("gone on"),
        }


async def work(job: Job) -> None:
    """Do the remaining turns."""
    listeners = [FileDiary(Path(job["diary"]))] if "diary" in job else []
    async with ctxmgr.connect(job["url"], mounts=job["mounts"], listeners=listeners) as client:
        session = await _open(client, job["session"])
        while session.turn <= job["turns"]:
            try:
                await _turn(session)
            except Conflict:  # the killed process had ended the turn after all
                continue
        await client.heard()


async def _open(client: Client, sid: str) -> LiveSession:
    try:
        return await client.resume(sid)
    except NotFound:
        return await _acknowledged(f"session {sid}", client.start(sid, system_prompt="Be careful."))


async def _turn(session: LiveSession) -> None:
    n = session.turn
    listed, read = f"{session.session_id}-{n}-ls", f"{session.session_id}-{n}-read"
    await session.render(f"go {n}")
    named = session.record(
        listed, tool="ls", args={"path": "src"}, output=f"{n}.py\nextra.py\nmain.py\n"
    )
    await _acknowledged(f"call {listed}", named)
    reading = session.record(read, tool="read", args={"path": "notes.md"}, output="# notes\n")
    await _acknowledged(f"call {read}", reading)
    await _acknowledged(f"pin {read}", session.pin(read))
    await _acknowledged(f"turn {n}", session.end_turn(f"gone {n}"))


async def _acknowledged(step: str, asked: Awaitable[T]) -> T:
    os.write(1, f"> {step}\n".encode())
    answer = await asked
    os.write(1, f"< {step}\n".encode())
    return answer


async def _settled(client: Client, session: LiveSession) -> dict[str, TrackerState]:
    """Return the tracker state of each object, once every tracker has checked its file."""
    tracking = client.tracking
    assert tracking is not None

    def states() -> dict[str, TrackerState]:
        return {entry: tracking.state(entry) for entry in session.sets.session_index}

    async with asyncio.timeout(SETTLE_SECONDS):
        await tracking.wait_for(lambda: TrackerState.RESUMED not in states().values())
    return states()


def _sets(session: LiveSession) -> dict[str, list[str]]:
    return {name: list(getattr(session.sets, name)) for name in SETS}


async def main(mode: str, job: Job) -> None:
    if mode == "work":
        await work(job)
        return
    seen = await {"leave": leave, "take_up": take_up}[mode](job)
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
