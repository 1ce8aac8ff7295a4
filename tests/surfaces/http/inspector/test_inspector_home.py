"""The first page: all sessions, what they used, and what is shown while things are loading."""

import re
from pathlib import Path

from playwright.async_api import Route, expect

import ctxmgr
from ctxmgr import Put, to_document
from ctxmgr.bench.surfaces.long_session import LongPlan, build_long_session
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from tests.surfaces.http.inspector.browsing import ON_THE_SHARED_LOOP, browsing, photograph
from tests.surfaces.http.inspector.conftest import FoldedServer
from tests.surfaces.http.servers import serving

pytestmark = ON_THE_SHARED_LOOP

MANY = 1_000


async def test_sessions_are_a_table_with_totals(economy: FoldedServer) -> None:
    """Which session was large, or badly cached, is seen without opening each."""
    async with browsing(economy.url) as page:
        await page.goto(economy.url)
        row = page.locator("#session-list .row", has_text="claude-sonnet-4-5").last

        await expect(row).to_contain_text("76.4K")
        await expect(row).to_contain_text("92 %")
        await expect(page.locator("#session-list .row").first).to_contain_text("fork of repair")
        await expect(page.locator(".totals")).to_contain_text("2 sessions")
        await expect(page.locator(".totals")).to_contain_text("20 turns")
        await expect(page.locator(".heads")).to_contain_text(re.compile(r"Last activity \(GMT\+"))
        await photograph(page, "home")


async def test_the_list_is_the_page_on_a_small_screen(economy: FoldedServer) -> None:
    """A phone shows the sessions, not an empty pane beside them."""
    async with browsing(economy.url, size=(420, 860)) as page:
        await page.goto(economy.url)
        await expect(page.locator("#session-list .row").first).to_be_visible()
        await photograph(page, "home-small")

        box = await page.locator("#session-list").bounding_box()

        assert box
        assert box["height"] > 500
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_thousand_sessions(home: Path) -> None:
    """Only the rows in sight are drawn, and only some sessions are counted before one asks."""
    url = f"sqlite:///{home}/many.db"
    async with await ctxmgr.open_store(url) as store:
        names = [f"session-{at:04}" for at in range(MANY)]
        for kind in (SessionRecord, Chat, SystemPrompt):
            content = {"content": "-"} if kind is SystemPrompt else {}
            values = [kind(session_id=name, **content) for name in names]
            await store.commit([Put(to_document(value)) for value in values])
    with serving(url, "--no-open") as server:
        async with browsing(server.url) as page:
            await page.goto(server.url)
            await expect(page.locator(".totals")).to_contain_text("1,000 sessions")
            assert await page.locator("#session-list .row").count() < 100

            await page.locator("#session-list .virtual-list").focus()
            await page.get_by_label("Filter sessions").fill("session-0007")

            await expect(page.locator("#session-list .row")).to_have_count(1)
            await expect(page.get_by_role("button", name="Count all")).to_be_visible()


async def test_loading_does_not_look_like_emptiness(economy: FoldedServer) -> None:
    """Until the turns are known, nothing is said about them."""
    held: list[Route] = []
    async with browsing(economy.url) as page:
        await page.route("**/timeline?*", lambda route: held.append(route))  # noqa: PLW0108 (a method of a list cannot be wrapped)
        await page.goto(f"{economy.url}/#/s/{economy.folded.sid}/turn")
        await expect(page.locator(".prompt .skeleton")).to_be_visible()
        await expect(page.locator(".turn-head .skeleton")).to_be_visible()
        assert await page.get_by_text("No turn yet").count() == 0
        assert await page.evaluate("document.documentElement.hasAttribute('data-busy')")
        await photograph(page, "loading")

        await held[0].continue_()

        await expect(page.get_by_role("heading", name="Turn 12")).to_be_visible()


async def test_sums_say_what_they_are_of(home: Path) -> None:
    """While older turns are loading, the sums are those of the newest ones."""
    held: list[Route] = []
    url, plan = f"sqlite:///{home}/long.db", LongPlan(turns=120, pool=240, objects=300)
    async with await ctxmgr.open_store(url) as store:
        await build_long_session(store, plan)
    with serving(url, "--no-open") as server:
        async with browsing(server.url) as page:
            await page.route("**/timeline?*before=*", lambda route: held.append(route))  # noqa: PLW0108 (a method of a list cannot be wrapped)
            await page.goto(f"{server.url}/#/s/{plan.session_id}/turn")
            await expect(page.locator(".sum")).to_contain_text("newest 50 of 120 turns")

            await held[0].continue_()

            await expect(page.locator(".sum")).not_to_contain_text("newest")
            await expect(page.locator(".timeline")).to_have_attribute("data-turns", "120")
