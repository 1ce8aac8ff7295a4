"""What a person can say about a session: its title, that it is paused; and watching it work."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import ctxmgr as library
from tests.surfaces.worked_sessions import Worked, json_of

Run = Callable[..., Result]

WAIT_S = 60

COMMAND = str(Path(sys.executable).with_name("ctxmgr"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


async def work(url: str, *turns: str, pause: bool = True) -> None:
    async with library.connect(url, tracking=False) as client:
        session = await client.open("s1", system_prompt="")
        for said in turns:
            await session.render(said)
            await session.end_turn("Yes.")
        if pause:
            await client.pause("s1")


def test_a_session_has_a_title(ctxmgr: Run, worked: Worked) -> None:
    """On either store. The id stays, since records refer to it."""
    options = ("--store", worked.url, "--json")

    def line() -> dict[str, Any]:
        found = json_of(ctxmgr("sessions", "--limit", "1000", *options))["sessions"]
        return next(line for line in found if line["session_id"] == worked.sid)

    before = line()
    named = json_of(ctxmgr("sessions", "rename", worked.sid, "ports", *options))

    assert before["title"] is None
    assert named == {"session_id": worked.sid, "title": "ports"}
    assert line() == {**before, "title": "ports"}
    assert json_of(ctxmgr("show", worked.sid, *options))["title"] == "ports"
    assert "ports" in ctxmgr("sessions", "--store", worked.url, "--limit", "1000").stdout
    ctxmgr("sessions", "rename", worked.sid, "", *options)
    assert line() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nobody", "x"), 3, "no session nobody"),
        (("s1", "two\nlines"), 2, "one line of printable characters"),
        (("s1", "long " * 50), 2, "1 to 200 bytes"),
    ],
)
def test_a_bad_title_is_refused(
    ctxmgr: Run, url: str, arguments: tuple[str, str], code: int, message: str
) -> None:
    """It would break the list that shows it."""
    asyncio.run(work(url, "Hello."))

    refused = ctxmgr("sessions", "rename", *arguments, "--store", url)

    assert refused.exit_code == code
    assert message in refused.stderr


def test_a_turn_has_a_comment(ctxmgr: Run, worked: Worked) -> None:
    """On either store. No prompt changes by it: each still proves itself."""
    options = ("--store", worked.url, "--json")

    def comments() -> list[str | None]:
        timeline = json_of(ctxmgr("timeline", worked.sid, *options))
        return [entry["comment"] for entry in timeline["entries"]]

    before = comments()
    made = json_of(ctxmgr("comment", worked.sid, "2", "The wrong file.", *options))

    assert set(before) == {None}
    assert made == {"session_id": worked.sid, "turn": 2, "comment": "The wrong file."}
    assert comments() == [None, "The wrong file.", *before[2:]]
    assert "turn 2: The wrong file." in ctxmgr("timeline", worked.sid, *options[:2]).stdout
    assert "verified" in ctxmgr("turn", worked.sid, "2", *options[:2]).stdout
    ctxmgr("comment", worked.sid, "2", " ", *options)
    assert comments() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("0", "x"), 3, "session s1 has no turn 0: its last is 1"),
        (("2", "x"), 3, "session s1 has no turn 2: its last is 1"),
        (("1", "x" * 4_001), 2, "comment must be a string of 1 to 4000 bytes"),
    ],
)
def test_a_comment_is_short_and_on_a_turn_that_there_is(
    ctxmgr: Run, url: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    """Nobody would find it elsewhere."""
    asyncio.run(work(url, "Hello."))

    refused = ctxmgr("comment", "s1", *arguments, "--store", url)

    assert refused.exit_code == code
    assert message in refused.stderr


def test_the_comments_of_a_purged_session_are_removed(
    ctxmgr: Run, url: str, tmp_path: Path
) -> None:
    """Design D9: also one that was taken back."""
    asyncio.run(work(url, "Hello."))
    ctxmgr("comment", "s1", "1", "sensitive-remark", "--store", url)
    ctxmgr("comment", "s1", "1", "", "--store", url)
    before = (tmp_path / "s.db").read_bytes()
    ctxmgr("sessions", "delete", "s1", "--store", url)
    ctxmgr("purge", "s1", "--store", url)

    assert b"sensitive-remark" in before
    assert b"sensitive-remark" not in (tmp_path / "s.db").read_bytes()


def test_the_title_of_a_purged_session_is_removed(ctxmgr: Run, url: str, tmp_path: Path) -> None:
    """Design D9: a title may hold what the session was about."""
    asyncio.run(work(url, "Hello."))
    ctxmgr("sessions", "rename", "s1", "sensitive-title", "--store", url)
    ctxmgr("sessions", "delete", "s1", "--store", url)
    ctxmgr("purge", "s1", "--store", url)

    assert b"sensitive-title" not in (tmp_path / "s.db").read_bytes()


def test_a_session_whose_client_crashed_can_be_paused(ctxmgr: Run, url: str) -> None:
    """It would stay active for ever in lists."""
    asyncio.run(work(url, "Hello.", pause=False))
    options = ("--store", url, "--json")
    state = json_of(ctxmgr("show", "s1", *options))["state"]

    paused = json_of(ctxmgr("sessions", "pause", "s1", *options))

    assert state == "active"
    assert paused == {"sessions": ["s1"]}
    assert json_of(ctxmgr("show", "s1", *options))["state"] == "paused"
    assert ctxmgr("sessions", "pause", *options).exit_code == 2
    assert ctxmgr("sessions", "pause", "nobody", *options).exit_code == 3


async def test_a_session_that_is_open_is_not_paused(url: str) -> None:
    """Its client would not notice, and two would work on it."""
    command = [COMMAND, "sessions", "pause", "s1", "--store", url]
    async with library.connect(url, tracking=False) as client:
        await client.start("s1", system_prompt="")

        refused = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=WAIT_S
        )

    assert refused.returncode == 2
    assert "session s1 is open in process" in refused.stderr


def test_a_log_is_followed(url: str) -> None:
    """Each turn is shown once, as soon as it is stored, and as a line of JSON if asked for."""
    asyncio.run(work(url, "One.", "Two."))
    command = [COMMAND, "log", "s1", "--follow", "--json", "--store", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            first = json.loads(following.stdout.readline())
            asyncio.run(work(url, "Three.", "Four."))
            seen: list[str] = []
            while len(seen) < 2:
                part = json.loads(following.stdout.readline())
                seen += [entry["user"] for entry in part["entries"]]
        finally:
            following.terminate()

    assert [entry["user"] for entry in first["entries"]] == ["One.", "Two."]
    assert seen == ["Three.", "Four."]


def test_earlier_turns_are_not_followed(ctxmgr: Run, url: str) -> None:
    """The two options contradict each other."""
    asyncio.run(work(url, "One."))

    refused = ctxmgr("log", "s1", "--follow", "--before", "1", "--store", url)

    assert refused.exit_code == 2
    assert "leave out --before" in refused.stderr
