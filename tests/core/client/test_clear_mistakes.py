"""Mistakes of the program that uses the library: each says what is wrong, and nothing is lost."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr import Client, Incorrect, NotFound


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, directory=str(tmp_path), tracking=False) as client:
        yield client


async def test_a_turn_without_a_prompt_is_refused(client: Client) -> None:
    """Its record would say that a prompt was sent which nobody has rendered."""
    session = await client.start("s1", system_prompt="")

    with pytest.raises(Incorrect, match=r"no prompt was rendered for turn 1 of session s1"):
        await session.end_turn("Done.")

    assert session.turn == 1
    assert await session.end_turn("Done.", user="") == 1  # the harness has made the prompt itself


async def test_an_export_replaces_a_file_only_if_asked(client: Client, tmp_path: Path) -> None:
    """A bundle may be the only copy of a session."""
    await client.start("s1", system_prompt="")
    path = tmp_path / "s1.bundle"
    root = await client.export_session("s1", path=str(path))
    before = path.read_bytes()
    await client.start("s2", system_prompt="")

    with pytest.raises(Incorrect, match=r"s1.bundle already exists: choose another file"):
        await client.export_session("s2", path=path)

    assert path.read_bytes() == before
    assert await client.export_session("s1", path=path, replace=True) == root


async def test_a_missing_bundle_is_not_found(client: Client, tmp_path: Path) -> None:
    """The caller catches ctxmgr's errors, and a path is given as a string."""
    with pytest.raises(NotFound, match=r"none.bundle: No such file"):
        await client.import_session(str(tmp_path / "none.bundle"))


async def test_arguments_that_are_no_map_are_named(client: Client) -> None:
    """``args="ls"`` used to end in an AttributeError."""
    session = await client.start("s1", system_prompt="")

    with pytest.raises(Incorrect, match=r"args must be a map, not 'ls'"):
        await session.record("c1", tool="bash", args="ls", output="")  # type: ignore[arg-type]


@pytest.mark.parametrize("mounts", [["/w:/tmp"], [{"agentPrefix": "/w"}], [{"agent": "/w"}]])
async def test_a_wrong_mount_is_shown_a_right_one(mounts: Any) -> None:
    """Docker writes mounts in another way, and the message of a library helps nobody."""
    with pytest.raises(
        Incorrect, match=r'mount .*\{"agentPrefix": "/workspace", "canonicalPrefix'
    ) as raised:
        async with ctxmgr.connect("sqlite://:memory:", mounts=mounts):
            pass

    assert ": :" not in str(raised.value)
    assert raised.value.__suppress_context__


async def test_instants_are_milliseconds_or_datetimes(client: Client, tmp_path: Path) -> None:
    """003-R008: a program has a datetime at hand, and must not be answered about 1970."""
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session = await client.start("s1", system_prompt="")
    file = await session.read("a.txt")
    now = datetime.now(UTC) + timedelta(seconds=5)
    milliseconds = int(now.timestamp() * 1000)

    for instant in (now, milliseconds):
        assert await client.true_at(file.object_id, instant=instant) == file
        assert await client.believed_at(file.object_id, instant=instant) == file
        state = await client.state_as_of("s1", valid_time=instant, system_time=instant)
        assert file.object_id in state.objects


@pytest.mark.parametrize(
    ("instant", "says"),
    [
        (1_763_000_000, r"1763000000 looks like seconds"),
        (0, r"looks like seconds"),
        (1_763_000_000.5, r"must be a datetime or UTC milliseconds"),
        ("2026-11-17T15:35:40Z", r"must be a datetime or UTC milliseconds"),
        (datetime(2026, 11, 17), r"has no time zone"),  # noqa: DTZ001 (the mistake)
        (True, r"must be a datetime or UTC milliseconds"),
    ],
    ids=str,
)
async def test_a_wrong_instant_is_refused(client: Client, instant: Any, says: str) -> None:
    """Seconds used to be taken for a moment in 1970, where nothing was known."""
    await client.start("s1", system_prompt="")

    questions: list[Callable[[], Awaitable[object]]] = [
        lambda: client.believed_at("session:s1", instant=instant),
        lambda: client.true_at("session:s1", instant=instant),
        lambda: client.state_as_of("s1", valid_time=instant),
        lambda: client.state_as_of("s1", system_time=instant),
    ]
    for question in questions:
        with pytest.raises(Incorrect, match=says):
            await question()
