"""Any call that a model sends is answered; an invalid one fails with a reason."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ctxmgr
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tool_definitions import DEFINITIONS
from ctxmgr.core.client.tools import ARGUMENT_CHARS_MAX, WORD_BYTES_MAX, Tools
from ctxmgr.core.discovery.known_tools import SHELLS, OutputKind, output_kind
from ctxmgr.sandboxes.host import Host

TEXTS = st.text(st.characters(), max_size=20) | st.sampled_from(["", "\0", "\ud800", "/", "-x"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([float("nan"), float("inf"), 10**400])
    | TEXTS
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
NAMES = st.sampled_from([tool.name for tool in DEFINITIONS]) | TEXTS | st.just("x" * 2000)
KEYS = st.sampled_from(["path", "command", "pattern", "content", "old", "new", "id", "offset"])
ARGUMENTS = st.dictionaries(KEYS, JSON, max_size=3) | JSON
NESTED: Any = []
for _ in range(300):
    NESTED = [NESTED]

_numbers = itertools.count()


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[LiveSession]:
    """A session under the economy policy, with commands on the host in an empty folder."""
    (tmp_path / "work").mkdir()
    host = await Host.start()
    try:
        url, directory = f"sqlite:///{tmp_path}/s.db", str(tmp_path / "work")
        async with ctxmgr.connect(url, sandbox=host, directory=directory, tracking=False) as client:
            yield await client.start("s1", system_prompt="")
    finally:
        await host.close()


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=NAMES, args=ARGUMENTS)
@example(name="bash", args={"command": None})
@example(name="bash", args={"command": "echo \ud800"})
@example(name="bash", args={"command": "a\0b"})
@example(name="bash", args={"command": 5, "raw": True})
@example(name="read", args=None)
@example(name="read", args=[1, 2])
@example(name="read", args={"path": NESTED})
@example(name="write", args={"path": "a", "content": "\udc80"})
@example(name="", args={})
async def test_any_call_is_answered(session: LiveSession, name: Any, args: Any) -> None:
    """The model gets the error; the session renders, ends its turn and continues (003-R104)."""
    if isinstance(args, dict) and isinstance(args.get("command"), str):
        args = {**args, "command": f": {args['command']}".replace("\n", " ")}  # runs nothing
    call = f"call-{next(_numbers)}"

    result = await Tools(session).dispatch(call, name=name, args=args)

    assert isinstance(result.ok, bool)
    assert result.message or result.ok
    await session.end_turn("Go on.", user="?")
    await session.render("?", policy="economy")


async def test_a_command_that_is_too_long_fails_only_its_call(session: LiveSession) -> None:
    """The kernel refuses it, which must not end the run."""
    result = await Tools(session).dispatch(
        "long", name="bash", args={"command": ":" * (WORD_BYTES_MAX + 1)}
    )
    fits = await Tools(session).dispatch(
        "fits", name="bash", args={"command": ": " + "x" * (WORD_BYTES_MAX - 2)}
    )

    assert not result.ok
    assert "write it to a file" in result.message
    assert fits.ok


async def test_arguments_that_cannot_be_stored_are_summarised(session: LiveSession) -> None:
    """The call itself is kept."""
    huge = {"path": "a", "content": "x" * (ARGUMENT_CHARS_MAX + 1)}

    result = await Tools(session).dispatch("huge", name="write", args=huge)

    assert not result.ok
    assert "at most 8,000,000" in result.message
    assert result.toolcall is not None
    assert result.toolcall.tool == "invalid"
    assert "'write'" in result.toolcall.args["raw"]


async def test_a_repeated_call_id_is_not_run_again(session: LiveSession, tmp_path: Path) -> None:
    """The second call could not be stored, so it must not change anything either."""
    tools = Tools(session)
    await tools.dispatch("call_0", name="bash", args={"command": "true"})

    again = await tools.dispatch("call_0", name="bash", args={"command": "touch ran"})

    assert not again.ok
    assert "call_0" in again.message
    assert not (tmp_path / "work" / "ran").exists()


RESERVED_IDS = (
    *(
        "turn:s1:1",
        "lifecycle:s1",
        "chat:s3",
        "session:s1",
        "system_prompt:s1",
        "fork:s1",
        "run:s1",
    ),
    "0123456789abcdef" * 4,
)


@pytest.mark.parametrize("object_id", RESERVED_IDS)
async def test_a_reserved_id_is_not_run(
    session: LiveSession, tmp_path: Path, object_id: str
) -> None:
    """003-R006, 003-R029: a call with such an id would take the place of a session's document."""
    result = await Tools(session).dispatch(object_id, name="bash", args={"command": "touch ran"})

    assert not result.ok
    assert "reserved" in result.message
    assert not (tmp_path / "work" / "ran").exists()


@pytest.mark.parametrize("object_id", RESERVED_IDS)
async def test_a_reserved_id_is_not_recorded(session: LiveSession, object_id: str) -> None:
    """003-R029, 003-R071: the session goes on as if the call had never been made."""
    with pytest.raises(ctxmgr.Incorrect, match="reserved for objects of type"):
        await session.record(object_id, tool="bash", args={}, output="precious")

    assert await session.end_turn("done", user="go") == 1
    assert object_id not in session.sets.session_index


@given(tool=st.sampled_from(sorted(SHELLS)), args=st.dictionaries(KEYS, JSON, max_size=3))
@example(tool="bash", args={"command": None})
def test_every_call_has_an_output_kind(tool: str, args: dict[str, Any]) -> None:
    """A stored call, or a recorded one, never makes a session unusable."""
    assert output_kind(tool, args) in OutputKind


async def test_recording_a_call_again_changes_nothing(session: LiveSession) -> None:
    """A retry by the harness must not reactivate what the agent deactivated (003-A05, 003-A20)."""
    again = {"tool": "x", "args": {"a": 1}, "output": "z", "args_display": "a is 1"}
    first = await session.record("z1", **again)
    await session.deactivate("z1")

    assert await session.record("z1", **again) == first
    assert "z1" not in session.sets.active_set
    for change in ({"output": "y"}, {"args": {}}, {"args_display": None}, {"status": "fail"}):
        with pytest.raises(ctxmgr.Incorrect, match="another call has the id z1"):
            await session.record("z1", **{**again, **change})
