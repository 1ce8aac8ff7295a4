"""Listeners and contributors of a client: the events they receive, the text they add."""

import asyncio
from pathlib import Path

import pytest

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.context.assembly import Section
from ctxmgr.core.events.events import Event, EventId


class Diary:
    """A listener that records its events, and may fail or lose its position."""

    name = "diary"

    def __init__(self, *, fail_at: str | None = None) -> None:
        self.events: list[Event] = []
        self.fail_at = fail_at

    async def last_handled(self) -> EventId | None:
        return self.events[-1].id if self.events else None

    async def handle(self, event: Event) -> None:
        if event.name == self.fail_at:
            self.fail_at = None
            raise RuntimeError("no ink")
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


class Voice:
    """A contributor that always returns the same text."""

    budget_tokens = 10

    def __init__(self, slot: Section, text: str) -> None:
        self.name, self.slot, self.text = f"voice-{slot}", slot, text

    async def contribute(self, session_id: str, *, turn: int, budget_tokens: int) -> str:
        if self.text == "raise":
            raise RuntimeError("hoarse")
        return self.text


async def one_turn(client: Client, session_id: str) -> None:
    session = await client.start(session_id, system_prompt="Be careful.")
    await session.render("go")
    await session.record(f"{session_id}-1", tool="t", args={}, output="out")
    await session.end_turn("gone")
    await client.pause(session_id)


TOLD = [
    "system_prompt_changed",
    "session_started",
    "toolcall_created",
    "sets_changed",
    "sets_changed",
    "sets_changed",
    "turn_finished",
    "session_paused",
]


async def test_a_listener_receives_every_event_in_order(tmp_path: Path) -> None:
    """Every listener receives the events of one conversation once (003-R112, 003-R180)."""
    diary = Diary()
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", listeners=[diary]) as client:
        await one_turn(client, "s1")
        async with asyncio.timeout(60):
            await client.heard()

    assert diary.names == TOLD
    assert [event.id for event in diary.events] == sorted(event.id for event in diary.events)


async def test_a_listener_that_was_offline_receives_what_it_missed(tmp_path: Path) -> None:
    """A crash of a layer loses no event and repeats none that it kept (003-R112)."""
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url) as client:
        await one_turn(client, "s1")
    diary = Diary()
    async with ctxmgr.connect(url, listeners=[diary]) as client:
        await client.heard()
    del diary.events[4:]  # it crashed in the middle of a transaction and kept only these

    async with ctxmgr.connect(url, listeners=[diary]) as client:
        async with asyncio.timeout(60):
            await client.heard()

    assert diary.names == TOLD


async def test_a_failing_listener_does_not_fail_the_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged, and the same event is sent again (PG-07)."""
    diary = Diary(fail_at="turn_finished")
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", listeners=[diary]) as client:
        session = await client.start("s1", system_prompt="")
        await session.end_turn("one", user="")
        await client.heard()
        await session.end_turn("two", user="")
        await client.heard()

    assert diary.names.count("turn_finished") == 2
    assert "listener diary failed" in caplog.text


async def test_contributions_appear_in_their_slots_when_requested(tmp_path: Path) -> None:
    """Unless contributions are requested, the prompt has the plain four sections (003-A31)."""
    slots = (Section.VOLATILE, Section.EPOCH, Section.STABLE)
    voices = [Voice(slot, f"[{slot}]") for slot in slots]
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", contributors=voices) as client:
        session = await client.start("s1", system_prompt="Be careful.")
        plain = await session.render("go")
        asked = await session.render("go", contribute=True)
        await session.end_turn("gone")

        again = await client.prompt_as_of("s1", turn=1)

    assert plain == "Be careful.\n\nuser: go\n"
    assert asked == "Be careful.\n\n[stable]\n\n[epoch]\n\nuser: go\n\n[volatile]\n"
    assert again.text() == asked


@pytest.mark.parametrize(
    ("text", "logged"), [("raise", "contributes nothing"), ("word " * 11, "budget")]
)
async def test_a_failing_contributor_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, logged: str
) -> None:
    """A contributor that fails does not fail the turn, and the failure is logged (PG-07)."""
    voices = [Voice(Section.STABLE, text), Voice(Section.VOLATILE, "fine")]
    async with ctxmgr.connect(f"sqlite:///{tmp_path}/s.db", contributors=voices) as client:
        session = await client.start("s1", system_prompt="")

        prompt = await session.render("go", contribute=True)

    assert prompt == "user: go\n\nfine\n"
    assert logged in caplog.text
