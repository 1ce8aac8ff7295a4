"""Benchmark of the inspector's first paint of a long session, in a browser without a cache.

    first     the newest turns are visible, in a timeline with room for all turns
    all       the bar of every turn is visible

Times are measured from the start of the navigation and include the page's files, the server's
responses and the drawing. Each round starts a new server and a new browser, so that nothing is
cached. The page records the times itself, as attributes of the timeline.
"""

import os
import shutil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxmgr.bench.report import Figure, Say, reported, within
from ctxmgr.bench.surfaces.http import own_server
from ctxmgr.bench.surfaces.long_session import LongPlan, build_long_session
from ctxmgr.core.objects.codec import KINDS
from ctxmgr.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from playwright.async_api import Playwright


PAINT_BOUND_SECONDS: Final = 1.0
ALL_BOUND_SECONDS: Final = 2.0
ROUNDS: Final = 5
QUICK_ROUNDS: Final = 1
PAINT_WAIT_MS: Final = 30_000
"""Time limit for the timeline to appear."""

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
    """Measure in a folder of the working directory, because /tmp may be in memory."""
    plan = LongPlan(turns=100, pool=300, objects=1_000) if quick else LongPlan()
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
        rounds = []
        async with async_playwright() as playwright:
            for _ in range(QUICK_ROUNDS if quick else ROUNDS):
                say("paint it")
                async with own_server(path) as url:
                    address = f"{url}/#/s/{plan.session_id}/turn"
                    rounds.append(await _paint(playwright, chromium, address, turns=plan.turns))
    return _figures(what, rounds)


class _Painted(NamedTuple):
    """Seconds from the navigation."""

    first: float
    all: float


async def _paint(playwright: "Playwright", chromium: str, url: str, *, turns: int) -> _Painted:
    """Open the page, and wait until it is painted."""
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    browser = await playwright.chromium.launch(executable_path=chromium, args=flags)
    try:
        page = await browser.new_page()
        await page.goto(url)
        timeline = page.locator(f'canvas[data-turns="{turns}"]')
        await timeline.wait_for(timeout=PAINT_WAIT_MS)
        names = ("data-painted-ms", "data-turns-ms")
        times_ms = [await timeline.get_attribute(name) for name in names]
        return _Painted(*(float(ms or "nan") / 1000 for ms in times_ms))
    finally:
        await browser.close()


def _figures(what: str, rounds: list[_Painted]) -> list[Figure]:
    first = [painted.first for painted in rounds]
    return [
        within(
            what,
            median(first),
            bound=PAINT_BOUND_SECONDS,
            unit="s",
            against=_AGAINST,
            note=f"{min(first):.2f} to {max(first):.2f} s in {len(rounds)} rounds",
        ),
        within(
            "the bars of all turns in it",
            median(painted.all for painted in rounds),
            bound=ALL_BOUND_SECONDS,
            unit="s",
            against=_AGAINST,
        ),
    ]
