"""The demo on either store: it shows what the client and the store return."""

import asyncio
import subprocess
import sys

import pytest

from ctxmgr import connect
from ctxmgr.harness.demo import demo as telling
from ctxmgr.harness.demo.demo import run_demo
from ctxmgr.harness.demo.lessons import LESSON
from ctxmgr.harness.demo.report import Chapter, Demo, DemoPart, TurnShown
from tests.components import need


@pytest.fixture(scope="module")
def finished_demo() -> Demo:
    """The demo on its own store, run once for several tests."""
    need("bubblewrap")
    return asyncio.run(run_demo())


def chapter(demo: Demo, title: str) -> Chapter:
    return next(candidate for candidate in demo.chapters if title in candidate.title)


async def test_the_agent_fixes_the_project(store_url: str) -> None:
    """The main use case end to end: loop, sandbox, tools, trackers, pause, resume, past prompts.

    Rows: 003-R001, 003-R007, 003-R145 to R149, 003-R159.
    """
    demo = await run_demo(store_url)

    assert demo.fixed
    assert demo.proven
    assert [turn.turn for turn in demo.turns] == list(range(1, 14))
    async with connect(store_url, tracking=False) as client:
        proven = [await client.prompt_as_of(demo.session, turn=turn) for turn in (1, 7, 13)]
    assert len({prompt.prompt_hash() for prompt in proven}) == 3


def test_prompts_are_compared_with_append_only_ones(finished_demo: Demo) -> None:
    """A reader sees at every turn what the policy saves, and at the end what that is worth."""
    first, *_, last = finished_demo.turns
    append_only = [turn.append_only_tokens for turn in finished_demo.turns]

    assert first.tokens == pytest.approx(first.append_only_tokens, abs=10)
    assert append_only == sorted(append_only)
    assert last.tokens < 0.8 * last.append_only_tokens
    assert finished_demo.tokens == sum(turn.tokens for turn in finished_demo.turns)
    assert finished_demo.append_only_tokens == sum(append_only)
    assert 0 < finished_demo.cost_ratio < 0.9


def test_a_new_session_knows_the_error_and_its_fix(finished_demo: Demo) -> None:
    """001-R014, PG-27: learnt from the first session by rules, and shown without being asked."""
    taught, shown = (str(fact["answer"]) for fact in chapter(finished_demo, "learnt").facts)

    assert "error fix: 1" in taught
    assert "WRONG monday.txt" in shown
    assert "lib/sum.sh" in shown


async def test_each_part_is_shown_when_it_happens() -> None:
    """A demo that is silent and then prints a report shows nothing of an agent at work."""
    need("bubblewrap")
    parts: list[DemoPart] = []

    demo = await run_demo(on_part=parts.append)

    kinds = [type(part).__name__ for part in parts]
    assert kinds[:3] == ["DemoStarted", "ChapterStarted", "TurnShown"]
    assert [part for part in parts if isinstance(part, TurnShown)] == list(demo.turns)
    assert kinds.count("ChapterStarted") == len(demo.chapters)


def test_what_is_pinned_stays_whole_and_what_was_folded_is_shown_again(
    finished_demo: Demo,
) -> None:
    """The agent asks by handle for what the policy shortened (003-R139, 003-R141)."""
    did = [action for turn in finished_demo.turns for action in turn.did]
    pinned = next(action.split()[1] for action in did if action.startswith("pin "))

    assert pinned.startswith("#")
    assert f"unpin {pinned}" in did
    assert any(action.startswith("activate #") for action in did)


def test_an_edit_from_outside_reaches_the_next_prompt(finished_demo: Demo) -> None:
    """Without being asked, the agent responds to the file's new content (003-R147, 003-R174)."""
    (fact,) = chapter(finished_demo, "edits").facts

    assert fact == {"file": "README.md", "stored versions": "3"}
    assert "README.md: once." in finished_demo.turns[4].says


def test_the_second_client_reconciles_what_it_reaches(finished_demo: Demo) -> None:
    """Changed, deleted and unreachable files are distinguished (003-R116 to R118, 003-R158)."""
    rows = [tuple(fact.values()) for fact in chapter(finished_demo, "resumed").facts]

    *known, (others, unchanged) = rows
    states = {called.rpartition("/")[2]: happened.partition(":")[0] for called, happened in known}
    assert states == {
        "tally.conf": "changed",
        "tuesday.txt": "deleted",
        "shop.md": "out of reach here",
    }
    assert others.endswith(" others")
    assert unchanged == "unchanged"
    assert "/elsewhere/tally/tally.conf" in [called for called, _ in rows]


def test_past_prompts_are_shown_unchanged(finished_demo: Demo) -> None:
    """The prompt of turn 3 is proven by its hash; true is not what was known (003-R005)."""
    past = {fact["asked"]: fact["answer"] for fact in chapter(finished_demo, "once more").facts}
    conf = [fact["answer"] for fact in chapter(finished_demo, "believed").facts]

    assert past["hash recorded with turn 3"] == past["hash of the rebuilt prompt"]
    assert past["what the model received, byte for byte"] == "yes"
    assert conf == [
        "CURRENCY=EUR · DISCOUNT=10",
        "CURRENCY=EUR · DISCOUNT=10 · SHOP=corner",
    ]


def test_a_topic_makes_the_agent_write_a_note(finished_demo: Demo) -> None:
    """002-R201, 002-R215: the topic was in the prompt, and the next session knows the lesson."""
    facts = [fact["answer"] for fact in chapter(finished_demo, "keeps").facts]

    assert facts[0] == "receipts"
    assert all(LESSON in answer for answer in facts[1:])


def test_what_was_said_is_recorded_while_it_is_streamed(finished_demo: Demo) -> None:
    """000-R002, 000-R175, 000-R176: by both clients, in one session."""
    asked = {fact["asked"]: fact["answer"] for fact in chapter(finished_demo, "experienced").facts}

    assert "2 inputs" in asked["How much was recorded while it was streamed?"]
    assert "of 13 answers" in asked["How much was recorded while it was streamed?"]
    assert asked["Where did the agent speak of a cent?"].startswith("at tick ")
    assert not asked["How full is its context, in words?"].startswith("0 ")


def test_without_the_extra_the_demo_leaves_that_out() -> None:
    """The base installation has neither DuckDB nor Arrow."""
    code = (
        "import asyncio, sys; from pathlib import Path; sys.modules['pyarrow'] = None\n"
        "from ctxmgr.harness.demo.demo import _experience\n"
        "async def opened():\n"
        "    async with _experience(Path('never-made')) as xdb: print(xdb)\n"
        "asyncio.run(opened())"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert run.stdout == "None\n"


async def test_without_bubblewrap_it_says_that_there_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it everything else still runs, and no isolation is claimed (003-R152)."""
    monkeypatch.setattr("ctxmgr.harness.demo.workplace.installed", frozenset)

    demo = await run_demo()

    assert demo.sandbox == "host: no sandbox"
    assert demo.fixed
    assert demo.proven
    assert "paths are the same" in chapter(demo, "resumed").says


async def test_a_tracker_that_detects_nothing_is_reported(
    monkeypatch: pytest.MonkeyPatch, sid: str
) -> None:
    """The demo must not hang (PG-07)."""
    monkeypatch.setattr(telling, "NOTICE_SECONDS", 0.0)

    async with connect("sqlite://:memory:") as client:
        session = await client.start(sid, system_prompt="")
        with pytest.raises(telling.Unavailable, match="no tracker noticed"):
            await telling._wait_for_text(client, session, "never written")
