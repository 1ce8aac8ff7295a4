"""Whatever a client does, what was sent stays, and every request is legal."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.app import open_store
from ctxmgr.proxy.modes import Shaping
from ctxmgr.proxy.shaping_engine import ShapingEngine
from tests.proxy.claude_client import (
    ClaudeClient,
    call,
    check_legal,
    long_text,
    result,
    sent_messages,
    unmarked,
)

THINKING = {"type": "thinking", "thinking": "Hm …", "signature": "EqQB=="}

CALLS = st.lists(
    st.tuples(
        st.sampled_from(["Read", "Bash", "Edit", "Unknown"]),
        st.sampled_from([1, 30, 120]),
        st.sampled_from(["", "same", "\n\n<system-reminder>\nx\n</system-reminder>"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=2,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), CALLS),
        st.tuples(st.just("say"), st.sampled_from(["Go on.", "é"])),
        st.tuples(st.just("rewind"), st.integers(1, 3)),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("pause"), st.none()),
    ),
    min_size=3,
    max_size=10,
)


def act(client: ClaudeClient, kind: str, what: Any, number: int) -> None:
    """Let the client do one thing."""
    if kind == "say":
        client.answer(text=f"answer {number}")
        client.say(what)
    elif kind == "rewind":
        users = [
            index for index, message in enumerate(client.messages) if message["role"] == "user"
        ]
        keep = users[max(0, len(users) - 1 - what)] + 1
        client.messages[keep:] = []
        client.answer(text=f"answer {number}")
        client.say(f"instead {number}")
    elif kind == "call":
        uses, results = [], []
        for index, (tool, lines, more, failed) in enumerate(what):
            name = "same" if more == "same" else f"text_{number}_{index}"
            tail = more if more.startswith("\n") else ""
            args = {"file_path": f"/{name}.py", "new_string": long_text(f"new_{number}", lines)}
            uses.append(call(f"t{number}_{index}", tool, **args))
            output = long_text(name, lines) + tail
            extra = {"is_error": True} if failed else {}
            results.append(result(f"t{number}_{index}", output, **extra))
        client.answer(THINKING, *uses)
        client.messages.append({"role": "user", "content": results[::-1]})


async def replay(
    steps: Sequence[tuple[str, Any]], shaping: Shaping, *, restarts: bool
) -> list[Any]:
    """Return the bodies of all requests; check each, and what it repeats of the one before."""
    now = [1_000.0]
    store = await open_store("sqlite://:memory:")

    def new_engine() -> ShapingEngine:
        return ShapingEngine(store, shaping=shaping, deadline_s=600.0, now=lambda: now[0])

    engine, client, bodies = new_engine(), ClaudeClient(), list[Any]()
    client.say("Build it.")
    before: list[Any] = []
    for number, (kind, what) in enumerate([("start", None), *steps]):
        act(client, kind, what, number)
        if kind == "restart" and restarts:
            engine = new_engine()
        now[0] += 400.0 if kind == "pause" else 1.0
        request = client.request()
        outgoing = await engine.prepare(request)
        check_legal(request, outgoing)
        assert outgoing.conversation is not None
        messages = sent_messages(outgoing)
        if outgoing.break_cause is None:
            assert messages[: len(before)] == before
        if kind == "rewind":
            same = min(len(before), len(client.messages) - 2)
            if "expired" not in str(outgoing.break_cause):
                assert messages[:same] == before[:same]
        thinking = json.dumps(THINKING).encode()
        assert outgoing.body.count(thinking) == request.body.count(thinking)
        before = messages
        # Where the free mark goes may differ after a restart: it is no part of what is cached.
        bodies.append(unmarked(json.loads(outgoing.body)))
    await store.close()
    return bodies


@settings(max_examples=6, deadline=None)
@given(STEPS, st.sampled_from(list(Shaping)))
def test_what_was_sent_stays_and_a_restart_changes_nothing(
    steps: list[tuple[str, Any]], shaping: Shaping
) -> None:
    """Rules 1, 5, 9, 13, 16: prefixes, pairs, thinking; with restarts the requests are the same."""
    with_restarts = asyncio.run(replay(steps, shaping, restarts=True))

    assert with_restarts == asyncio.run(replay(steps, shaping, restarts=False))


def test_folds_after_a_restart_are_those_without_it() -> None:
    """Rules 9, 12: what is folded later depends on everything that was decided before."""
    names = ["", "same"] * 3
    steps: list[tuple[str, Any]] = []
    for name in names:
        steps += [("call", [("Read", 120, name, False)]), ("call", [("Bash", 120, "", False)])]
    for _ in range(9):
        steps += [("restart", None), ("say", "Go on.")]
    steps += [("pause", None), ("call", [("Bash", 120, "same", False)]), ("restart", None)]

    with_restarts = asyncio.run(replay(steps, Shaping.FOLDS, restarts=True))

    assert with_restarts == asyncio.run(replay(steps, Shaping.FOLDS, restarts=False))
