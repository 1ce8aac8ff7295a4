"""``unfold``, ``calls``, ``usage`` and ``compare``, and what a turn says of its blocks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import ctxmgr as library
from tests.surfaces.folded_sessions import Folded, work_folded
from tests.surfaces.worked_sessions import json_of

Run = Callable[..., Result]


@pytest.fixture
def folded(home: Path) -> Folded:
    return asyncio.run(work_folded(f"sqlite:///{home}/sessions.db", home / "project"))


@pytest.fixture
def result(ctxmgr: Run, folded: Folded) -> Callable[..., Any]:
    """Run a command on the store, and return its JSON."""
    return lambda *words: json_of(ctxmgr(*words, "--store", folded.url, "--json"))


def test_hidden_and_shown_lines_make_the_whole_text(
    result: Callable[..., Any], folded: Folded
) -> None:
    """What the model saw is in the prompt, what it did not see is not, and nothing is missing."""
    turn = result("turn", folded.sid, "12")
    number = next(
        at
        for at, block in enumerate(turn["blocks"], start=1)
        if block["argument"] == "make all 2>&1"
    )
    block = turn["blocks"][number - 1]

    unfolded = result("unfold", folded.sid, str(number), "--turn", "12")

    assert (block["shows"], unfolded["kind"], unfolded["shown"]) == (
        "folded",
        "folded",
        block["text"],
    )
    (text,) = unfolded["texts"]
    assert "".join(part["text"] for part in text["parts"]) == folded.log
    assert {part["state"] for part in text["parts"]} == {"shown", "hidden"}
    for part in text["parts"]:
        assert (part["text"] in unfolded["shown"]) == (part["state"] == "shown")
        first = folded.log.splitlines()[part["first_line"] - 1]
        assert part["text"].startswith(first)
    hidden = [part["lines"] for part in text["parts"] if part["state"] == "hidden"]
    assert text["hidden_lines"] == sum(hidden) < text["lines"] == len(folded.log.splitlines())
    assert 0 < block["hidden_tokens"] < text["tokens"]


def test_lines_that_are_shown_elsewhere_are_told_apart(
    result: Callable[..., Any], folded: Folded
) -> None:
    """They are not lost to the model: the prompt refers to where they are."""
    turn = result("turn", folded.sid, "5")
    number = len(turn["blocks"])
    assert turn["blocks"][number - 1]["argument"] == "make check-4"

    unfolded = result("unfold", folded.sid, str(number), "--turn", "5")

    (text,) = unfolded["texts"]
    elsewhere = [part for part in text["parts"] if part["state"] == "elsewhere"]
    assert "".join(part["text"] for part in text["parts"]) == folded.log
    assert all(part["as_in"] for part in elsewhere)


def test_a_block_that_hides_nothing_says_so(result: Callable[..., Any], folded: Folded) -> None:
    """The system prompt is all there is."""
    assert result("unfold", folded.sid, "1")["texts"] == []


def test_a_missing_block_is_reported(ctxmgr: Run, folded: Folded) -> None:
    """A mistyped number names the range."""
    failed = ctxmgr("unfold", folded.sid, "999", "--store", folded.url)

    assert failed.exit_code != 0
    assert "no block 999" in failed.stderr


def test_calls_are_listed_and_failed_ones_found(result: Callable[..., Any], folded: Folded) -> None:
    """Pages end between turns, and together hold every call once."""
    everything = result("calls", folded.sid)["calls"]
    failed = result("calls", folded.sid, "--failed")["calls"]
    paged: list[Any] = []
    before: list[str] = []
    while True:
        page = result("calls", folded.sid, "--limit", "2", *before)
        paged = [*page["calls"], *paged]
        if page["earlier"] is None:
            break
        before = ["--before", str(page["earlier"])]

    assert len(everything) == 13
    assert paged == everything
    assert [(call["turn"], call["tool"], call["argument"]) for call in failed] == [
        (2, "bash", "pytest -q")
    ]


def test_usage_is_what_the_provider_reported(result: Callable[..., Any], folded: Folded) -> None:
    """And the model, the policy and the number of calls."""
    usage = result("usage", folded.sid)

    assert (usage["models"], usage["policy"]) == (["claude-sonnet-4-5"], "economy")
    assert (usage["turns"], usage["tool_calls"], usage["reported"]) == (12, 13, True)
    assert usage["prompt_tokens"] == sum(900 * n + 520 for n in range(1, 13))
    assert usage["cached_tokens"] == sum(900 * n for n in range(1, 13))


def test_the_turns_of_a_timeline_say_what_they_show(
    result: Callable[..., Any], folded: Folded
) -> None:
    """Tokens by kind add up to those of the prompt; failed calls are counted."""
    timeline = result("timeline", folded.sid)

    assert {"system", "user", "assistant", "file", "output", "folded"} <= set(timeline["kinds"])
    for entry in timeline["entries"]:
        assert sum(entry["shown"]) == entry["prompt_tokens"]
    assert [entry["failed"] for entry in timeline["entries"]] == [0, 1] + 10 * [0]


def test_a_fork_is_compared_with_its_parent(result: Callable[..., Any], folded: Folded) -> None:
    """Where they part, what each used, and how their prompts differ."""
    asyncio.run(_fork(folded))

    compared = result("compare", folded.sid, "other")
    listed = {line["session_id"]: line for line in result("sessions")["sessions"]}

    assert compared["shared_turns"] == 6
    assert (compared["one"]["turns"], compared["other"]["turns"]) == (12, 7)
    assert "Another way." in compared["prompts"]["diff"]
    assert (listed["other"]["parent"], listed["other"]["parent_turn"]) == (folded.sid, 6)
    assert listed[folded.sid]["parent"] is None


async def _fork(folded: Folded) -> None:
    async with library.connect(folded.url, tracking=False) as client:
        fork = await client.fork(folded.sid, turn=6, new_session_id="other")
        await fork.render("Another way.", policy="economy")
        await fork.end_turn("Well.")
