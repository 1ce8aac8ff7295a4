"""Audit logs for the benchmarks, and what is recorded in them. Creates folders."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ctxmgr.audit.log import AuditLog
from ctxmgr.audit.records import AuditEntry
from ctxmgr.core.events.event_type import EventType

CONTENT_CHARS: Final = (20, 200, 1_000, 4_000)
"""Lengths of contents: a token, a short message, a paragraph, a tool's output."""

LENSES: Final = 10


@asynccontextmanager
async def opened(root: Path, *, create: bool = False) -> AsyncIterator[AuditLog]:
    """Open a log; create it first if asked to."""
    if create:
        await AuditLog.create(root, log_id="bench")
    async with await AuditLog.open(root, be_id="bench") as log:
        yield log


def entries(count: int, *, session: str = "bench") -> Iterator[AuditEntry]:
    """Yield entries of several sizes."""
    for number in range(count):
        chars = CONTENT_CHARS[number % len(CONTENT_CHARS)]
        text = f"record {number} of a session: "
        yield AuditEntry(
            session_id=session,
            tick=number,
            event_type=EventType.OUTPUT,
            raw_content=(text * (chars // len(text) + 1))[:chars],
            timestamp=1_763_287_200_000 + number,
            lens_activations={
                f"org.example/pack-v1::Concept{lens}": (number * lens % 97) / 97
                for lens in range(LENSES)
            },
        )


def segments(root: Path) -> list[Path]:
    return sorted(root.glob("segment-*.jsonl"))
