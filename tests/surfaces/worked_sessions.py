"""Sample sessions made as a harness makes them, and the JSON output of commands as values."""

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result

import ctxmgr
from ctxmgr import File, Put, to_document
from ctxmgr.core.objects.answers import text_part, toolcall_part


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """A sample session and facts about it."""

    url: str
    sid: str
    project: Path
    notes: str
    """The id of a file that was read twice, with different texts."""
    stub: str
    """The id of a file that was only discovered."""
    sent: tuple[str, ...]
    """The prompts as the model received them."""


async def work_three_turns(url: str, project: Path) -> Worked:
    """Read a file, change it, discover another, fail at something, finish, and pause."""
    sid = f"s-{uuid.uuid4().hex[:12]}"
    (project / "src").mkdir(parents=True)
    (project / "src" / "main.py").write_text("print('one')\n", encoding="utf-8")
    sent = []
    async with ctxmgr.connect(url, mounts=mounts(project), tracking=False) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        sent.append(await session.render("Which port?"))
        (project / "notes.md").write_text("port = 8080\n", encoding="utf-8")
        notes = await session.read("/workspace/notes.md")
        await session.record(f"{sid}-1", tool="ls", args={"path": "src"}, output="main.py\n")
        call = toolcall_part(f"{sid}-1", call_id="c1", tool="ls", args={"path": "src"})
        await session.end_turn([text_part("It is 8080."), call])
        sent.append(await session.render("Are you sure?"))
        (project / "notes.md").write_text("port = 9090\n", encoding="utf-8")
        await session.read("/workspace/notes.md")
        await session.record(f"{sid}-2", tool="t", args={}, output="no\n", status="fail")
        await session.pin(f"{sid}-1")
        await session.end_turn("It is 9090 now.")
        sent.append(await session.render("Thank you."))
        await session.end_turn("You are welcome.")
        others = {notes.object_id, f"{sid}-1", f"{sid}-2"}
        (stub,) = [item for item in session.sets.metadata_pool if item not in others]
        await client.pause(sid)
    return Worked(
        url=url, sid=sid, project=project, notes=notes.object_id, stub=stub, sent=tuple(sent)
    )


async def discover(worked: Worked, file: File) -> str:
    """Discover a file as a client on another machine would."""
    async with ctxmgr.connect(worked.url, mounts=mounts(worked.project), tracking=False) as client:
        await client.store.commit([Put(to_document(file))])
        session = await client.visit(worked.sid)
        await session.state.save(lambda sets, _: sets.add((file.object_id,)))
    return file.object_id


def mounts(project: Path) -> list[dict[str, Any]]:
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(project)}]


def json_of(result: Result) -> Any:
    """Return the JSON output of a command."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
