"""``ctxmgr lifecycle`` and ``ctxmgr knowledge review``: keep notes in order. Through ``App``."""

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Cursor, Limit, Param
from ctxmgr.surfaces.operations.layers.asked_models import AskedModel, ModelOption, costs_of
from ctxmgr.surfaces.operations.layers.notes_option import NotesOption

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.knowledge.lifecycle.lifecycle import LifecycleStep
    from ctxmgr.knowledge.lifecycle.review import ReviewProposal

_DRY = Param("Show the changes as a diff, and change nothing.")
_DAY = Param("The day, as YYYY-MM-DD; default: today (UTC).")
_EXTRACTORS = Param("An extractor, such as decisions; may be given several times.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step did, or would do."""

    step: str
    dry_run: bool
    done: tuple[str, ...]
    paths: tuple[str, ...]
    """Notes that changed, or would."""
    conflicts: tuple[str, ...]
    """Notes that somebody else changed meanwhile; run it again."""
    waiting: tuple[str, ...]
    """Proposals that wait: `ctxmgr knowledge review`."""
    rejected: tuple[str, ...]
    calls: int
    """Calls of a model."""
    costs: tuple[AskedModel, ...]
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResults:
    """What was due and ran."""

    steps: tuple[StepResult, ...]
    closed: tuple[str, ...]
    """Transcripts of abandoned sessions that were closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledTask:
    task: str
    due: str | None
    """Since when it is due; None: not due."""
    last: str | None
    """The time for which it last ran."""
    state: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleOverview:
    root: str
    raw: str
    transcripts: int
    pending: tuple[str, ...]
    """Transcripts that the current extractors have not read."""
    waiting: int
    """Changes that wait for a person."""
    tasks: tuple[ScheduledTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructedNotes:
    branch: str
    commit: str
    merged: bool
    transcripts: int
    notes: int
    rejected: tuple[str, ...]
    statistics: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneName:
    note: str
    line: int
    kind: str
    name: str
    commit: str
    day: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleProblems:
    transcripts: tuple[str, ...]
    """Closed transcripts that are missing, altered or cannot be read."""
    gone: tuple[GoneName, ...]
    """What notes name and the project no longer has."""
    marked: tuple[str, ...]
    """Notes whose field needs-verification changed, or would."""
    diff: str

    @property
    def intact(self) -> bool:
        return not self.transcripts


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    id: str
    path: str
    state: str
    proposed: str
    origin: str
    reason: str
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChanges:
    proposals: tuple[ProposedChange, ...]
    total: int
    """Proposals on all pages."""
    cursor: str | None


async def lifecycle_status(app: "App", *, folder: NotesOption = None) -> LifecycleOverview:
    """Show what is due, new transcripts, and what waits for you."""
    lifecycle = await app.lifecycle(folder)
    layout = lifecycle.layout
    statuses = await lifecycle.status(now=_now())
    return LifecycleOverview(
        root=str(layout.root),
        raw=str(layout.raw),
        transcripts=lifecycle.transcripts(),
        pending=tuple(await lifecycle.pending()),
        waiting=len(await lifecycle.review.waiting()),
        tasks=tuple(
            ScheduledTask(
                task=status.task,
                due=None if status.due is None else _shown(status.due),
                last=None if status.last is None else _shown(status.last.due),
                state="never ran" if status.last is None else status.last.state,
                detail="" if status.last is None else status.last.detail,
            )
            for status in statuses
        ),
    )


async def lifecycle_run(
    app: "App", *, model: ModelOption = None, folder: NotesOption = None
) -> StepResults:
    """Run what is due.

    Call it from cron, or leave it to `ctxmgr serve`. Of several processes that try, one runs each
    task.
    """
    now = _now()
    closed = await app.close_abandoned_transcripts(folder, now=now)
    async with app.asked_model(model) as asked:
        lifecycle = await app.lifecycle(folder, model=asked)
        steps = await lifecycle.run_due(now=now, progress=app.say)
    return StepResults(steps=tuple(_result(app, step) for step in steps), closed=tuple(closed))


async def lifecycle_extract(
    app: "App",
    transcripts: Annotated[
        tuple[str, ...], Param("Paths of transcripts; default: those that are new.")
    ] = (),
    *,
    extractor: Annotated[tuple[str, ...], _EXTRACTORS] = (),
    dry_run: Annotated[bool, _DRY] = False,
    model: ModelOption = None,
    folder: NotesOption = None,
) -> StepResult:
    """Extract notes from transcripts.

    Decisions, lessons, people, procedures, facts, and the journal.
    """
    async with app.asked_model(model) as asked:
        lifecycle = await app.lifecycle(folder, model=asked)
        step = await lifecycle.extract(
            transcripts or None, extractor or None, dry_run=dry_run, progress=app.say
        )
    return _result(app, step)


async def lifecycle_replay(
    app: "App",
    *,
    extractor: Annotated[tuple[str, ...], _EXTRACTORS] = (),
    dry_run: Annotated[bool, _DRY] = False,
    model: ModelOption = None,
    folder: NotesOption = None,
) -> StepResult:
    """Extract notes from all transcripts again.

    In the order of their sessions. What the notes have already is not added again.
    """
    async with app.asked_model(model) as asked:
        lifecycle = await app.lifecycle(folder, model=asked)
        return _result(app, await lifecycle.replay(extractor or None, dry_run=dry_run))


async def lifecycle_condense(
    app: "App",
    period: Annotated[Literal["daily", "weekly", "monthly"], Param("What to condense.")] = "daily",
    *,
    day: Annotated[str | None, _DAY] = None,
    dry_run: Annotated[bool, _DRY] = False,
    model: ModelOption = None,
    folder: NotesOption = None,
) -> StepResult:
    """Complete the journal of a day, or roll up its week or month."""
    async with app.asked_model(model) as asked:
        lifecycle = await app.lifecycle(folder, model=asked)
        return _result(app, await lifecycle.condense(period, day=_day(day), dry_run=dry_run))


async def lifecycle_prune(
    app: "App",
    *,
    day: Annotated[str | None, _DAY] = None,
    dry_run: Annotated[bool, _DRY] = False,
    folder: NotesOption = None,
) -> StepResult:
    """Shorten MEMORY.md, and archive what nobody needs.

    MEMORY.md is brought below its cap; old journals and unused notes move to the archive.
    """
    lifecycle = await app.lifecycle(folder)
    return _result(app, await lifecycle.prune(day=_day(day), dry_run=dry_run))


async def lifecycle_archive(
    app: "App",
    notes: Annotated[tuple[str, ...], Param("Paths, such as knowledge/reference/old.md.")] = (),
    *,
    dry_run: Annotated[bool, _DRY] = False,
    folder: NotesOption = None,
) -> StepResult:
    """Move notes to the archive.

    There they are searched, and not loaded by themselves.
    """
    if not notes:
        raise Incorrect("no note is named; pass a path such as knowledge/reference/old.md")
    lifecycle = await app.lifecycle(folder)
    return _result(app, await lifecycle.archive(notes, dry_run=dry_run))


async def lifecycle_reconstruct(
    app: "App",
    branch: Annotated[str, Param("The branch, extract/BRANCH; new unless --merge.")],
    *,
    extractor: Annotated[tuple[str, ...], _EXTRACTORS] = (),
    merge: Annotated[bool, Param("Merge a branch that was reconstructed, and delete it.")] = False,
    model: ModelOption = None,
    folder: NotesOption = None,
) -> ReconstructedNotes:
    """Build all notes again from the transcripts, on a branch.

    Your files stay as they are. Look at the differences, then merge the branch or delete it.
    """
    if merge:
        lifecycle = await app.lifecycle(folder)
        merged = await lifecycle.merge_reconstruction(branch)
        return ReconstructedNotes(
            branch=merged.branch,
            commit=merged.commit,
            merged=True,
            transcripts=0,
            notes=0,
            rejected=(),
            statistics=merged.statistics,
        )
    async with app.asked_model(model) as asked:
        lifecycle = await app.lifecycle(folder, model=asked)
        built = await lifecycle.reconstruct(branch, extractor or None, progress=app.say)
    return ReconstructedNotes(
        branch=built.branch,
        commit=built.commit,
        merged=False,
        transcripts=built.transcripts,
        notes=built.notes,
        rejected=built.rejected,
        statistics=built.statistics,
    )


async def lifecycle_check(
    app: "App",
    *,
    project: Annotated[
        Path | None, Param("A project whose git history is compared.", metavar="DIR", local=True)
    ] = None,
    dry_run: Annotated[bool, _DRY] = False,
    folder: NotesOption = None,
) -> LifecycleProblems:
    """Verify transcripts, and find outdated notes.

    Notes that name what a project no longer has get a field needs-verification, with the commit
    that removed it.
    """
    lifecycle = await app.lifecycle(folder)
    problems = await lifecycle.transcript_problems()
    if project is None:
        return LifecycleProblems(transcripts=tuple(problems), gone=(), marked=(), diff="")
    gone, step = await lifecycle.check_project(project, dry_run=dry_run)
    return LifecycleProblems(
        transcripts=tuple(problems),
        gone=tuple(
            GoneName(
                note=each.note,
                line=each.reference.line,
                kind=each.reference.kind,
                name=each.reference.name,
                commit=each.commit,
                day=each.day,
                summary=each.summary,
            )
            for each in gone
        ),
        marked=step.paths,
        diff=step.diff if dry_run else "",
    )


async def knowledge_review(
    app: "App",
    proposal: Annotated[str | None, Param("The id of a proposal; default: all that wait.")] = None,
    *,
    accept: Annotated[bool, Param("Write the proposed text.")] = False,
    reject: Annotated[bool, Param("Keep the note as it is.")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    folder: NotesOption = None,
) -> ProposedChanges:
    """Show changes that wait for you, and decide about one.

    They are changes of identity and topics. Agents and extractors cannot change these notes by
    themselves.
    """
    from ctxmgr.core.store.queries import page_of

    if accept and reject:
        raise Incorrect("pass either --accept or --reject")
    if (accept or reject) and proposal is None:
        raise Incorrect("name the proposal to decide about; `ctxmgr knowledge review` lists them")
    review = (await app.lifecycle(folder)).review
    if proposal is None:
        waiting = await review.waiting()
        page, following = page_of(
            ["proposals"],
            waiting,
            key=lambda each: (each.proposed, each.id),
            limit=limit,
            cursor=cursor,
        )
        shown = tuple(map(_proposed, page))
        return ProposedChanges(proposals=shown, total=len(waiting), cursor=following)
    if accept:
        decided = await review.accept(proposal, at=_now())
    elif reject:
        decided = await review.reject(proposal, at=_now())
    else:
        decided = await review.require(proposal)
    return ProposedChanges(proposals=(_proposed(decided),), total=1, cursor=None)


def _result(app: "App", step: "LifecycleStep") -> StepResult:
    return StepResult(
        step=step.step,
        dry_run=step.dry_run,
        done=step.done,
        paths=step.paths,
        conflicts=step.conflicts,
        waiting=step.waiting,
        rejected=step.rejected,
        calls=step.ledger.calls,
        costs=costs_of(step.ledger, app.prices),
        diff=step.diff if step.dry_run else "",
    )


def _proposed(proposal: "ReviewProposal") -> ProposedChange:
    return ProposedChange(
        id=proposal.id,
        path=proposal.path,
        state=proposal.state,
        proposed=_shown(proposal.proposed),
        origin=", ".join(f"{name} {value}" for name, value in proposal.origin.items()),
        reason=proposal.reason,
        diff=proposal.diff,
    )


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Incorrect(f"{text!r:.80} is not a day; pass one such as 2026-11-18") from None


def _now() -> int:
    return time.time_ns() // 1_000_000


def _shown(at: int) -> str:
    return f"{datetime.fromtimestamp(at // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
