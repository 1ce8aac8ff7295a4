"""An audit log that an earlier version wrote is still read, verified and continued."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from ctxmgr.audit.log import AuditLog
from ctxmgr.audit.records import AuditEntry
from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import EventOrigin

FIXTURE: Final = Path(__file__).parent / "fixtures" / "audit-1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy with the permissions of a log, which a repository does not keep."""
    root = Path(shutil.copytree(FIXTURE, tmp_path / "audit"))
    root.chmod(0o700)
    for path in root.iterdir():
        path.chmod(0o600)
    return root


async def test_a_log_of_format_1_is_read_and_verified(root: Path) -> None:
    """000-R099, 000-R103: records outlive the code that wrote them."""
    async with await AuditLog.open(root, be_id="be", reviewers=lambda _: "alice") as log:
        result = await log.verify(every_hash=True)
        records = await log.query("any", session_id="s/ü:1")

    assert result.faults == ()
    assert (result.checkpoints, result.signed) == (1, 5)
    assert [record.id for record in records] == [
        *("audit-s/ü:1-0-0", "audit-s/ü:1-0-1", "audit-s/ü:1-1-0", "audit-s/ü:1-1-1"),
        *("audit-s/ü:1-2-0", "audit-s/ü:1-2-1"),
    ]
    assert records[3].raw_content == 'line 3\n"quoted" ☃'
    assert records[3].source == EventOrigin("store-1", 7, 3, 0)
    assert records[0].prev_record_hash == "genesis"


async def test_it_is_continued(root: Path) -> None:
    """PG-15: the chain, the sequences and the events go on where the earlier version stopped."""
    event = AuditEntry(
        session_id="s/ü:1",
        tick=2,
        event_type=EventType.INPUT,
        raw_content="again",
        timestamp=1,
        source=EventOrigin("store-1", 7, 3, 0),
    )
    async with await AuditLog.open(root, be_id="be") as log:
        repeated = await log.append(event)
        record_id = await log.writer.record(
            session_id="s/ü:1", tick=2, event_type=EventType.INPUT, raw_content="next"
        )
        result = await log.verify()

    assert repeated is None
    assert record_id == "audit-s/ü:1-2-2"
    assert result.faults == ()
