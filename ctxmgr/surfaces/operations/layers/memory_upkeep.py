"""``ctxmgr memory consolidate``: keep memories in order. Imports when it runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App

_PROJECT = Param("The project's folder; default: the current one.", metavar="DIR", local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedMemory:
    """What a consolidation did, or would do."""

    dry_run: bool
    deduped: int
    """Facts that another one took the place of, because it says the same."""
    compressed: int
    """Episodes that are shown shorter from now on."""
    forgotten: int
    contradictions_found: int
    promoted: int
    """Memories that are offered again, because they were used."""
    demoted: int
    links_found: int
    skipped: int
    """Changes that were left to the next run, because somebody changed the same memory."""
    details: tuple[str, ...]


async def memory_consolidate(
    app: "App",
    *,
    dry_run: Annotated[bool, Param("Count what would change, and change nothing.")] = False,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ConsolidatedMemory:
    """Merge, condense, rank, compare, forget and link memories.

    `ctxmgr serve` does it once a day. Nothing is deleted: what is forgotten can be restored.
    """
    memory = await app.memory(project)
    report = await memory.consolidate(dry_run=dry_run, progress=app.say)
    counts = report.counts
    return ConsolidatedMemory(
        dry_run=report.dry_run,
        deduped=counts.deduped,
        compressed=counts.compressed,
        forgotten=counts.forgotten,
        contradictions_found=counts.contradictions_found,
        promoted=counts.promoted,
        demoted=counts.demoted,
        links_found=counts.links_found,
        skipped=counts.skipped,
        details=report.details,
    )
