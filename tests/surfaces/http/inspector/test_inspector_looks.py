"""Keyboard, light and dark mode, small screens, and a very large session."""

import re
from pathlib import Path

from playwright.async_api import Page, expect

import ctxmgr
from ctxmgr.bench.surfaces.long_session import LongPlan, build_long_session
from tests.surfaces.http.inspector.browsing import (
    ON_THE_SHARED_LOOP,
    browsing,
    open_session,
    photograph,
)
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked

pytestmark = ON_THE_SHARED_LOOP


async def test_keys_move_between_turns(server: Server, seen: Worked) -> None:
    """Left, right, first, last, and from break to break."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        for key, turn in [("ArrowLeft", 2), ("Home", 1), ("b", 2), ("End", 3), ("Shift+B", 2)]:
            await page.keyboard.press(key)

            await expect(page.get_by_role("heading", name=f"Turn {turn}")).to_be_visible()


async def test_panels_and_lists_are_reachable_by_keyboard(server: Server, seen: Worked) -> None:
    """Frequent users prefer the keyboard."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        await page.keyboard.press("3")
        await expect(page.get_by_role("tab", name="Objects")).to_have_attribute(
            "aria-selected", "true"
        )
        await expect(page.locator(".objects .row").first).to_be_visible()
        await page.keyboard.press("j")
        await expect(page.locator(".objects .row.chosen")).to_have_count(1)
        pinned = page.locator(".objects .row.chosen .pin")
        before = await pinned.text_content()

        await page.keyboard.press("p")

        await expect(pinned).not_to_have_text(before or " ")
        await page.keyboard.press("/")
        await expect(page.get_by_label("Filter objects")).to_be_focused()
        await page.keyboard.press("Escape")
        await page.keyboard.press("5")
        await expect(page.get_by_label("Valid time")).to_be_visible()


async def test_a_key_acts_on_the_selected_row_while_its_object_is_loading(
    server: Server, seen: Worked
) -> None:
    """A key pressed early must neither be lost nor change the object that was selected before."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "objects")
        await expect(page.locator(".objects .row").first).to_be_visible()
        await page.route("**/history?*", lambda _route: None)
        await page.keyboard.press("j")
        chosen = page.locator(".objects .row.chosen .pin")
        await expect(chosen).to_have_text("")

        await page.keyboard.press("p")

        await expect(chosen).to_have_text("●")


async def test_the_keys_are_listed(server: Server, seen: Worked) -> None:
    """A question mark lists them, and Escape closes the list."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()

        await page.keyboard.press("Escape")

        await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()


async def test_the_browsers_back_and_forward_buttons_work(server: Server, seen: Worked) -> None:
    """The URL identifies the view, so that it can be shared."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "turn/1")
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("heading", name="Turn 2")).to_be_visible()

        await page.go_back()

        await expect(page.get_by_role("heading", name="Turn 1")).to_be_visible()


async def test_it_follows_the_systems_dark_mode(server: Server, seen: Worked) -> None:
    """A key switches to light mode, and that choice is kept."""
    async with browsing(server.url, dark=True) as page:
        await open_session(page, server.url, seen.sid)
        await expect(page.locator(".prompt .piece").first).to_be_visible()
        await photograph(page, "dark")
        assert await _brightness(page) < 60

        await page.keyboard.press("t")
        assert await _brightness(page) > 200
        await page.reload()

        assert await _brightness(page) > 200


async def test_it_fits_a_small_screen(server: Server, seen: Worked) -> None:
    """Nothing is cut off at the right edge."""
    async with browsing(server.url, size=(700, 900)) as page:
        await open_session(page, server.url, seen.sid)
        await expect(page.locator(".prompt .piece").first).to_be_visible()
        await photograph(page, "small")

        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_an_old_turn_is_opened_by_its_url(home: Path) -> None:
    """Its prompt appears before its bar does, and the timeline's data follow."""
    url, plan = f"sqlite:///{home}/long.db", LongPlan(turns=200, pool=400, objects=500)
    async with await ctxmgr.open_store(url) as store:
        await build_long_session(store, plan)
    with serving(url, "--no-open") as server:
        async with browsing(server.url) as page:
            await open_session(page, server.url, plan.session_id, "turn/5")

            await expect(page.locator(".turn-head")).to_contain_text("reusable")
            await expect(page.locator(".turn-head .said").first).to_be_visible()


async def test_an_invalid_url_opens_the_start_page(server: Server) -> None:
    """A truncated escape in a link must not leave an empty page."""
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/s/50%/turn")

        await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


async def test_a_thousand_turns_and_ten_thousand_objects(home: Path) -> None:
    """Only visible rows are rendered; the last object is reached as fast as the first."""
    url, plan = f"sqlite:///{home}/long.db", LongPlan()
    async with await ctxmgr.open_store(url) as store:
        await build_long_session(store, plan)
    with serving(url, "--no-open") as server:
        async with browsing(server.url) as page:
            await open_session(page, server.url, plan.session_id)
            timeline = page.get_by_role("slider", name="Turns")
            await expect(timeline).to_have_attribute("aria-valuemax", "1000")
            await photograph(page, "thousand-turns")
            await page.keyboard.press("3")
            count = page.locator(".objects .filter .faint")
            await expect(count).to_have_text("10,000 of 10,000")

            await page.locator(".objects .virtual-list").press("End")

            last = page.locator(".objects .row.chosen")
            await expect(last).to_have_attribute("aria-posinset", "10000")
            await expect(page.locator(".object h2")).to_be_visible()
            await expect(last).to_be_in_viewport()
            await expect(page.locator(".objects .virtual-list")).to_be_focused()
            assert await page.locator(".objects .row").count() < 100
            await photograph(page, "ten-thousand-objects")


async def _brightness(page: Page) -> float:
    colour: str = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
