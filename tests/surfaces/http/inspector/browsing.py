"""A real browser on the inspector of a real server, and the checks of every test.

In every test the page logs no error, does not violate its content security policy, and sends
requests only to its own server.
"""

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from playwright.async_api import ConsoleMessage, Page, async_playwright, expect

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
WAIT_MS: Final = 15_000
"""A browser, a server and other tests share two cores; without load nothing takes a second."""
SIZE: Final = (1400, 900)

expect.set_options(timeout=WAIT_MS)


@asynccontextmanager
async def browsing(
    url: str, *, dark: bool = False, size: tuple[int, int] = SIZE
) -> AsyncIterator[Page]:
    """Open a page in a new browser."""
    need("chromium")
    faults: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        try:
            page = await browser.new_page(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if dark else "light",
                reduced_motion="reduce",
            )
            page.set_default_timeout(WAIT_MS)
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda message: faults.extend(_errors(message)))
            page.on(
                "request",
                lambda sent: faults.append(sent.url) if not sent.url.startswith(url) else None,
            )
            yield page
        finally:
            await browser.close()
    assert faults == []


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
