"""The demo on either store: it shows what the client and the store return."""

import asyncio

import pytest

from ctxmgr import Window, connect
from ctxmgr.harness.demo import demo as telling
from ctxmgr.harness.demo.demo import run_demo
from ctxmgr.harness.demo.report import Chapter, Demo
from tests.components import need


@pytest.fixture(scope="module")
def finished_demo() -> Demo:
    """The demo on its own store, run once for several tests."""
    need("bubblewrap")
    return asyncio.run(run_demo(say=lambda _: None))


def chapter(demo: Demo, title: str) -> Chapter:
    return next(candidate for candidate in demo.chapters if title in candidate.title)


async def test_the_agent_fixes_the_project(store_url: str) -> None:
    """The main use case end to end: loop, sandbox, tools, trackers, pause, resume, past prompts.

    Rows: 003-R001, 003-R007, 003-R145 to R149, 003-R159.
    """
    demo = await run_demo(store_url, say=lambda _: None)

    assert demo.mended
    assert demo.proven
    assert [turn.turn for turn in demo.turns] == list(range(1, 14))
    assert demo.turns[-1].objects["active"] < demo.turns[-1].objects["metadata"]
    async with connect(store_url, tracking=False) as client:
        sets = await client.stored_sets(demo.session)
    levels = demo.turns[-1].objects
    assert len(sets.active_set) == levels["active"]
    assert len(sets.metadata_pool) == levels["active"] + levels["metadata"]


def test_tokens_are_shown_by_section(finished_demo: Demo) -> None:
    """A reader sees what a prompt is made of, and that active content stays bounded (PG-04)."""
    sections = ["system_prompt", "metadata_pool", "chat", "active_content"]
    late = [turn.tokens for turn in finished_demo.turns[1:]]

    assert all(list(tokens) == sections for tokens in late)
    chats = [tokens["chat"] for tokens in late]
    assert chats == sorted(chats)
    assert max(tokens["active_content"] for tokens in late) < 2 * late[1]["active_content"]


def test_old_outputs_are_folded_and_pinned_ones_are_not(finished_demo: Demo) -> None:
    """Without collapse the prompt would only grow; a pin is an exception (003-R139, 003-R141)."""
    looking, edited = finished_demo.turns[:4], finished_demo.turns[4:8]

    assert Window().turns_back == 3
    assert [turn.folded for turn in looking] == [0, 0, 0, 2]
    assert all(turn.objects["pinned"] == 1 for turn in edited)
    assert "pin the bash call" in edited[0].did


def test_an_edit_from_outside_reaches_the_next_prompt(finished_demo: Demo) -> None:
    """Without being asked, the agent responds to the file's new content (003-R147, 003-R174)."""
    (fact,) = chapter(finished_demo, "edits").facts

    assert fact == {"file": "README.md", "versions": "3", "sets": "as they were"}
    assert "README.md: once." in finished_demo.turns[4].says


def test_the_second_client_reconciles_what_it_reaches(finished_demo: Demo) -> None:
    """Changed, deleted and unreachable files are distinguished (003-R116 to R118, 003-R158)."""
    rows = [tuple(fact.values()) for fact in chapter(finished_demo, "resumed").facts]

    states = {called.rpartition("/")[2]: happened.partition(":")[0] for called, happened in rows}
    assert states == {
        "tally.conf": "changed",
        "tuesday.txt": "deleted",
        "shop.md": "out of reach here",
        "11 others": "as they were",
    }
    assert rows[0][0] == "/elsewhere/tally/tally.conf"


def test_past_prompts_are_shown_unchanged(finished_demo: Demo) -> None:
    """The prompt of turn 3 has its old paths; what was true is not what was known (003-R005)."""
    past = {fact["asked"]: fact["answer"] for fact in chapter(finished_demo, "once more").facts}
    conf = [fact["answer"] for fact in chapter(finished_demo, "believed").facts]

    assert past["hash recorded with turn 3"] == past["hash of the prompt made again"]
    assert past["README.md was called"] == "/workspace/tally/README.md"
    assert past["and is called here"] == "/elsewhere/tally/README.md"
    assert conf == [
        "CURRENCY=EUR · DISCOUNT=10",
        "CURRENCY=EUR · DISCOUNT=10 · SHOP=corner",
    ]


async def test_without_bubblewrap_it_says_that_there_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it everything else still runs, and no isolation is claimed (003-R152)."""
    monkeypatch.setattr("ctxmgr.harness.demo.workplace.installed", frozenset)

    demo = await run_demo(say=lambda _: None)

    assert demo.sandbox == "host: no sandbox"
    assert demo.mended
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
