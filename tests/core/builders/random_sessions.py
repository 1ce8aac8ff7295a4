"""Sessions of random operations with a real client, in both layouts."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.assembly import Section
from ctxmgr.core.objects.answers import contextcall_part, text_part, toolcall_part
from ctxmgr.core.objects.chat import AssistantMeta
from ctxmgr.errors import Incorrect, NotFound
from tests.core.builders.clients import with_clock
from tests.core.builders.streams import long_output

FILES: Final = ("a.py", "b.md")
KINDS: Final = (
    "plain",
    "economy",
    "silent",
    "contributed",
    "write",
    "read",
    "delete",
    "activate",
    "deactivate",
    "pin",
    "system",
    "resume",
    "later",
    "fork",
)
IDLE_SECONDS: Final = 4_000.0

steps: Final = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 7)), min_size=4, max_size=24
)


@dataclass
class Volatile:
    """A layer that contributes another text in every turn."""

    name: str = "volatile"
    slot: Section = Section.VOLATILE
    budget_tokens: int = 100

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        return f"{session_id} has {budget_tokens} in turn {turn}"


class Worker:
    """Applies the steps to one session after another."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = with_clock(client, lambda: self._now)
        self._folder = folder
        self._now = 0.0
        self._number = 0

    async def work(self, done: list[tuple[str, int]]) -> str:
        """Return the name of the last session changed. It has at least one turn."""
        session = await self._client.start("s1", system_prompt="Be careful.\n\n")
        for kind, number in done:
            with contextlib.suppress(NotFound, Incorrect):  # a step may name an unknown object
                session = await self._step(session, kind, number)
        await self._turn(session, "plain", 1)
        return session.session_id

    async def _step(self, session: LiveSession, kind: str, number: int) -> LiveSession:
        file = self._folder / FILES[number % len(FILES)]
        session_index = list(session.sets.session_index)
        self._number += 1
        match kind:
            case "plain" | "economy" | "silent" | "contributed":
                await self._turn(session, kind, number)
            case "write":
                text = f"x = {self._number}\n" * (number + 1)
                file.write_text(text, encoding="utf-8")
                await session.read(str(file))
            case "read":
                await session.read(str(file))
            case "delete":
                file.unlink(missing_ok=True)
                args = {"path": str(file)}
                await session.record(f"d-{self._number}", tool="read", args=args, output="gone")
            case "activate" | "deactivate" | "pin" if session_index:
                await getattr(session, kind)(session_index[number % len(session_index)])
            case "system":
                await session.change_system_prompt(f"Be careful, {number} times.\n")
            case "later":
                self._now += IDLE_SECONDS
            case "resume":
                await self._client.pause(session.session_id)
                return await self._client.resume(session.session_id)
            case "fork" if session.turn > 1:
                turn, name = 1 + number % (session.turn - 1), f"s1-{self._number}"
                return await self._client.fork(session.session_id, turn=turn, new_session_id=name)
        return session

    async def _turn(self, session: LiveSession, kind: str, number: int) -> None:
        self._number += 1
        name = f"{session.session_id}-{self._number}"
        policy = "economy" if kind == "economy" else None
        asked = "" if kind == "silent" else f"go on, é {number % 3}"
        await session.render(asked, policy=policy, contribute=kind == "contributed")
        args = {"command": f"make {number}"}
        calls = [f"{name}-{at}" for at in range(number % 4)]
        for call in calls:
            output = long_output(call, lines=1 + 20 * (number % 5))
            await session.record(call, tool="bash", args=args, output=output, discover=False)
        parts = [
            toolcall_part(call_id, call_id=call_id, tool="bash", args=args) for call_id in calls[1:]
        ]
        if number == 7:
            parts.append(contextcall_part("p1", tool="pin", args={}, status="ok", output="pinned"))
        usage = {"input_tokens": 100 * number, "output_tokens": 5} if number else None
        meta = AssistantMeta(model="gpt-4o" if number % 2 else None, usage=usage)
        await session.end_turn([text_part("so"), *parts] if number else [], meta=meta)
