"""A session under economy: what its prompts show, and what folding hid from the model."""

import json
import re

from playwright.async_api import Page, expect

from tests.surfaces.http.inspector.browsing import (
    ON_THE_SHARED_LOOP,
    browsing,
    open_session,
    photograph,
)
from tests.surfaces.http.inspector.conftest import FoldedServer

pytestmark = ON_THE_SHARED_LOOP

LAST = "turn/12"


async def test_pieces_are_named_by_their_argument(economy: FoldedServer) -> None:
    """A list of `bash`, `bash`, `bash` does not help to find anything."""
    async with browsing(economy.url) as page:
        await _open(page, economy, LAST)

        names = await page.locator(".turn .row .name").all_text_contents()

        wanted = ["read /workspace/README.md", "bash make all 2>&1", "edit /workspace/pump.py"]
        assert set(wanted) < set(names)


async def test_pieces_have_the_colour_of_what_they_show(economy: FoldedServer) -> None:
    """Under economy everything is in one section, which would be one colour."""
    async with browsing(economy.url) as page:
        await _open(page, economy, LAST)

        kinds = {
            name: await page.locator(".piece", has_text=text).first.get_attribute("class")
            for name, text in {
                "system": "You repair small programs",
                "user": "The pump delivers too little",
                "assistant": "I read the code",
                "file": "read /workspace/README.md",
                "folded": "bash make all",
                "output": "bash pytest -q",
            }.items()
        }

        assert {name for name, shown in kinds.items() if name not in (shown or "").split()} == set()
        await expect(page.locator(".legend")).to_contain_text("folded")
        await expect(page.locator(".outcome")).to_contain_text("9 folded · ")
        await photograph(page, "economy")


async def test_a_folded_piece_shows_what_was_hidden_from_the_model(economy: FoldedServer) -> None:
    """Each line that the prompt did not show is marked, and no other."""
    async with browsing(economy.url) as page:
        await _open(page, economy, LAST)
        piece = page.locator(".piece", has_text="bash make all").first
        shown = (await piece.locator(".piece-text").text_content()) or ""

        await piece.locator("[data-choice=full]").click()

        lines = piece.locator(".folds .line")
        whole = economy.folded.log.splitlines()
        await expect(lines).to_have_count(len(whole))
        hidden = await piece.locator(".folds .is-hidden > span").all_text_contents()
        assert hidden == [line for line in whole if f"{line}\n" not in shown]
        assert any("module_100 " in line for line in hidden)
        await expect(piece.locator("header b", has_text="Output")).to_be_visible()
        await expect(piece.locator(".unfolded-text header")).to_contain_text(
            f"{len(hidden)} of {len(whole)} lines hidden"
        )
        await piece.get_by_text("Next hidden part").click()
        await expect(piece.locator(".folds .is-hidden").first).to_be_in_viewport()
        await photograph(page, "folded")

        await piece.locator("[data-choice=shown]").click()

        await expect(piece.locator(".unfolded")).to_have_count(0)
        await expect(piece.locator(".piece-text")).to_be_visible()


async def test_a_listed_object_can_be_seen_in_full(economy: FoldedServer) -> None:
    """A line in the pool stands for a text that the model did not see."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "turn/8", session=economy.fork)
        piece = page.locator(".piece.listed", has_text="README.md").first

        await piece.locator("[data-choice=full]").click()

        await expect(piece.locator(".folds .is-hidden").first).to_contain_text("# Pump")


async def test_pieces_are_filtered(economy: FoldedServer) -> None:
    """By what they are, and by failed tools."""
    async with browsing(economy.url) as page:
        await _open(page, economy, LAST)

        await page.get_by_label("Which pieces").select_option("failed")
        await expect(page.locator(".turn .row")).to_have_count(1)
        await expect(page.locator(".turn .row")).to_contain_text("bash pytest -q")

        await page.get_by_label("Which pieces").select_option("folded")
        await expect(page.locator(".turn .row")).to_have_count(9)


async def test_words_are_found_in_the_prompt(economy: FoldedServer) -> None:
    """A prompt has thousands of lines."""
    async with browsing(economy.url) as page:
        await _open(page, economy, LAST)
        await page.keyboard.press("s")

        await page.keyboard.type("compiled")

        found = page.locator(".text-search output")
        await expect(found).to_have_text(re.compile(r"^1 of \d+$"))
        await page.keyboard.press("Enter")
        await expect(found).to_have_text(re.compile(r"^2 of \d+$"))
        assert await page.evaluate("CSS.highlights.get('found').size") >= 2
        await page.get_by_label("Find in this prompt").fill("no such words")
        await expect(found).to_have_text("no matches")


async def test_the_whole_session_is_searched(economy: FoldedServer) -> None:
    """Also what the prompt no longer shows."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "find")
        await page.get_by_label("Search this session").fill("module_100")
        await page.keyboard.press("Enter")

        hit = page.locator(".found .hit").filter(has_text="compiled module_100 in").first
        await expect(hit.locator("mark").first).to_have_text("module_100")
        assert page.url.endswith("/find/module_100")
        await photograph(page, "search")
        await hit.locator("a").click()
        await expect(page.locator(".object")).to_contain_text("compiled module_100 in")

        await _open(page, economy, "find/no-such-words-anywhere")
        await expect(page.locator(".found")).to_have_text(
            "Nothing that this session has seen matches these words."
        )


async def test_tool_calls_are_cards(economy: FoldedServer) -> None:
    """Arguments, output and status of a call, and a way to copy them."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "calls")
        rows = page.locator(".calls .row")
        await expect(rows).to_have_count(13)

        await page.get_by_label("failed only").check()
        await expect(rows).to_have_count(1)
        await rows.first.click()

        card = page.locator(".card")
        await expect(card.locator("summary")).to_contain_text("✗ failed")
        await expect(card.locator("dd")).to_have_text("pytest -q")
        await expect(card.locator(".line").first).to_have_text("E   assert 2 == 4")
        await card.get_by_role("button", name="Copy").last.click()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied == "E   assert 2 == 4\n1 failed in 0.1 s\n"


async def test_a_diff_has_its_colours(economy: FoldedServer) -> None:
    """Added and removed lines are told apart at a glance."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "calls")
        await page.locator(".calls .row", has_text="git diff").click()

        await expect(page.locator(".card .line.removed").last).to_have_text("-    return litres")
        await expect(page.locator(".card .line.added").last).to_have_text("+    return litres * 2")


async def test_the_answer_of_a_turn_is_shown_with_its_calls(economy: FoldedServer) -> None:
    """Markdown as a person reads it, the calls, and how long each took."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "turn/1")
        await page.get_by_role("tab", name="Answer").click()

        await expect(page.locator(".markdown li code")).to_have_text("pump.py")
        await expect(page.locator(".markdown li b")).to_have_text("tests")
        await expect(page.locator(".card")).to_have_count(2)
        await expect(page.locator(".waterfall")).to_contain_text("bash make all")
        await photograph(page, "answer")


async def test_keys_find_the_failed_call(economy: FoldedServer) -> None:
    """Errors are what people look for first."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "turn/1")

        await page.keyboard.press("f")

        await expect(page.get_by_role("heading", name="Turn 2", exact=True)).to_be_visible()


async def test_a_turn_is_exported_as_a_request(economy: FoldedServer) -> None:
    """In the form of either provider, and without credentials."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "turn/2")
        await page.keyboard.press("e")
        dialog = page.get_by_role("dialog", name="Export as a request")

        await dialog.get_by_role("button", name="Copy JSON").click()
        anthropic = json.loads(await page.evaluate("navigator.clipboard.readText()"))
        await dialog.get_by_role("button", name="Copy curl").click()
        curl = await page.evaluate("navigator.clipboard.readText()")
        await dialog.get_by_role("button", name="OpenAI").click()
        await expect(dialog.locator(".content")).to_contain_text('"role": "system"')
        await dialog.get_by_role("button", name="Copy JSON").click()
        openai = json.loads(await page.evaluate("navigator.clipboard.readText()"))

        assert anthropic["model"] == "claude-sonnet-4-5"
        assert anthropic["max_tokens"] > 0
        assert anthropic["messages"][0]["role"] == "user"
        assert '"x-api-key: $ANTHROPIC_API_KEY"' in curl
        assert json.loads(curl.splitlines()[-2]) == anthropic
        assert openai["messages"][0]["role"] == "system"


async def test_the_tree_of_forks_leads_to_a_comparison(economy: FoldedServer) -> None:
    """A fork is of use if one sees what it did differently."""
    async with browsing(economy.url) as page:
        await _open(page, economy, "forks")
        rows = page.locator(".fork-row")
        await expect(rows).to_have_count(2)
        await expect(rows.last).to_contain_text("from turn 6")

        await rows.last.get_by_role("link", name="compare").click()

        await expect(page.locator(".compared")).to_contain_text("The first 6 turns are the same.")
        await expect(page.locator(".diff .added", has_text="Try another way.")).to_be_attached()
        await page.get_by_label(f"Turn of {economy.folded.sid}").first.fill("6")
        await page.keyboard.press("Tab")
        await expect(page.locator(".compare")).to_contain_text("characters are the same")


async def test_times_say_their_zone(economy: FoldedServer) -> None:
    """Local time with its zone, and UTC when hovered over."""
    async with browsing(economy.url) as page:
        await _open(page, economy, LAST)

        time = page.locator(".turn-head time")

        await expect(time).to_have_text(re.compile(r"GMT\+[12]$"))
        await expect(time).to_have_attribute("title", re.compile(r" UTC$"))


async def _open(
    page: Page, economy: FoldedServer, place: str, *, session: str | None = None
) -> None:
    await open_session(page, economy.url, session or economy.folded.sid, place)
    if place.startswith("turn"):
        await expect(page.locator(".prompt .piece").first).to_be_visible()
