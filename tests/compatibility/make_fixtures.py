"""Write the fixtures of this version: `python -m tests.compatibility.make_fixtures`.

Run it on the commit of a release and commit the folder that it writes. It records one long session
in SQLite and on a temporary XTDB server:

    store.db.xz           the SQLite file
    session.bundle        a bundle of the fork, which includes the session it was forked from
    transactions.json.xz  the transactions sent to XTDB, each with its transaction time
    expected.json.xz      this version's answers about both stores

The session's files are in a temporary folder that is deleted at the end, as on another machine.
"""

import argparse
import asyncio
import json
import lzma
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

import ctxmgr
from ctxmgr.core.context.assembly import Section
from ctxmgr.core.objects.chat import AssistantMeta
from tests.compatibility import answers
from tests.compatibility.answers import FORK, SESSION
from tests.xtdb.servers import XtdbServer

FIXTURES: Final = Path(__file__).parent / "fixtures"
CHANGED_MS: Final = 1_750_000_000_000
"""Modification time of the first file; every later change is a minute later."""
FORKED_AFTER: Final = 20
MODEL: Final = "claude-sonnet-4-5"
STUBS: Final = 120
"""Files that are listed and not read: their ids exceed what XTDB stores inline in a list."""
REPORT_LINES: Final = 6_000
"""Of an output that exceeds what XTDB stores inline in a string."""

_TX_TIME: Final = re.compile(rb':xtdb.api/tx-time #inst "([^"]+)"')


def main() -> None:
    """Write the fixtures into a folder named after the version."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, default=FIXTURES / ctxmgr.__version__)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True)
    expected = {}
    with tempfile.TemporaryDirectory() as work:
        database = Path(work) / "store.db"
        url = f"sqlite:///{database}"
        facts = _work(url)
        asyncio.run(_export(url, folder / "session.bundle"))
        (folder / "store.db.xz").write_bytes(_compressed(database.read_bytes()))
        expected["sqlite"] = facts | _answers(url, facts)
    with XtdbServer() as server, _recorded() as transactions:
        url = f"xtdb+{server.url}"
        facts = _work(url)
        (folder / "transactions.json.xz").write_bytes(_compressed(_json(transactions)))
        expected["xtdb"] = facts | _answers(url, facts)
    (folder / "expected.json.xz").write_bytes(_compressed(_json(expected)))


def _answers(url: str, facts: dict[str, Any]) -> dict[str, Any]:
    turns = len(facts["sent"][SESSION])
    return {
        "events": asyncio.run(answers.events(url)),
        "stored": asyncio.run(_asked(url, facts, answers.stored)),
        "operations": answers.operations(url, file_id=facts["file_id"]),
        "forms": answers.prompts_by_form(url, turns=turns),
        "resumed": asyncio.run(_asked(url, facts, answers.resumed)),
    }


async def _asked(url: str, facts: dict[str, Any], question: Any) -> Any:
    async with ctxmgr.connect(url, mounts=facts["mounts"], tracking=False) as client:
        return await question(client)


async def _export(url: str, path: Path) -> None:
    async with ctxmgr.connect(url, tracking=False) as client:
        await client.export_session(FORK, path=path)


class _Layer:
    """Contributes a line to every prompt that asks for contributions."""

    budget_tokens = 50

    def __init__(self, slot: Section) -> None:
        self.slot = slot
        self.name = f"layer-{slot}"

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        about = turn // 10 if self.slot is Section("epoch") else turn
        return f"{self.slot}: {session_id}" if self.slot is Section("stable") else f"note {about}"


class _Project:
    """The files of the session, each change with a fixed modification time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._now_ms = CHANGED_MS

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self._now_ms += 60_000
        os.utime(path, ns=(self._now_ms * 1_000_000,) * 2)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()


def _work(url: str) -> dict[str, Any]:
    """Record the session; return what a test needs besides the answers."""
    folder = Path(tempfile.mkdtemp(prefix="shop-")).resolve()
    mount = {"agentPrefix": "/workspace", "canonicalPrefix": str(folder), "filesystemId": "disk"}
    project = _Project(folder)
    story = _Story(url, project, mount)
    try:
        asyncio.run(story.run())
    finally:
        shutil.rmtree(folder)
    return {
        "sent": story.sent,
        "forked_after": FORKED_AFTER,
        "mounts": [mount],
        "file_id": story.files["prices.py"],
    }


class _Story:
    """The recorded session, from its first turn to its fork."""

    def __init__(self, url: str, project: _Project, mount: dict[str, str]) -> None:
        self._project = project
        self.sent: dict[str, list[str]] = {SESSION: [], FORK: []}
        self.files: dict[str, str] = {}
        self._connected = lambda: ctxmgr.connect(
            url,
            mounts=[mount],
            filesystem_id="container",
            contributors=[_Layer(Section(slot)) for slot in ("stable", "epoch", "volatile")],
            window=ctxmgr.Window(per_turn=2, turns_back=2),
            tracking=False,
        )

    async def run(self) -> None:
        await self._begin()
        await self._come_back()
        await self._branch()

    async def _begin(self) -> None:
        """Turns 1 to 10, plain: files, stubs, a failure, a large output, a late system prompt."""
        project = self._project
        project.write("prices.py", "PRICES = {'tea': 3}\n")
        project.write("notes.md", "# Notes\n\nThe shop opens at nine.\n")
        project.write("blob.bin", "\x00\x01\x02")
        for n in range(STUBS):
            project.write(f"stock/item-{n:03}.txt", f"item {n}\n")
        async with self._connected() as client:
            session = await client.start(SESSION, system_prompt="")
            await self._turn(session, "Hello.", "Hello! What shall I do?")
            await session.change_system_prompt("You keep a small shop in order.\n")
            await self._turn(
                session, "What does tea cost?", [_text("Let me look.")], read="prices.py"
            )
            listing = "".join(f"item-{n:03}.txt\n" for n in range(STUBS))
            call = await _call(session, "ls", {"path": "stock"}, listing)
            await self._turn(session, "", [call, _text("There are many items.")])
            failed = await _call(session, "bash", {"command": "make"}, "no rule\n", status="fail")
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
            native = {"type": "native", "api": "anthropic", "block": thinking}
            await self._turn(session, "Build it.", [native, failed])
            project.write("prices.py", "PRICES = {'tea': 4, 'milk': 2}\n")
            await self._turn(session, "Tea is dearer now.", "Noted.", read="prices.py")
            lines = (f"{n % 50:04} sold tea at 4 in shop {n % 7}\n" for n in range(REPORT_LINES))
            report = await _call(session, "bash", {"command": "report --all"}, "".join(lines) * 2)
            await self._turn(session, "How were sales?", [report, _text("Good.")])
            await session.deactivate(report["toolcall_id"])
            await session.pin(failed["toolcall_id"])
            first = next(iter(session.sets.session_index))
            await session.pin(first)
            session.note_context_call("ctx-1", status="ok", output=f"pin: {first}")
            context_call = {
                "type": "toolcall",
                "toolcall_id": "ctx-1",
                "call_id": "ctx-1",
                "tool": "pin",
                "args": {"id": first},
            }
            await self._turn(session, "Pin it.", [context_call], read="notes.md")
            await session.activate(await self._stub(session))
            release = await _call(
                session, "read", {"path": "/etc/release"}, "shop-os 1\n", faithful=True
            )
            await self._turn(session, "Which system?", [release], contribute=True)
            await session.unpin(failed["toolcall_id"])
            await self._turn(
                session, "Überprüfe: 🫖, e\u0301, \u2028.", "Geprüft. 🫖", contribute=True
            )
            unknown = {
                "type": "toolcall",
                "toolcall_id": "never-run",
                "call_id": "c-never",
                "tool": "bash",
                "args": {"command": "true"},
            }
            await self._turn(session, "Stop.", [unknown])
            await client.pause(SESSION)

    async def _come_back(self) -> None:
        """Turns 11 to 41, most with the economy policy: a deleted file, secrets, many turns."""
        self._project.remove("notes.md")
        self._project.write("prices.py", "PRICES = {'tea': 5, 'milk': 2, 'jam': 6}\n")
        self._project.write(
            ".env", f"GITHUB_TOKEN=ghp_{'x9Kq2mVb7Lr4Tz1Wc8Yd' * 2:.36}\nMODE=test\n"
        )
        async with self._connected() as client:
            session = await client.resume(SESSION)
            await self._turn(session, "I am back.", "Welcome back.")
            await self._turn(session, "The settings?", "Read.", read=".env", policy="economy")
            for n in range(13, 39):
                await self._long_turn(session, n)
            await self._turn(session, "Plain again.", "Here.")
            lean = ctxmgr.Economy(fidelity=0.1, calls_expected=3, model=MODEL)
            await self._turn(session, "Now lean.", "Lean.", policy=lean, contribute=True)
            await session.change_system_prompt("You keep a large shop in order.")
            await self._turn(session, "The shop has grown.", "It has.", policy="economy")
            await session.read("/workspace/prices.py")
            await client.pause(SESSION)

    async def _branch(self) -> None:
        """Fork after a turn with the economy policy, and add three turns."""
        async with self._connected() as client:
            fork = await client.fork(SESSION, turn=FORKED_AFTER, new_session_id=FORK)
            await self._turn(fork, "Another way.", "Let us try.", policy="economy")
            tried = await _call(fork, "bash", {"command": "make all"}, "built\n")
            await self._turn(fork, "Build it.", [tried], policy="economy")
            await self._turn(fork, "Thank you.", "You are welcome.")
            await client.pause(FORK)

    async def _long_turn(self, session: Any, n: int) -> None:
        if n % 6 == 0:
            self._project.write("prices.py", f"PRICES = {{'tea': {n}}}\n" + "# row\n" * 40)
            await session.read("/workspace/prices.py")
        output = "".join(f"{n} {row} checked shelf_{row % 9}_{n}\n" for row in range(60))
        check = await _call(session, "bash", {"command": f"check --round {n}"}, output)
        parts = [_text(f"Round {n}: I check the shelves. " + "All is well. " * 8), check]
        await self._turn(session, f"Round {n}.", parts, policy="economy", contribute=n % 9 == 0)

    async def _turn(
        self, session: Any, user: str, answer: Any, *, read: str | None = None, **options: Any
    ) -> None:
        if read is not None:
            file = await session.read(f"/workspace/{read}")
            self.files[read] = file.object_id
        prompt = await session.render(user, **options)
        self.sent[session.session_id].append(answers.digest(prompt))
        tokens = len(prompt) // 4
        usage = {
            "input_tokens": 20,
            "output_tokens": 30,
            "cache_read_input_tokens": tokens // 2,
            "cache_creation_input_tokens": tokens // 3,
        }
        at = CHANGED_MS + session.turn * 100_000
        meta = AssistantMeta(
            api="anthropic", provider="anthropic", model=MODEL, usage=usage, timestamp=at
        )
        await session.end_turn(answer, meta=meta)

    async def _stub(self, session: Any) -> str:
        file = await session.read("/workspace/stock/item-007.txt")
        await session.deactivate(file.object_id)
        return str(list(session.sets.metadata_pool)[-1])


async def _call(session: Any, tool: str, args: dict[str, str], output: str, **more: Any) -> Any:
    call_id = f"{session.session_id}-{session.turn}-{tool}"
    await session.record(call_id, tool=tool, args=args, output=output, **more)
    return {
        "type": "toolcall",
        "toolcall_id": call_id,
        "call_id": f"c-{call_id}",
        "tool": tool,
        "args": args,
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@contextmanager
def _recorded() -> Iterator[list[dict[str, str]]]:
    """Record every transaction sent to XTDB, with the time that the server assigned."""
    transactions: list[dict[str, str]] = []
    send = httpx.AsyncClient.send

    async def recording(client: httpx.AsyncClient, request: httpx.Request, **more: Any) -> Any:
        response = await send(client, request, **more)
        if request.url.path.endswith("/submit-tx"):
            found = _TX_TIME.search(await response.aread())
            assert found is not None, "every transaction is given a time"
            transactions.append({"time": found[1].decode(), "body": request.content.decode()})
        return response

    httpx.AsyncClient.send = recording  # type: ignore[method-assign,assignment]
    try:
        yield transactions
    finally:
        httpx.AsyncClient.send = send  # type: ignore[method-assign]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def _compressed(data: bytes) -> bytes:
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    main()
