"""The page of the proxy: requests of a session, and both sides of one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.proxy.recording.exchanges import SESSION, record_conversation
from tests.surfaces.http.inspector.browsing import ON_THE_SHARED_LOOP, browsing
from tests.surfaces.http.servers import Server, serving

pytestmark = ON_THE_SHARED_LOOP


@pytest.fixture
async def proxied(home: Path) -> AsyncIterator[Server]:
    url = f"sqlite:///{home}/p.db"
    await record_conversation(url)
    with serving(url, "--no-open") as server:
        yield server


async def test_a_request_is_shown_side_by_side(proxied: Server) -> None:
    """Proxy rules 36 to 38: what was sent instead of what, the net, and every break's cause."""
    async with browsing(proxied.url) as page:
        await page.goto(f"{proxied.url}/#/s/{SESSION}")
        await page.get_by_role("link", name="Proxy", exact=True).click()
        await expect(page.locator(".facts")).to_contain_text("net lost: 30")
        await expect(page.get_by_label("Requests")).to_contain_text("the client changed message 1")

        await page.get_by_role("link", name="2", exact=True).click()
        changed = page.locator("details.changed")
        await expect(changed).to_have_count(1)
        await expect(changed.locator("pre").nth(0)).to_contain_text("def a(): ...")
        await expect(changed.locator("pre").nth(1)).to_contain_text("shortened")
