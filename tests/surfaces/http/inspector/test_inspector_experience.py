"""The page of a session's experience: chart, recall of a brushed range, tags, windows, storage."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from ctxmgr import open_store
from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.xdb import XDB
from tests.surfaces.http.inspector.browsing import ON_THE_SHARED_LOOP, browsing, photograph
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.worked_sessions import Worked

pytestmark = ON_THE_SHARED_LOOP

SESSION = "s/1"
TICKS = 1_200
MARKUP = "<img src=x onerror=alert(1)>"
HONESTY = "pack::Honesty"


@pytest.fixture
async def recorded(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Twelve hundred tokens, in answers of a hundred; the last one has markup and a tag."""
    url = f"sqlite:///{home}/a.db"
    await (await open_store(url)).close()
    async with XDB(home / "xdb", "be") as xdb:
        steps = [
            NewTimestep(
                timestamp=1_000 + tick,
                event_type=EventType.INPUT if tick % 100 == 1 else EventType.OUTPUT,
                content=MARKUP if tick == TICKS else f"t{tick} ",
                event_id=f"e{(tick - 1) // 100}{'-in' if tick % 100 == 1 else ''}",
                concept_activations={HONESTY: (tick % 100) / 100, "pack::Pride": 0.25},
            )
            for tick in range(1, TICKS + 1)
        ]
        await xdb.experience_log.append(SESSION, steps)
        await xdb.start_session(SESSION)
        await xdb.tag(f"odd {MARKUP}", tick_range=(1_190, 1_195))
        await xdb.comment(f"It hesitated {MARKUP}", timestep_id=f"ts-{SESSION}-1150")
        await xdb.windows.expire(SESSION, before_tick=301)
    monkeypatch.setenv("CTXMGR_EXPERIENCE", str(home / "xdb"))
    with serving(url, "--no-open") as server:
        yield server


async def _open(page: Page, server: Server, ticks: str = "") -> None:
    await page.goto(f"{server.url}/#/experience/s%2F1{ticks}")
    await expect(page.locator(".experience-body")).not_to_have_class(re.compile("is-loading"))
    await expect(page.locator(".passage").first).to_be_visible()


async def test_a_range_is_brushed_recalled_and_tagged(recorded: Server) -> None:
    """000-R179, 000-R181: what a model wrote is text, whatever it looks like."""
    sent: list[str] = []
    async with browsing(recorded.url) as page:
        page.on("request", lambda request: sent.append(request.url))
        await _open(page, recorded)

        await expect(page.locator(".facts")).to_contain_text("ticks 701 to 1,200 of 1,200")
        await expect(page.locator(".marks")).to_contain_text(f"odd {MARKUP}")
        await expect(page.locator(".marks")).to_contain_text("It hesitated")
        await expect(page.locator(".concepts [aria-pressed=true]").first).to_have_text("Honesty")
        await expect(page.locator(".legend")).to_contain_text("Pride")
        await expect(page.locator(".token")).to_have_count(200)
        await page.get_by_role("button", name="Show more").click()
        await expect(page.locator(".token")).to_have_count(400)

        box = await page.locator(".ticks").bounding_box()
        assert box
        await page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 60)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] + 20, box["y"] + 60)
        await page.mouse.up()
        await expect(page.locator(".ticks")).to_have_attribute(
            "aria-valuetext", re.compile(r"to 1200 selected$")
        )
        await expect(page.locator(".recall h3")).to_contain_text("to 1,200")
        await expect(page.locator(".token").last).to_have_text(MARKUP)
        assert await page.locator(".experience img").count() == 0

        await page.get_by_label("Tag these ticks").fill("noticed")
        await page.keyboard.press("Enter")
        await expect(page.locator(".marks")).to_contain_text("noticed")
        await photograph(page, "experience")
        limits = {int(found[1]) for url in sent if (found := re.search(r"limit=(\d+)", url))}
        assert max(limits) <= 2_000


async def test_windows_storage_and_earlier_ticks_on_a_dark_phone(recorded: Server) -> None:
    """000-R045, 000-R211: compressed ticks are named as such; nothing is wider than the screen."""
    async with browsing(recorded.url, dark=True, size=(420, 860)) as page:
        await _open(page, recorded, "/251-450")

        await expect(page.locator(".facts")).to_contain_text("50 ticks not kept token by token")
        await expect(page.locator(".windows")).to_contain_text("cold")
        await expect(page.locator(".windows")).to_contain_text("900 ticks")
        await expect(page.locator(".storage")).to_contain_text("reply")
        await page.get_by_role("button", name="Last ticks").click()
        await expect(page.locator(".facts")).to_contain_text("of 1,200")
        await expect(page.locator(".token").first).to_have_text("t701")
        await page.get_by_role("button", name="Earlier ticks").click()
        await expect(page.locator(".facts")).to_contain_text("ticks 201 to 700")
        await photograph(page, "experience-small-dark")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_all_ticks_are_shown_in_few_points(recorded: Server) -> None:
    """000-R181: a session of any length is drawn from one bounded answer; a click leads back."""
    sent: list[str] = []
    async with browsing(recorded.url) as page:
        page.on("request", lambda request: sent.append(request.url))
        await _open(page, recorded)
        await page.locator("[data-choice=all]").click()

        await expect(page.locator(".facts")).to_contain_text("ticks 1 to 1,200 of 1,200")
        await expect(page.locator(".facts")).to_contain_text("highest scores of 2 ticks each")
        await expect(page.locator(".facts")).to_contain_text("300 ticks not kept")
        await expect(page.locator(".concepts [aria-pressed=true]").first).to_have_text("Honesty")
        assert any("/v1/xdb/curves" in url for url in sent)
        await page.get_by_role("button", name="Earlier ticks").click()
        await expect(page.locator(".facts")).to_contain_text("ticks 1 to 500")


async def test_nothing_recorded_is_said_clearly(
    server: Server, recorded: Server, seen: Worked
) -> None:
    """Of another session on a server with experience; the session's page links to it."""
    async with browsing(recorded.url) as page:
        await page.goto(f"{recorded.url}/#/experience/unknown")
        await expect(page.locator(".hint")).to_contain_text("No experience of session “unknown”")
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/s/{seen.sid}/turn")
        await page.get_by_role("link", name="Experience").click()
        await expect(page.locator(".hint")).to_contain_text("No experience is recorded")
        await expect(page.locator(".notice")).to_have_count(0)
