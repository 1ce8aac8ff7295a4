"""The pages of living memory: tiers and why, growth, contradictions, and both time axes."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.async_api import expect

from ctxmgr.app import App
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import Author, MemoryKind, Origin
from ctxmgr.settings import load_settings
from tests.surfaces.http.inspector.browsing import ON_THE_SHARED_LOOP, browsing, photograph
from tests.surfaces.http.servers import Server, serving

pytestmark = ON_THE_SHARED_LOOP

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A server of a project with some memories, and the id of one that was corrected."""
    home = tmp_path_factory.mktemp("remembering")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DATA", "STATE", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        patch.chdir(home)
        url = f"sqlite:///{home}/a.db"
        with ThreadPoolExecutor() as thread:  # the loop of the tests stays as it is
            corrected = thread.submit(asyncio.run, _build(url)).result()
        with serving(url, "--no-open") as server:
            yield server, corrected


async def _build(url: str) -> str:
    app = App(load_settings(store=url))
    memory = await app.memory()
    await memory.add(
        Fact(key="greeting", value=f"never {MARKUP}"),
        kind=MemoryKind.INSTRUCTION,
        valid_from=1_700_000_000_000,
    )
    editor = await memory.add(
        Fact(key="editor", value="vim"), author=Author.AGENT, origin=Origin(session_id="s1", turn=3)
    )
    await memory.edit(editor.memory.id, Fact(key="editor", value="nano"))
    await memory.forget(editor.memory.id, because="nobody edits")
    await memory.add(Fact(key="gateway port", value="8080"))
    await memory.add(Fact(key="gateway port", value="9090"))
    await app.close()
    return editor.memory.id


async def test_a_person_sees_why_a_memory_is_in_a_prompt(
    remembering: tuple[Server, str],
) -> None:
    """001-R107: tokens by tier, where each memory comes from, and why others are not shown."""
    server, _ = remembering
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/memory")
        first = page.get_by_role("table", name="Tier 1")
        await expect(first).to_contain_text(f"never {MARKUP}")
        await expect(first).to_contain_text("open contradiction")
        await expect(page.locator(".facts")).to_contain_text("of 8,000 tokens")
        await page.get_by_label("Message").fill("which gateway port?")
        await page.get_by_label("Budget in tokens").fill("60")
        await page.get_by_role("button", name="Assemble").click()
        await expect(page.locator(".facts")).to_contain_text("of 60 tokens")
        await expect(page.get_by_role("table", name="Not shown")).to_be_visible()
        assert await page.locator("main img").count() == 0
        await photograph(page, "memory-tiers")


async def test_a_memory_is_shown_on_both_time_axes(remembering: tuple[Server, str]) -> None:
    """What was believed when, and what was true when, from first sight to being forgotten."""
    server, corrected = remembering
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/memory/all")
        await expect(page.get_by_role("img", name="4 memories learnt, 3 hold")).to_be_visible()
        await page.get_by_label("Filter memories").fill("nano")
        await page.get_by_role("table", name="Memories").get_by_role("link").click()
        assert page.url.endswith(f"#/memory/one/{corrected}")
        versions = page.get_by_role("table", name="Versions").locator("tbody tr")
        await expect(versions).to_have_count(3)
        await expect(versions.first).to_contain_text("vim")
        await expect(versions.last).to_contain_text("nobody edits")
        await expect(page.locator(".time-plane rect")).to_have_count(3)
        await expect(page.locator(".facts")).to_contain_text("in s1, turn 3")
        await photograph(page, "memory-history")


async def test_a_contradiction_is_resolved_side_by_side(remembering: tuple[Server, str]) -> None:
    """001-R112: a person sees both sides with their sources, and decides."""
    server, _ = remembering
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/memory/contradictions")
        sides = page.locator(".contradiction .side")
        await expect(sides).to_have_count(2)
        await expect(sides.nth(0)).to_contain_text("8080")
        await photograph(page, "memory-contradictions")
        await page.get_by_label("Why").fill("asked the team")
        await sides.nth(1).get_by_role("button", name="This one holds").click()
        await expect(page.get_by_text("Resolved: the second one holds.")).to_be_visible()
        await page.get_by_role("button", name="Resolved, too").click()
        await expect(page.locator(".contradiction")).to_contain_text("asked the team")
        assert await page.locator("main img").count() == 0
