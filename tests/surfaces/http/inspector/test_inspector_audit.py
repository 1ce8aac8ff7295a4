"""The page of the audit log: a reviewer's token, the state, verification, records."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from ctxmgr import open_store
from ctxmgr.audit.log import AuditLog
from ctxmgr.core.events.event_type import EventType
from ctxmgr.settings import data_dir
from ctxmgr.surfaces.access_tokens import Grant, make_secret, mint
from tests.surfaces.http.inspector.browsing import ON_THE_SHARED_LOOP, browsing, photograph
from tests.surfaces.http.servers import Server, serving

pytestmark = ON_THE_SHARED_LOOP

REVIEWER = Grant(
    session_id=None, writes=False, expires=None, token_id="0123456789abcdef", reviewer="alice"
)
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
async def audited(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    url, folder = f"sqlite:///{home}/a.db", home / "audit"
    await (await open_store(url)).close()
    await AuditLog.create(folder, log_id="log")
    async with await AuditLog.open(folder, be_id="be") as log:
        for number in range(60):
            await log.writer.record(
                session_id="s1" if number else "other",
                tick=number,
                event_type=EventType.STEERING,
                raw_content=f"said {number} {MARKUP}",
                lens_activations={"hidden/Deception": 0.75},
                steering_applied=[{"concept_id": "hidden/Deception", "strength": -0.5}],
            )
    make_secret(data_dir())
    monkeypatch.setenv("CTXMGR_AUDIT", str(folder))
    with serving(url, "--no-open") as server:
        yield server


async def test_a_reviewer_verifies_and_reads_the_log(audited: Server, home: Path) -> None:
    """000-R104, 000-R105: hidden lenses and steering included; contents are text."""
    token = mint(make_secret(data_dir()), REVIEWER)
    async with browsing(audited.url) as page:
        await page.goto(f"{audited.url}/#/audit/s1")
        await expect(page.locator(".hint")).to_contain_text("needs a reviewer's token")
        await page.get_by_label("Reviewer's token").fill(token)
        await page.get_by_role("button", name="Use token").click()
        await expect(page.locator(".facts")).to_contain_text("60 records in 1 segment")

        await page.get_by_role("button", name="Verify the log").click()
        await expect(page.locator(".verified")).to_contain_text("60 records as they were written")
        await page.get_by_role("button", name="Query").click()
        await expect(page.locator(".audit-record")).to_have_count(50)
        await page.get_by_role("button", name="Show more").click()
        await expect(page.locator(".audit-record")).to_have_count(59)
        await page.locator(".audit-record summary").first.click()
        first = page.locator(".audit-record").first
        await expect(first).to_contain_text("hidden/Deception 0.75")
        await expect(first.locator("pre")).to_have_text(f"said 1 {MARKUP}")
        assert await page.locator(".audit img").count() == 0
        await photograph(page, "audit")

        segment = home / "audit" / "segment-00000001.jsonl"
        segment.write_bytes(segment.read_bytes().replace(b"said 7 ", b"said 8 ", 1))
        await page.get_by_role("button", name="Verify the log").click()
        await expect(page.locator(".verified")).to_contain_text(re.compile("record 8.*raw_content"))
        await page.get_by_role("button", name="Forget the token").click()
        await expect(page.locator(".hint")).to_be_visible()
        assert await page.evaluate("sessionStorage.length") == 0
