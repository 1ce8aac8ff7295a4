"""Objects, their versions, changes by the user, and the session as of any point."""

from playwright.async_api import Locator, Page, expect

import ctxmgr
from tests.surfaces.http.inspector.browsing import (
    ON_THE_SHARED_LOOP,
    browsing,
    open_session,
    photograph,
)
from tests.surfaces.http.servers import Server
from tests.surfaces.worked_sessions import Worked, mounts

pytestmark = ON_THE_SHARED_LOOP

HOSTILE = "<img src=x onerror=\"document.title='hit'\"><b>bold</b>"


async def test_objects_are_listed_by_level(server: Server, seen: Worked) -> None:
    """Active objects come first, and files have the agent's paths."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "objects")
        rows = page.locator(".objects .row")
        await expect(rows).to_have_count(4)
        await expect(rows.filter(has_text="/workspace/notes.md")).to_have_count(1)

        await page.get_by_label("Filter objects").fill("main.py")

        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("stub")


async def test_an_object_shows_its_versions_and_their_differences(
    server: Server, seen: Worked
) -> None:
    """Each version has both times and a diff to the previous one."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, f"objects/{seen.notes}")
        await expect(page.locator(".version")).to_have_count(2)
        await expect(page.locator(".diff .added")).to_contain_text("+port = 9090")
        await expect(page.locator(".diff .removed")).to_contain_text("-port = 8080")
        await photograph(page, "object")

        await page.locator(".version").first.click()

        await expect(page.locator(".object .code").last).to_have_text("port = 8080\n")
        await expect(page.locator(".diff")).to_have_count(0)


async def test_objects_can_be_folded_activated_and_pinned(server: Server, seen: Worked) -> None:
    """The page shows what is stored and what the agent's next prompt will contain."""

    async def stored() -> tuple[str | None, bool]:
        async with ctxmgr.connect(seen.url, tracking=False) as client:
            sets = (await client.visit(seen.sid)).sets
        return sets.level(seen.notes), seen.notes in sets.pinned_set

    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, f"objects/{seen.notes}")
        steps = [
            ("deactivate", ("metadata", False)),
            ("pin", ("metadata", True)),
            ("activate", ("active", True)),
            ("unpin", ("active", False)),
        ]
        for change, outcome in steps:
            await page.locator(f"[data-change={change}]").click()
            await expect(page.locator(f"[data-change={change}]")).to_have_count(0)

            assert await stored() == outcome


async def test_a_change_that_fails_is_explained(server: Server, seen: Worked) -> None:
    """The server may not read the files of this session: the page says why and what to do."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, f"objects/{seen.stub}")

        await page.locator("[data-change=activate]").click()

        await expect(page.locator(".notice")).to_contain_text("no access to the files")
        await expect(page.locator(".notice")).to_contain_text("--mount")


async def test_the_list_follows_other_clients(server: Server, seen: Worked) -> None:
    """Objects that an agent adds while the page is open appear in the list."""
    (seen.project / "more.md").write_text("more\n", encoding="utf-8")
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "objects")
        await expect(page.locator(".objects .row")).to_have_count(4)
        await expect(page.locator("#live")).to_have_class("live")

        async with ctxmgr.connect(seen.url, mounts=mounts(seen.project), tracking=False) as client:
            session = await client.resume(seen.sid)
            await session.read("/workspace/more.md")

        await expect(page.locator(".objects .row")).to_have_count(5)


async def test_untrusted_text_is_displayed_as_text(server: Server, seen: Worked) -> None:
    """Files may contain anything, but none of it is ever executed in the page."""
    async with ctxmgr.connect(seen.url, tracking=False) as client:
        session = await client.resume(seen.sid)
        await session.render(HOSTILE)
        await session.record("evil", tool=HOSTILE, args={}, output=HOSTILE)
        await session.end_turn(HOSTILE)
        await session.render("And now?")
        await session.end_turn("-")
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "turn/5")
        await expect(page.locator(".piece", has_text="<img").first).to_be_visible()
        await page.keyboard.press("3")
        await page.locator(".objects .row", has_text="<img").click()
        await expect(page.locator(".object .code").last).to_have_text(HOSTILE)

        assert await page.title() == "ctxmgr"
        assert await page.locator("main img, main b", has_text="bold").count() == 0


async def test_a_session_is_shown_as_of_a_point(server: Server, seen: Worked) -> None:
    """Both axes: what was known at the first turn, and what is known of it today."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "time")
        await expect(_turns(page)).to_have_text("3 turns")

        await page.get_by_role("slider", name="Turns").click(position={"x": 100, "y": 80})

        await expect(_turns(page)).to_have_text("1 turn")
        await page.locator(".as-of summary").click()
        await page.locator(".as-of-row", has_text="notes.md").click()
        await expect(page.locator(".time .believed .code")).to_have_text("port = 8080\n")
        await photograph(page, "as-of")


async def test_the_two_axes_move_independently(server: Server, seen: Worked) -> None:
    """Valid then, known now: a file had changed before it was read again."""
    async with browsing(server.url) as page:
        await open_session(page, server.url, seen.sid, "time")
        await expect(_turns(page)).to_have_text("3 turns")
        await page.get_by_label("same moment on both axes").uncheck()

        await page.get_by_label("System time").press("Home")

        await expect(page.locator(".axis", has_text="System time")).to_contain_text(
            "before the first turn"
        )
        await expect(page.locator(".axis", has_text="Valid time")).to_contain_text("after turn 3")
        await expect(_turns(page)).not_to_have_text("3 turns")


def _turns(page: Page) -> Locator:
    return page.locator(".as-of .facts span").first
