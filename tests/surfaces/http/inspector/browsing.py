"""A real browser on the inspector of a real server, and the checks of every test.

In every test the page logs no error, does not violate its content security policy, and sends
requests only to its own server. All tests share one browser, which takes seconds to start; each
has a profile of its own in it. The browser belongs to the event loop of the test session, so tests
that open a page are marked with `ON_THE_SHARED_LOOP`.
"""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tests.components import ROOT, need

FLAGS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
    *(("--no-sandbox",) if os.geteuid() == 0 else ()),
)
ARTEFACTS: Final = ROOT / "artefacts" / "inspector"
ON_THE_SHARED_LOOP: Final = pytest.mark.asyncio(loop_scope="session")
WAIT_MS: Final = 60_000
"""Ends a test that hangs. Without load nothing takes a second, but the machine may be busy."""
SIZE: Final = (1400, 900)
ZONE: Final = "Europe/Berlin"

expect.set_options(timeout=WAIT_MS)


class SharedBrowser:
    """One browser for all tests, started when the first of them opens a page."""

    def __init__(self) -> None:
        self._open = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._browser: Browser | None = None

    async def browser(self) -> Browser:
        loop = asyncio.get_running_loop()
        if self._browser is None:
            need("chromium")
            playwright = await self._open.enter_async_context(async_playwright())
            self._browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=list(FLAGS)
            )
            self._open.push_async_callback(self._browser.close)
            self._loop = loop
        assert loop is self._loop, "mark this test with ON_THE_SHARED_LOOP"
        return self._browser

    async def close(self) -> None:
        self._browser = None
        await self._open.aclose()


SHARED: Final = SharedBrowser()


@asynccontextmanager
async def browsing(
    url: str, *, dark: bool = False, size: tuple[int, int] = SIZE
) -> AsyncIterator[Page]:
    """Open a page with a new profile."""
    faults: list[str] = []
    browser = await SHARED.browser()
    profile = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        timezone_id=ZONE,
        permissions=["clipboard-read", "clipboard-write"],
    )
    try:
        page = await profile.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.extend(_errors(message)))
        page.on("request", lambda sent: faults.extend(_foreign(sent.url, url)))
        yield page
    finally:
        await profile.close()
    assert faults == [], faults


def _foreign(sent: str, url: str) -> list[str]:
    """Return a request to another server; what the page made itself (blob:) is not one."""
    return [] if sent.startswith((url, f"blob:{url}")) else [sent]


def _errors(message: ConsoleMessage) -> list[str]:
    """Errors of the page itself: the browser also logs every 4xx response, which is not one."""
    is_answer = message.text.startswith("Failed to load resource")
    return [message.text] if message.type == "error" and not is_answer else []


async def open_session(page: Page, url: str, session_id: str, place: str = "turn") -> None:
    """Open a session by its URL, and wait until its timeline is drawn."""
    await page.goto(f"{url}/#/s/{quote(session_id, safe='')}/{place}")
    await expect(page.get_by_role("slider", name="Turns")).to_have_attribute(
        "aria-valuetext", _A_TURN
    )


async def photograph(page: Page, name: str) -> Path:
    """Save a screenshot, to be viewed after the tests."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTEFACTS / f"{name}.png"
    await page.screenshot(path=path)
    return path


_A_TURN: Final = re.compile(r"^turn \d+")
