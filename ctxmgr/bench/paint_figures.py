"""The inspector's first paint of a long session, in a real browser with nothing cached.

painted   the session stands on the screen: its newest turns, in a timeline with room for all
all       the bar of every turn does

Both from the beginning of the navigation: the page's files, the server's answers and the drawing.
Each round has a server and a browser of its own, so that neither knows the session. The page notes
the moments itself, as attributes of the timeline.
"""

import os
import shutil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxmgr.bench.http_figures import own_server
from ctxmgr.bench.long_session import LongPlan, build_long_session
from ctxmgr.bench.report import Figure, Say, reported, within
from ctxmgr.core.objects import KINDS
from ctxmgr.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from playwright.async_api import Playwright

PAINT_BOUND_SECONDS: Final = 1.0
ROUNDS: Final = 5
QUICK_ROUNDS: Final = 1
PAINT_WAIT_MS: Final = 30_000
"""After which there is no use in waiting for the timeline."""

_WHAT: Final = "inspector's first paint of a session of {turns:,} turns"
_AGAINST: Final = "the clock, from the navigation, in Chromium with nothing cached"
_FLAGS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
)


async def paint_figures(*, quick: bool, say: Say) -> list[Figure]:
    """Measure in a folder of the working directory, since /tmp may live in memory."""
    plan = LongPlan()
    what = _WHAT.format(turns=plan.turns)
    chromium = shutil.which("chromium")
    try:
        from playwright.async_api import async_playwright  # noqa: PLC0415 (only to measure)
    except ModuleNotFoundError:
        return [reported(what, None, against=_AGAINST, note="needs playwright")]
    if chromium is None:
        return [reported(what, None, against=_AGAINST, note="needs Chromium")]
    with TemporaryDirectory(prefix="ctxmgr-bench-", dir=Path.cwd()) as folder:
        path = Path(folder) / "long.db"
        say(f"build a session of {plan.turns:,} turns")
        async with await SqliteStore.open(path, kinds=KINDS, durability="normal") as store:
            await build_long_session(store, plan)
        taken = []
        async with async_playwright() as playwright:
            for _ in range(QUICK_ROUNDS if quick else ROUNDS):
                say("paint it")
                async with own_server(path) as url:
                    address = f"{url}/#/s/{plan.session_id}/turn"
                    taken.append(await _painted(playwright, chromium, address, turns=plan.turns))
    return _figures(what, taken)


class _Painted(NamedTuple):
    """Seconds from the navigation."""

    first: float
    all: float


async def _painted(playwright: "Playwright", chromium: str, url: str, *, turns: int) -> _Painted:
    """Open the page, and wait until it is painted."""
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    browser = await playwright.chromium.launch(executable_path=chromium, args=flags)
    try:
        page = await browser.new_page()
        await page.goto(url)
        timeline = page.locator(f'canvas[data-turns="{turns}"]')
        await timeline.wait_for(timeout=PAINT_WAIT_MS)
        names = ("data-painted-ms", "data-turns-ms")
        noted = [await timeline.get_attribute(name) for name in names]
        return _Painted(*(float(each or "nan") / 1000 for each in noted))
    finally:
        await browser.close()


def _figures(what: str, taken: list[_Painted]) -> list[Figure]:
    first = [each.first for each in taken]
    return [
        within(
            what,
            median(first),
            bound=PAINT_BOUND_SECONDS,
            unit="s",
            against=_AGAINST,
            note=f"{min(first):.2f} to {max(first):.2f} s in {len(taken)} rounds",
        ),
        reported(
            "the bars of all turns in it, in seconds",
            median(each.all for each in taken),
            against=_AGAINST,
        ),
    ]
