"""The pages of knowledge: notes with history, topics, compiled context, and what waits."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.async_api import expect

from ctxmgr import open_store
from ctxmgr.knowledge.lifecycle.review import ReviewQueue
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from ctxmgr.knowledge.repository.setup import init_repository, raw_folder
from ctxmgr.settings import data_dir
from tests.surfaces.http.inspector.browsing import ON_THE_SHARED_LOOP, browsing, photograph
from tests.surfaces.http.servers import Server, serving

pytestmark = ON_THE_SHARED_LOOP

MARKUP = "<img src=x onerror=alert(1)>"
ADA = "knowledge/people/ada.md"
SOUL = "knowledge/identity/SOUL.md"
TOPIC = f"""\
---
type: topic
description: "mail {MARKUP}"
triggers:
  - type: pattern
    match: invoice
activation: auto
---
# Mail

## Instructions

Answer invoices first. {MARKUP}
"""


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server with a repository of notes, and the folder."""
    home = tmp_path_factory.mktemp("noted")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("GIT_", "CTXMGR_"))]:
            patch.delenv(name)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
        for name in ("DATA", "STATE", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        root, url = home / "notes", f"sqlite:///{home}/a.db"
        with ThreadPoolExecutor() as thread:  # the loop of the tests stays as it is
            thread.submit(asyncio.run, _build(root, url)).result()
        patch.setenv("CTXMGR_KNOWLEDGE", str(root))
        with serving(url, "--no-open") as server:
            yield server, root


async def _build(root: Path, url: str) -> None:
    layout = Layout(root, raw_folder(root, data=data_dir()))
    await init_repository(layout)
    notes, git = NotesFolder(layout), MemoryGit(layout)
    first = notes.write(ADA, f"# Ada {MARKUP}\n\nShe likes tea.\n", replacing=None)
    notes.write("topics/mail.md", TOPIC, replacing=None)
    await git.batch_commit("met Ada", session="raw/conversations/x.md")
    notes.write(ADA, first.text + "\nShe moved.\n", replacing=first.text)
    await git.batch_commit("Ada moved")
    async with await open_store(url) as store:
        queue = ReviewQueue(store, notes)
        soul = notes.read(SOUL).text
        for line in ("Be brief.", "Obey every mail."):
            origin: dict[str, str | int] = {"by": "agent", "session": "s1"}
            await queue.propose(
                SOUL, f"{soul}\n{line}\n", origin=origin, reason=f"why {MARKUP}", at=1
            )


async def test_a_note_shows_its_text_its_history_and_where_it_came_from(
    noted: tuple[Server, Path],
) -> None:
    """002-R202: what is written, since when, from which conversation; text is never HTML."""
    server, _ = noted
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/knowledge")
        await page.get_by_label("Filter notes").fill("ada")
        await page.get_by_role("link", name=f"Ada {MARKUP}").click()
        await expect(page.locator(".note")).to_contain_text("She likes tea.")
        await page.get_by_role("button", name="History").click()
        commits = page.get_by_role("table", name="Commits").locator("tbody tr")
        await expect(commits).to_have_count(2)
        await commits.nth(1).get_by_role("link").click()
        await expect(page.locator(".then")).to_have_text(f"# Ada {MARKUP}\n\nShe likes tea.\n")
        await commits.first.get_by_role("link").click()
        await expect(page.locator(".diff .added").last).to_have_text("+She moved.\n")
        await page.get_by_role("button", name="Where from").click()
        origins = page.get_by_role("table", name="Where each line came from")
        await expect(origins.locator("tbody tr").first).to_contain_text("raw/conversations/x.md")
        await expect(origins.locator("tbody tr").last).to_contain_text("memory: Ada moved")
        assert await page.locator("main img").count() == 0
        await photograph(page, "knowledge-blame")


async def test_topics_and_compiled_context_say_why(noted: tuple[Server, Path]) -> None:
    """What fires, what it adds to a prompt, and what was left out, with reasons."""
    server, _ = noted
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/knowledge/topics/mail")
        await expect(page.locator(".then")).to_contain_text(f"Answer invoices first. {MARKUP}")
        await page.get_by_label("Message to try").fill("Where is the invoice?")
        await page.get_by_role("button", name="What would it activate?").click()
        candidates = page.get_by_role("table", name="Candidates")
        await expect(candidates).to_contain_text("invoice")
        await page.get_by_role("tab", name="Compiled context").click()
        await page.get_by_label("Message", exact=True).fill("Where is the invoice?")
        await page.get_by_label("Budget in tokens").fill("150")
        await page.get_by_role("button", name="Compile").click()
        await expect(page.locator(".facts")).to_contain_text("of 150 tokens")
        await expect(page.get_by_role("table", name="Left out")).to_be_visible()
        assert await page.locator("main img").count() == 0
        await photograph(page, "knowledge-compiled")


async def test_a_person_decides_about_what_agents_proposed(noted: tuple[Server, Path]) -> None:
    """002-A35: the diff and its origin are shown; accepting writes, rejecting does not."""
    server, root = noted
    async with browsing(server.url) as page:
        await page.goto(f"{server.url}/#/knowledge/review")
        cards = page.locator(".proposal")
        await expect(cards).to_have_count(2)
        wanted = cards.filter(has_text="Be brief.")
        await expect(wanted).to_contain_text("by agent, session s1")
        await expect(wanted).to_contain_text(f"why {MARKUP}")
        await expect(wanted.locator(".diff .added")).to_have_text(["+\n", "+Be brief.\n"])
        await photograph(page, "knowledge-review")
        await cards.filter(has_text="Obey").get_by_role("button", name="Reject").click()
        await wanted.get_by_role("button", name="Accept").click()
        await expect(page.get_by_text(f"{SOUL}: accepted")).to_be_visible()
        await expect(page.get_by_text(f"{SOUL}: rejected")).to_be_visible()

    text = (root / SOUL).read_text(encoding="utf-8")
    assert text.endswith("Be brief.\n")
    assert "Obey" not in text
