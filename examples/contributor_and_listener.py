"""Extend ctxmgr with a Contributor and a Listener.

A contributor adds text to the next prompt, within a token budget: here, the number of the turn. A
listener receives every stored event, at least once and in order: here, it writes a log file. Each
line holds the event's id, so that after a restart no event is lost or repeated.

    python examples/contributor_and_listener.py
"""

import asyncio
import json
import tempfile
from pathlib import Path

from ctxmgr import (
    Event,
    EventId,
    FileIndexed,
    Section,
    ToolCallCreated,
    TurnFinished,
    connect,
    guide,
)

SYSTEM_PROMPT = f"You are careful.\n\n{guide('economy')}"


class Progress:
    """A contributor that reminds the model how many turns it has."""

    name = "progress"
    slot = Section.VOLATILE  # last in the prompt, because it changes in every turn
    budget_tokens = 50

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        return f"[{session_id}: turn {turn} of 3, {budget_tokens} tokens for this note]"


class EventLog:
    """A listener that appends one line per event to a file."""

    name = "event-log"

    def __init__(self, path: Path) -> None:
        self.path = path

    async def last_handled(self) -> EventId | None:
        if not self.path.exists():
            return None
        last = json.loads(self.path.read_text(encoding="utf-8").splitlines()[-1])
        return EventId(*last["id"])

    async def handle(self, event: Event) -> None:
        match event:
            case TurnFinished(session_id=session_id, n=n):
                text = f"{session_id}: turn {n} finished"
            case ToolCallCreated(tool=tool, status=status):
                text = f"{tool}: {status}"
            case FileIndexed(source=source):
                text = f"read {Path(source['path']).name}"
            case _:
                text = event.name
        line = json.dumps({"id": [event.id.sequence, event.id.position], "text": text})
        with self.path.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


async def run(folder: Path) -> None:
    log = EventLog(folder / "events.jsonl")
    async with connect(
        f"sqlite:///{folder}/agent.db",
        directory=str(folder / "project"),
        contributors=[Progress()],
        listeners=[log],
        policy="economy",
    ) as client:
        session = await client.open("task-1", system_prompt=SYSTEM_PROMPT)  # starts, then resumes
        prompt = await session.render("Go on.", contribute=True)
        print(prompt.splitlines()[-1])
        call_id = f"call-{session.turn}"
        await session.record(call_id, tool="bash", args={"command": "ls"}, output="notes.md\n")
        await session.read("notes.md")
        await session.end_turn("Done.")
        await client.heard()  # wait until the listener has handled everything


async def main(folder: Path) -> None:
    (folder / "project").mkdir()
    (folder / "project" / "notes.md").write_text("remember the milk\n", encoding="utf-8")
    await run(folder)
    await run(folder)
    for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
        print(json.loads(line)["text"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
