"""The inspector with tokens, on a read-only server, and when the server stops."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from playwright.async_api import expect

from tests.surfaces.http.inspector.browsing import (
    ON_THE_SHARED_LOOP,
    browsing,
    open_session,
    photograph,
)
from tests.surfaces.http.servers import CTXMGR, WAIT_SECONDS, Server, serving
from tests.surfaces.worked_sessions import Worked, json_of


@pytest.fixture
def token(ctxmgr: Callable[..., Result]) -> str:
    """A token without restrictions."""
    return str(json_of(ctxmgr("token", "--json"))["token"])


@pytest.fixture
def session_token(ctxmgr: Callable[..., Result], seen: Worked) -> str:
    """A token for one session."""
    return str(json_of(ctxmgr("token", "--session", seen.sid, "--json"))["token"])


@ON_THE_SHARED_LOOP
async def test_the_page_asks_for_a_token(seen: Worked, token: str) -> None:
    """A wrong token is refused with the reason; a valid one is kept only for this tab."""
    with serving(seen.url, "--require-token", "--no-open") as server:
        async with browsing(server.url) as page:
            await page.goto(server.url)
            await page.get_by_label("Token", exact=True).fill("ctxmgr_wrong")
            await page.get_by_role("button", name="Use token").click()
            await expect(page.locator("#token-fault")).not_to_be_empty()

            await page.get_by_label("Token", exact=True).fill(token)
            await page.get_by_role("button", name="Use token").click()

            await expect(page.locator("#session-list .row")).to_have_count(1)
            await expect(page.locator("#live")).to_have_class("live")
            assert token not in page.url
            assert await page.evaluate("localStorage.length") == 0


@ON_THE_SHARED_LOOP
async def test_a_token_of_one_session_shows_that_session(seen: Worked, session_token: str) -> None:
    """Its holder opens the session by its URL; the list stays empty."""
    with serving(seen.url, "--require-token", "--no-open") as server:
        async with browsing(server.url) as page:
            await page.goto(f"{server.url}/#token={session_token}")
            await expect(page.locator(".notice")).to_contain_text("one session")

            await open_session(page, server.url, seen.sid, "turn/2")

            await expect(page.locator(".turn-head")).to_contain_text("✓ verified")
            assert session_token not in page.url


@ON_THE_SHARED_LOOP
async def test_a_read_only_server_is_marked_as_such(seen: Worked) -> None:
    """The page shows that a change was refused."""
    with serving(seen.url, "--read-only", "--no-open") as server:
        async with browsing(server.url) as page:
            await open_session(page, server.url, seen.sid, f"objects/{seen.notes}")

            await page.locator("[data-change=pin]").click()

            await expect(page.locator(".notice")).to_contain_text("read-only")


@ON_THE_SHARED_LOOP
async def test_a_stopped_server_is_detected(server: Server, seen: Worked) -> None:
    """The live indicator goes out at once, and failed requests are shown."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid)
        await expect(page.locator("#live")).to_have_class("live")

        server.end()

        await expect(page.locator("#live")).not_to_have_class("live")
        await page.keyboard.press("ArrowLeft")
        await expect(page.locator(".notice")).to_be_visible()
        await expect(page.locator(".prompt")).to_have_text("the server cannot be reached")
        await expect(page.locator(".turn .row")).to_have_count(0)
        await photograph(page, "server-gone")


def test_serve_opens_the_inspector(seen: Worked, home: Path) -> None:
    """In an interactive terminal with a display; `--no-open` does not open a browser."""
    opened = home / "opened"
    os.mkfifo(opened)
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [*CTXMGR, "serve", "--port", "0", "--store", seen.url],
        stdout=inside,
        env={**os.environ, "DISPLAY": ":none", "BROWSER": str(browser)},
    )
    try:
        url = opened.read_text(encoding="utf-8")

        output = os.read(terminal, 4096).decode()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_SECONDS)
        os.close(terminal)
        os.close(inside)
    assert url.startswith("http://127.0.0.1:")
    assert url in output
