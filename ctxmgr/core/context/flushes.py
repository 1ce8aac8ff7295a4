"""Let layers save what matters before turns are summarised, within a time limit. Waits for layers.

A layer that fails or is late is logged: it never fails a turn.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushRequest:
    """The turns of a session that are about to be shown as a summary."""

    session_id: str
    first: int
    last: int
    """The numbers of the turns."""
    text: str = field(repr=False)
    """The turns as they are shown, after the summary of earlier ones."""


class Flusher(Protocol):
    """Saves what matters of turns that are about to be shown as a summary.

    It is called once before each compaction. If it fails or is late, this is logged, and the
    compaction goes on: nothing is lost from the store by it.
    """

    name: str
    """Identifies the flusher in logs."""

    async def flush(self, request: FlushRequest) -> None:
        """Save what matters; nothing is returned."""
        ...


FLUSH_SECONDS: Final = 10.0
"""For one layer to save. It happens once in a long session, and may write files."""

_log = logging.getLogger(__name__)


async def flush(flushers: Iterable[Flusher], request: FlushRequest) -> None:
    """Ask all layers at once, and wait until they have saved."""
    await asyncio.gather(*(_ask(flusher, request) for flusher in flushers))


async def _ask(flusher: Flusher, request: FlushRequest) -> None:
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            await flusher.flush(request)
    except Exception:  # noqa: BLE001 (whatever a layer does wrong)
        _log.exception(
            "%s did not save turns %d to %d of %s",
            flusher.name,
            request.first,
            request.last,
            request.session_id,
        )
