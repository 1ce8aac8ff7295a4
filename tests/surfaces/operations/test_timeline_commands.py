"""The commands about prompts and their blocks, with the same output on both stores."""

import asyncio
from collections.abc import Callable

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr.core.objects.chat import AssistantMeta
from tests.surfaces.worked_sessions import Worked, json_of, mounts

Run = Callable[..., Result]

SECTIONS = ["system_prompt", "metadata_pool", "chat", "active_content"]


def test_the_timeline_shows_every_prompt_by_section(ctxmgr: Run, worked: Worked) -> None:
    """It shows which part of a prompt grows."""
    result = json_of(ctxmgr("timeline", worked.sid, "--store", worked.url, "--json"))

    assert (result["session_id"], result["turns"], result["sections"]) == (worked.sid, 3, SECTIONS)
    assert [entry["turn"] for entry in result["entries"]] == [1, 2, 3]
    for entry in result["entries"]:
        assert sum(entry["tokens"]) == entry["prompt_tokens"]
        assert entry["valid_time"].endswith("Z")
    assert result["entries"][0]["tokens"][1] == 0
    assert [entry["calls"] for entry in result["entries"]] == [1, 1, 0]
    assert result["entries"][1]["user"] == "Are you sure?"
    assert result["prompt_tokens"] == sum(entry["prompt_tokens"] for entry in result["entries"])


def test_the_timeline_agrees_with_cache(ctxmgr: Run, worked: Worked) -> None:
    """Two commands must not give different answers."""
    result = json_of(ctxmgr("timeline", worked.sid, "--store", worked.url, "--json"))
    cache = json_of(ctxmgr("cache", worked.sid, "--store", worked.url, "--json"))

    names = ("prompt_tokens", "cached_tokens", "change", "section", "object_id", "rewritten_tokens")
    for entry, call in zip(result["entries"], cache["calls"], strict=True):
        assert [entry[name] for name in names] == [call[name] for name in names]
    assert (result["breaks"], result["cached_tokens"]) == (cache["breaks"], cache["cached_tokens"])
    assert result["entries"][1]["change"] == "new"
    assert result["entries"][1]["object_id"] == worked.notes


def test_a_page_of_the_timeline_continues_the_previous_one(ctxmgr: Run, worked: Worked) -> None:
    """The first turn of a page is compared with the last of the previous page."""
    whole = json_of(ctxmgr("timeline", worked.sid, "--store", worked.url, "--json"))
    options = ("--store", worked.url, "--json")

    last = json_of(ctxmgr("timeline", worked.sid, "--limit", "1", *options))
    before = ("--before", str(last["earlier"]))
    first = json_of(ctxmgr("timeline", worked.sid, *before, *options))

    assert [*first["entries"], *last["entries"]] == whole["entries"]
    assert (first["earlier"], whole["earlier"]) == (None, None)


def test_a_page_before_the_first_turn_is_empty(ctxmgr: Run, worked: Worked) -> None:
    """An empty page is a valid result; an invalid turn is an error."""
    options = ("--store", worked.url, "--json")

    nothing = json_of(ctxmgr("timeline", worked.sid, "--before", "1", *options))

    assert (nothing["entries"], nothing["sections"], nothing["earlier"]) == ([], [], None)
    assert ctxmgr("timeline", worked.sid, "--before", "0", *options).exit_code == 2
    assert ctxmgr("timeline", worked.sid, "--limit", "10001", *options).exit_code == 2


async def _continue_session(worked: Worked) -> None:
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        fork = await client.fork(worked.sid, turn=2, new_session_id=f"{worked.sid}-fork")
        await fork.render("Another way?", policy="economy")
        usage = {"input_tokens": 7, "cache_read_input_tokens": 90, "output_tokens": 3}
        meta = AssistantMeta(model="claude-opus-4-5", usage=usage)
        await fork.end_turn("Let me try.", meta=meta)


async def _priced_turns(worked: Worked) -> None:
    async with library.connect(worked.url, mounts=mounts(worked.project), tracking=False) as client:
        session = await client.resume(worked.sid)
        usage = {"input_tokens": 1000, "cache_read_input_tokens": 0, "output_tokens": 100}
        for meta in (
            AssistantMeta(model="claude-opus-4-5-20251101", usage=usage),
            AssistantMeta(model="claude-opus-4-5"),
            AssistantMeta(model="unheard-of", usage=usage),
        ):
            await session.render("On?")
            await session.end_turn("Yes.", meta=meta)
        await client.pause(worked.sid)


def test_money_is_what_was_reported_or_named_an_estimate(ctxmgr: Run, worked: Worked) -> None:
    """A guess that looks like an invoice is worse than no figure."""
    asyncio.run(_priced_turns(worked))
    options = ("--store", worked.url, "--json")

    result = json_of(ctxmgr("timeline", worked.sid, *options))
    shown = json_of(ctxmgr("show", worked.sid, *options))
    turn = json_of(ctxmgr("turn", worked.sid, "4", *options))
    text = ctxmgr("timeline", worked.sid, "--store", worked.url).stdout

    cost = (1000 * 5 + 100 * 25) / 1e6
    reported, estimated, unknown = result["entries"][-3:]
    assert (reported["usd"], reported["estimated_usd"]) == (pytest.approx(cost), None)
    assert estimated["usd"] is None
    new = estimated["prompt_tokens"] - estimated["cached_tokens"]
    prompt = (new * 6.25 + estimated["cached_tokens"] * 0.5) / 1e6
    assert prompt < estimated["estimated_usd"] < prompt + 10 * 25 / 1e6
    assert (unknown["usd"], unknown["estimated_usd"]) == (None, None)
    assert (result["usd"], result["unpriced"]) == (pytest.approx(cost), 4)
    assert result["estimated_usd"] == estimated["estimated_usd"]
    assert (shown["usd"], shown["unpriced_turns"]) == (pytest.approx(cost), 5)
    assert turn["usd"] == pytest.approx(cost)
    assert f"${cost:.4f} + $" in text
    assert "(estimated)" in text


def test_the_timeline_of_a_fork_starts_with_its_parents_turns(ctxmgr: Run, worked: Worked) -> None:
    """It shares the parent's history; policy, model and usage are shown where known."""
    asyncio.run(_continue_session(worked))

    result = json_of(ctxmgr("timeline", f"{worked.sid}-fork", "--store", worked.url, "--json"))

    assert [entry["policy"] for entry in result["entries"]] == [None, None, "economy"]
    last = result["entries"][-1]
    assert (last["model"], last["answer"]) == ("claude-opus-4-5", "Let me try.")
    assert last["reported"] == {
        "input": 7,
        "cached": 90,
        "written": 0,
        "output": 3,
        "written_1h": 0,
    }
    assert result["entries"][0]["reported"] is None


def test_a_prompt_is_shown_block_by_block(ctxmgr: Run, worked: Worked) -> None:
    """The blocks of a turn are complete and verified (003-R005)."""
    result = json_of(ctxmgr("turn", worked.sid, "2", "--store", worked.url, "--json"))

    texts = [block["text"] for block in result["blocks"]]
    assert "".join(texts).split() == worked.sent[1].split()
    assert (result["turn"], result["proven"], result["policy"]) == (2, True, None)
    assert (result["user"], result["answer"]) == ("Are you sure?", "It is 9090 now.")
    assert [section["section"] for section in result["sections"]] == SECTIONS
    for section in result["sections"]:
        own = [block for block in result["blocks"] if block["section"] == section["section"]]
        assert sum(block["tokens"] for block in own) == section["tokens"]
        assert sum(len(block["text"]) for block in own) == section["chars"]


def test_changes_since_the_previous_turn_are_shown(ctxmgr: Run, worked: Worked) -> None:
    """An edited file is changed, a new call is new, and the rest is unchanged."""
    result = json_of(ctxmgr("turn", worked.sid, "--store", worked.url, "--json"))

    changes = [(item["section"], item["name"], item["change"]) for item in result["blocks"]]
    assert changes == [
        ("system_prompt", "", "same"),
        ("metadata_pool", "/workspace/notes.md", "same"),
        ("metadata_pool", "/workspace/src/main.py", "same"),
        ("metadata_pool", "ls", "same"),
        ("metadata_pool", "t", "new"),
        ("chat", "", "same"),
        ("chat", "", "same"),
        ("chat", "", "same"),
        ("chat", "", "new"),
        ("chat", "", "new"),
        ("active_content", "/workspace/notes.md", "changed"),
        ("active_content", "ls", "same"),
        ("active_content", "t", "new"),
    ]
    assert [block["kind"] for block in result["blocks"]][1:6] == [
        "file",
        "file",
        "toolcall",
        "toolcall",
        "chat",
    ]
    before, now = worked.sent[1:]
    assert before[: result["common_chars"]] == now[: result["common_chars"]]
    assert before[result["common_chars"]] != now[result["common_chars"]]


async def _fold(worked: Worked) -> None:
    where = mounts(worked.project)
    async with library.connect(worked.url, mounts=where, tracking=False) as client:
        session = await client.resume(worked.sid)
        await session.deactivate(worked.notes)
        await session.render("And now?")
        await session.end_turn("It is folded.")


def test_removed_blocks_are_shown_with_their_text(ctxmgr: Run, worked: Worked) -> None:
    """Text that the model no longer sees may explain its answer."""
    asyncio.run(_fold(worked))

    result = json_of(ctxmgr("turn", worked.sid, "--store", worked.url, "--json"))

    (gone,) = result["gone"]
    assert (gone["section"], gone["object_id"]) == ("active_content", worked.notes)
    assert "port = 9090" in gone["text"]


@pytest.mark.parametrize("turn", ["0", "4", "-1"])
def test_a_missing_turn_is_not_found(ctxmgr: Run, worked: Worked, turn: str) -> None:
    """The error says how many turns there are."""
    result = ctxmgr("turn", worked.sid, "--store", worked.url, "--", turn)

    assert result.exit_code == 3
    assert "has 3 turns" in result.stderr


def test_blocks_are_printed_as_a_table_and_texts_on_request(ctxmgr: Run, worked: Worked) -> None:
    """Sizes are shown by default, and texts with an option."""
    table = ctxmgr("turn", worked.sid, "2", "--store", worked.url).stdout
    texts = ctxmgr("turn", worked.sid, "2", "--full", "--store", worked.url).stdout

    assert "/workspace/notes.md" in table
    assert "port = 8080" not in table
    assert "port = 8080" in texts


@pytest.mark.parametrize("colour", ["0", "1"])
def test_the_timeline_prints_a_bar_for_every_prompt(
    ctxmgr: Run, worked: Worked, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """Sections have symbols as well as colours, and breaks have reasons."""
    monkeypatch.setenv("NO_COLOR" if colour == "0" else "FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")  # at 80, ids give way first

    result = ctxmgr("timeline", worked.sid, "--store", worked.url).stdout

    assert "▒ metadata pool" in result or "▒\x1b[0m metadata pool" in result
    assert "░░" in result
    assert worked.notes[:12] in result
    assert "2 breaks" in result
