"""Audit logs for the tests."""

from pathlib import Path
from typing import Any

from ctxmgr.audit.log import AuditLog
from ctxmgr.core.events.event_type import EventType
from ctxmgr.errors import Denied

CREDENTIAL = "reviewer-1"


def reviewers(credential: str) -> str:
    if credential != CREDENTIAL:
        raise Denied("this is not a reviewer's credential")
    return "alice"


async def created(root: Path) -> str:
    return await AuditLog.create(root, log_id="log-1")


async def opened(root: Path, **options: Any) -> AuditLog:
    return await AuditLog.open(root, be_id="be-1", reviewers=reviewers, **options)


async def filled(root: Path, count: int, **options: Any) -> None:
    """Create a log, if there is none, and append records to it."""
    if not (root / "audit.json").exists():
        await created(root)
    async with await opened(root, **options) as log:
        for number in range(count):
            await log.writer.record(**record(number))


def record(number: int, **changes: Any) -> dict[str, Any]:
    values = {
        "session_id": f"s{number % 3}",
        "tick": number,
        "event_type": EventType.OUTPUT,
        "raw_content": f"token {number} " + "x" * (number * 37 % 200),
        "lens_activations": {f"org.hatcat/pack::C{number % 5}": 0.25, "hidden": 0.5},
        "steering_applied": [{"concept": "Honesty", "strength": 0.5}] if number % 4 == 0 else [],
    }
    return {**values, **changes}
