"""The commands that take prompts apart: on both stores they say the same."""

import asyncio
from collections.abc import Callable

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr.core.infrastructure import AssistantMeta
from tests.surfaces.worked_sessions import Worked, json_of, mounts

Run = Callable[..., Result]

SECTIONS = ["system_prompt", "metadata_pool", "chat", "active_content"]


def test_the_timeline_tells_every_prompt_by_its_sections(ctxmgr: Run, worked: Worked) -> None:
    """Which part of a prompt grows is seen before anybody reads one."""
    told = json_of(ctxmgr("timeline", worked.sid, "--store", worked.url, "--json"))

    assert (told["session_id"], told["turns"], told["sections"]) == (worked.sid, 3, SECTIONS)
    assert [each["turn"] for each in told["entries"]] == [1, 2, 3]
    for entry in told["entries"]:
        assert sum(entry["tokens"]) == entry["prompt_tokens"]
        assert entry["valid_time"] > 0
    assert told["entries"][0]["tokens"][1] == 0
    assert [each["calls"] for each in told["entries"]] == [1, 1, 0]
    assert told["entries"][1]["user"] == "Are you sure?"
    assert told["prompt_tokens"] == sum(each["prompt_tokens"] for each in told["entries"])


def test_the_timeline_says_what_cache_says(ctxmgr: Run, worked: Worked) -> None:
    """One question has one answer, whichever command is asked."""
    told = json_of(ctxmgr("timeline", worked.sid, "--store", worked.url, "--json"))
    cache = json_of(ctxmgr("cache", worked.sid, "--store", worked.url, "--json"))

    names = ("prompt_tokens", "cached_tokens", "change", "section", "object_id", "rewritten_tokens")
    for entry, call in zip(told["entries"], cache["calls"], strict=True):
        assert [entry[name] for name in names] == [call[name] for name in names]
    assert (told["breaks"], told["cached_tokens"]) == (cache["breaks"], cache["cached_tokens"])
    assert told["entries"][1]["change"] == "new"
    assert told["entries"][1]["object_id"] == worked.notes


def test_a_page_of_the_timeline_goes_on_from_the_turn_before(ctxmgr: Run, worked: Worked) -> None:
    """The first of a page is compared with the last of the page before it."""
    whole = json_of(ctxmgr("timeline", worked.sid, "--store", worked.url, "--json"))
    options = ("--store", worked.url, "--json")

    last = json_of(ctxmgr("timeline", worked.sid, "--limit", "1", *options))
    before = ("--before", str(last["earlier"]))
    first = json_of(ctxmgr("timeline", worked.sid, *before, *options))

    assert [*first["entries"], *last["entries"]] == whole["entries"]
    assert (first["earlier"], whole["earlier"]) == (None, None)


def test_before_the_first_turn_there_is_nothing(ctxmgr: Run, worked: Worked) -> None:
    """An empty page is an answer; a turn that cannot be is a slip."""
    options = ("--store", worked.url, "--json")

    nothing = json_of(ctxmgr("timeline", worked.sid, "--before", "1", *options))

    assert (nothing["entries"], nothing["sections"], nothing["earlier"]) == ([], [], None)
    assert ctxmgr("timeline", worked.sid, "--before", "0", *options).exit_code == 2
    assert ctxmgr("timeline", worked.sid, "--limit", "10001", *options).exit_code == 2


async def _go_on(worked: Worked) -> None:
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        fork = await client.fork(worked.sid, turn=2, new_session_id=f"{worked.sid}-fork")
        await fork.render("Another way?", policy="economy")
        usage = {"input_tokens": 7, "cache_read_input_tokens": 90, "output_tokens": 3}
        meta = AssistantMeta(model="claude-opus-4-5", usage=usage)
        await fork.end_turn("Let me try.", meta=meta)


def test_the_timeline_of_a_fork_begins_with_its_parents(ctxmgr: Run, worked: Worked) -> None:
    """Its past is the parent's; a policy, a model and its usage are told where there are any."""
    asyncio.run(_go_on(worked))

    told = json_of(ctxmgr("timeline", f"{worked.sid}-fork", "--store", worked.url, "--json"))

    assert [each["policy"] for each in told["entries"]] == [None, None, "economy"]
    last = told["entries"][-1]
    assert (last["model"], last["answer"]) == ("claude-opus-4-5", "Let me try.")
    assert last["reported"] == {"input": 7, "cached": 90, "written": 0, "output": 3}
    assert told["entries"][0]["reported"] is None


@pytest.mark.parametrize("colour", ["0", "1"])
def test_people_see_a_bar_for_every_prompt(
    ctxmgr: Run, worked: Worked, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """Every section has a sign besides its colour, and a break its reason."""
    monkeypatch.setenv("NO_COLOR" if colour == "0" else "FORCE_COLOR", "1")

    told = ctxmgr("timeline", worked.sid, "--store", worked.url).stdout

    assert "▒ metadata pool" in told or "▒\x1b[0m metadata pool" in told
    assert "░░" in told
    assert worked.notes[:12] in told
    assert "2 breaks" in told
