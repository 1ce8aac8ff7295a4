"""Sessions, their timelines and the blocks of a prompt, as a user clicks through them."""

import re
from pathlib import Path

from playwright.async_api import Page, expect

import ctxmgr
from tests.surfaces.http.inspector.browsing import (
    ON_THE_SHARED_LOOP,
    browsing,
    open_session,
    photograph,
)
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked

pytestmark = ON_THE_SHARED_LOOP


async def test_a_session_is_opened_from_the_list(server: Server, seen: Worked) -> None:
    """The usual first step: the newest session is on top, and a click opens it."""
    async with browsing(server.url) as page:
        await page.goto(server.url)
        rows = page.locator("#session-list .row")
        await expect(rows).to_have_count(1)
        await expect(rows.first.locator(".figure").first).to_have_text("3")

        await rows.first.click()

        await expect(page.get_by_role("heading", level=1)).to_have_text(seen.sid)
        await expect(page.get_by_role("heading", name="Turn 3")).to_be_visible()
        assert f"#/s/{seen.sid}/turn" in page.url


async def test_a_comment_on_a_turn_is_written_and_stays(server: Server, seen: Worked) -> None:
    """Whoever found out why a turn went wrong wants the next reader to know."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        await page.keyboard.press("n")
        form = page.get_by_label("Comment on this turn")
        await form.fill("It read <b>the wrong</b> file.")

        await page.get_by_role("button", name="Save").click()

        comment = page.locator(".turn-comment p")
        await expect(comment).to_have_text("It read <b>the wrong</b> file.")
        await expect(page.locator(".legend")).to_contain_text("comment")
        await page.reload()
        await expect(comment).to_have_text("It read <b>the wrong</b> file.")


async def test_sessions_are_filtered_by_name(server: Server, seen: Worked) -> None:
    """The store of a team has hundreds of sessions."""
    async with ctxmgr.connect(seen.url) as client:
        await client.start("another", system_prompt="-")
    async with browsing(server.url) as page:
        await page.goto(server.url)
        await expect(page.locator("#session-list .row")).to_have_count(2)

        await page.get_by_label("Filter sessions").fill("anoth")

        await expect(page.locator("#session-list .row")).to_have_text(re.compile("another"))


async def test_the_timeline_shows_each_turn(server: Server, seen: Worked) -> None:
    """Bars are drawn, a click selects a turn, and screen readers get a description."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        timeline = page.get_by_role("slider", name="Turns")
        box = await timeline.bounding_box()
        assert box

        await timeline.click(position={"x": 46 + (box["width"] - 46) / 6, "y": 80})

        await expect(page.get_by_role("heading", name="Turn 1", exact=True)).to_be_visible()
        await expect(timeline).to_have_attribute(
            "aria-valuetext", re.compile(r"^turn 1, \d+ tokens, first prompt")
        )
        assert await _colours(page) >= 4
        await expect(page.locator(".sum")).to_contain_text("% reusable · 2 breaks")


async def test_hovering_over_a_turn_shows_its_cost(server: Server, seen: Worked) -> None:
    """Tokens by section, and why the cached prefix broke."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        timeline = page.get_by_role("slider", name="Turns")
        box = await timeline.bounding_box()
        assert box

        await timeline.hover(position={"x": box["width"] / 2, "y": 80})

        tip = page.locator(".tip")
        await expect(tip).to_contain_text("Turn 2")
        await expect(tip).to_contain_text("files")
        await expect(tip).to_contain_text("sent again")


async def test_the_prompt_of_a_turn_is_the_one_that_was_sent(server: Server, seen: Worked) -> None:
    """The blocks, joined, are the bytes that the model received."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "turn/2")
        await expect(page.locator(".turn-head")).to_contain_text("✓ verified")
        pieces = page.locator(".prompt .piece-text")
        await expect(pieces.first).to_contain_text("Be careful.")

        texts = await pieces.all_text_contents()

        rest = seen.sent[1]
        for text in texts:
            assert rest.lstrip("\n").startswith(text)
            rest = rest.lstrip("\n")[len(text) :]
        assert rest.strip("\n") == ""
        await photograph(page, "turn")


async def test_every_block_has_its_cost(server: Server, seen: Worked) -> None:
    """The costs of the blocks add up to those of their sections and of the turn."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "turn/3")
        await expect(page.locator(".turn .row").first).to_be_visible()

        sections = await page.locator(".size .figure").all_text_contents()
        pieces = await page.locator(".turn .row:not(:has(.gone)) .figure").all_text_contents()

        assert sum(map(_number, sections)) == sum(map(_number, pieces)) > 0


async def test_selecting_a_block_shows_it_in_the_prompt(server: Server, seen: Worked) -> None:
    """It is hard to find by eye in a prompt of thousands of lines."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "turn/3")
        await page.get_by_label("Filter pieces").fill("notes.md")

        await page.locator(".turn .row").last.click()

        await expect(page.locator(".piece.is-chosen")).to_contain_text("port = 9090")


async def test_changes_since_the_previous_turn_are_shown(server: Server, seen: Worked) -> None:
    """They explain why a turn went wrong or what broke the cache."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "turn/2")

        await page.get_by_role("tab", name="Changes").click()

        await expect(page.locator(".diff .added", has_text="Are you sure?")).to_be_visible()
        await expect(page.locator(".prompt")).to_contain_text("characters are the same as")
        await photograph(page, "changes")


async def test_a_turn_of_another_client_appears_automatically(server: Server, seen: Worked) -> None:
    """Users need not reload the page while an agent works."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        await expect(page.locator("#live")).to_have_class("live")
        timeline = page.get_by_role("slider", name="Turns")
        await expect(timeline).to_have_attribute("aria-valuemax", "3")

        async with ctxmgr.connect(seen.url, tracking=False) as client:
            session = await client.resume(seen.sid)
            await session.render("One more?")
            await session.end_turn("One more.")

        await expect(timeline).to_have_attribute("aria-valuemax", "4")
        await expect(page.get_by_role("heading", name="Turn 4")).to_be_visible()
        await page.keyboard.press("h")
        await expect(page.locator("#session-list .row .figure").first).to_have_text("4")


async def test_a_session_without_turns_says_so(home: Path) -> None:
    """A session that was only started is not an error."""
    url = f"sqlite:///{home}/new.db"
    async with ctxmgr.connect(url) as client:
        await client.start("new", system_prompt="-")
    with serving(url, "--no-open") as server:
        async with browsing(server.url) as page:
            await page.goto(f"{server.url}/#/s/new/turn")

            await expect(page.get_by_role("heading", name="No turn yet")).to_be_visible()


async def test_a_missing_session_is_reported(server: Server) -> None:
    """A mistyped name must not look like a session without turns."""
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/s/nobody/turn")

        await expect(page.get_by_role("heading", name="No session “nobody”.")).to_be_visible()
        await page.get_by_role("link", name="All sessions").click()
        await expect(page.locator("#session-list .row")).to_have_count(1)


async def test_turns_that_were_missed_appear_after_a_restart(seen: Worked) -> None:
    """A page that was open while the server was down catches up automatically."""
    with serving(seen.url, "--no-open") as first:
        port = first.url.rpartition(":")[2]
        async with browsing(first.url) as page:
            await open_session(page, first.url, seen.sid)
            await expect(page.locator("#live")).to_have_class("live")
            first.end()
            async with ctxmgr.connect(seen.url, tracking=False) as client:
                session = await client.resume(seen.sid)
                await session.render("Missed?")
                await session.end_turn("Not for long.")

            with serving(seen.url, "--no-open", "--port", port):
                timeline = page.get_by_role("slider", name="Turns")
                await expect(timeline).to_have_attribute("aria-valuemax", "4")


async def test_an_empty_store_says_what_to_do(home: Path) -> None:
    """This is what new users see first."""
    url = f"sqlite:///{home}/empty.db"
    async with await ctxmgr.open_store(url):
        pass
    with serving(url, "--no-open") as server:
        async with browsing(server.url) as page:
            await page.goto(server.url)

            await expect(page.get_by_text("This store has no sessions yet")).to_be_visible()


async def _colours(page: Page) -> int:
    """Count the colours on the timeline that cover more than a few pixels."""
    count: int = await page.evaluate(_COUNT_COLOURS)
    return count


def _number(text: str) -> int:
    return int(text.replace(",", ""))


_COUNT_COLOURS = """() => {
  const canvas = document.querySelector("canvas.timeline");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255) {
      const colour = data.slice(at, at + 3).join();
      seen.set(colour, (seen.get(colour) ?? 0) + 1);
    }
  }
  return [...seen.values()].filter((count) => count > 50).length;
}"""
