"""``ctxmgr memory consolidate``, ``predict`` and ``why``. Imports when it runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ctxmgr.errors import Incorrect
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRow:
    """A memory that will probably be needed."""

    id: str
    tier: int
    relevance: float
    why: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedContext:
    """What the work at hand will probably need."""

    predicted_memories: tuple[PredictedRow, ...]
    confidence: float
    """The share that is clearly about the signals, times how often such memories were used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMemory:
    """Whether a prompt gets a memory, and why."""

    id: str
    shown: bool
    tier: int | None
    why: str | None
    """Why it was offered; None if it was not."""
    reason: str | None
    """Why it is not shown; None if it is."""
    text: str


async def memory_predict(
    app: "App",
    file_opened: Annotated[
        str | None, Param("The file that was opened, as the project names it.", metavar="PATH")
    ] = None,
    *,
    branch: Annotated[str | None, Param("The branch that was checked out.")] = None,
    error: Annotated[tuple[str, ...], Param("An error message that just occurred.")] = (),
    hour: Annotated[int | None, Param("The hour of the day, UTC.")] = None,
    collaborator: Annotated[str | None, Param("Who joined.")] = None,
    project: Annotated[Path | None, _PROJECT] = None,
) -> PredictedContext:
    """Show which memories the work at hand will need.

    From signals and the commits of the project alone: no model is called.
    """
    from ctxmgr.memory.prediction.context_prediction import WorkSignals

    if hour is not None and hour not in range(24):
        raise Incorrect(f"the hour is {hour}; pass 0 to 23")
    memory = await app.memory_with_history(project)
    if file_opened is not None and (branch, hour, collaborator) == (None, None, None):
        found = await memory.prediction.on_file_open(file_opened, recent_errors=error)
    else:
        found = await memory.prediction.predict(
            WorkSignals(
                file_opened=file_opened,
                branch=branch,
                errors=error,
                hour=hour,
                collaborator=collaborator,
            )
        )
    tiers = (found.tier1, found.tier2, found.tier3)
    return PredictedContext(
        predicted_memories=tuple(
            PredictedRow(
                id=each.memory.id,
                tier=number,
                relevance=each.relevance,
                why=each.why,
                text=each.memory.levels.compressed,
            )
            for number, tier in enumerate(tiers, start=1)
            for each in tier
        ),
        confidence=found.confidence,
    )


async def memory_why(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    budget: Annotated[int, Param("Tokens at most.")] = 8_000,
    current_file: Annotated[
        str | None, Param("The file that is worked on.", metavar="PATH")
    ] = None,
    recent_error: Annotated[tuple[str, ...], Param("An error message that just occurred.")] = (),
    activity: Annotated[str | None, Param("Such as debugging.")] = None,
    message: Annotated[str | None, Param("What the agent was asked.")] = None,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ServedMemory:
    """Show why a prompt would get a memory, or would not."""
    from ctxmgr.memory.tiers.assembly import Signals

    memory = await app.memory(project)
    found = await memory.get(await memory.repository.find_id(memory_id))
    assembled = await memory.assemble_context(
        budget,
        signals=Signals(
            current_file=current_file,
            recent_errors=recent_error,
            activity=activity,
            message=message,
        ),
    )
    text = found.levels.summary
    for item in assembled.shown:
        if item.id == found.id:
            return ServedMemory(
                id=found.id, shown=True, tier=item.tier, why=item.why, reason=None, text=item.text
            )
    for omitted in assembled.omitted:
        if omitted.id == found.id:
            return ServedMemory(
                id=found.id,
                shown=False,
                tier=omitted.tier,
                why=omitted.why,
                reason=omitted.reason,
                text=text,
            )
    if found.valid_to is not None:
        reason = f"it was forgotten: {found.ended_because}"
    elif not found.holds_in(memory.principal.project_id):
        reason = f"it is a fact of another project: {found.project_id}"
    elif found.cold:
        reason = "it is cold: it was shown before and did not help, and does not match now"
    else:
        reason = "nothing offers it: it does not match, and more useful ones fill the index"
    return ServedMemory(id=found.id, shown=False, tier=None, why=None, reason=reason, text=text)
