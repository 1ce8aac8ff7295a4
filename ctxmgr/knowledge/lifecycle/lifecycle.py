"""Lifecycle: what keeps a folder of notes in order. Door of the room; writes notes and commits.

    session ends ─► transcript committed ─► extracted ─► notes
    every night  ─► journal completed, on Sundays MEMORY.md, what is old archived ─► committed

Every step drafts its changes first. A dry run returns the draft's diff and writes nothing; a real
run applies exactly that draft.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ctxmgr.core.model import Ledger, Model
from ctxmgr.core.store.contract import Instant, Store
from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.knowledge.config import ExtractionTrigger, GitConfig, LifecycleConfig
from ctxmgr.knowledge.lifecycle.condense import Condensed, MemoryCondenser
from ctxmgr.knowledge.lifecycle.draft import NotesDraft
from ctxmgr.knowledge.lifecycle.extract import (
    EXTRACTORS,
    ExtractedTranscript,
    KnowledgeExtractor,
)
from ctxmgr.knowledge.lifecycle.extractors.extractor import Extractor
from ctxmgr.knowledge.lifecycle.extractors.knowledge_change import KnowledgeChange, changed_text
from ctxmgr.knowledge.lifecycle.liveness import GoneReference, gone_references, mark_gone
from ctxmgr.knowledge.lifecycle.prune import MemoryPruner
from ctxmgr.knowledge.lifecycle.reconstruct import (
    Reconstruction,
    extract_branch,
    reconstruct_knowledge,
)
from ctxmgr.knowledge.lifecycle.review import ReviewQueue, needs_approval
from ctxmgr.knowledge.lifecycle.schedule import (
    COMMIT,
    TAG,
    TASKS,
    Schedule,
    TaskRun,
    due_times,
)
from ctxmgr.knowledge.notes.layout import Layout, archive_path, is_archived
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.branches import Branches
from ctxmgr.knowledge.repository.memory_git import MemoryGit
from ctxmgr.knowledge.transcripts.open_transcripts import verify_hashes

SUNDAY: Final = 6
_log = logging.getLogger(__name__)

PATHS_MAX: Final = 1_000
"""Notes that one call archives."""

Period: TypeAlias = Literal["daily", "weekly", "monthly"]
Progress: TypeAlias = Callable[[str], None]
"""Called with one line for each thing that begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleStep:
    """What one step did, or would do."""

    step: str
    dry_run: bool
    done: tuple[str, ...] = ()
    """An entry a line."""
    paths: tuple[str, ...] = ()
    """Notes that changed, or would."""
    conflicts: tuple[str, ...] = ()
    """Notes that somebody else changed meanwhile, and which were left alone."""
    waiting: tuple[str, ...] = ()
    """Proposals that wait for a person."""
    rejected: tuple[str, ...] = ()
    """Extractors whose model gave an answer that could not be read."""
    diff: str = field(default="", repr=False)
    ledger: Ledger = field(default_factory=Ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """A scheduled task: when it last ran and whether it is due."""

    task: str
    last: TaskRun | None
    due: Instant | None
    """The oldest time for which it has to run; None: not due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedBranch:
    """A reconstruction that was merged."""

    branch: str
    commit: str
    statistics: str


def _silent(_: str) -> None:
    return


class Lifecycle:
    """The lifecycle of one folder of notes."""

    def __init__(
        self,
        notes: NotesFolder,
        *,
        store: Store,
        config: LifecycleConfig,
        git: MemoryGit | None = None,
        git_config: GitConfig | None = None,
        model: Model | None = None,
        extractors: Sequence[Extractor] = EXTRACTORS,
    ) -> None:
        self._notes = notes
        self._store = store
        self._config = config
        self._git = git
        self._git_config = git_config or GitConfig()
        self._model = model
        self._extractors = extractors
        self._extractor = KnowledgeExtractor(notes, store=store, model=model, extractors=extractors)
        self._schedule = Schedule(store, notes.layout.root)
        self.review = ReviewQueue(store, notes)

    @property
    def layout(self) -> Layout:
        return self._notes.layout

    def transcripts(self) -> int:
        """Return the number of closed transcripts that can be read."""
        return len(self._extractor.transcripts())

    async def session_ended(self, transcript: str) -> None:
        """Extract from a transcript that was closed, if that is when extraction runs."""
        if self._config.extraction_trigger is ExtractionTrigger.ON_SESSION_END:
            await self.extract([transcript])

    async def extract(
        self,
        paths: Iterable[str] | None = None,
        extractors: Iterable[str] | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = _silent,
    ) -> LifecycleStep:
        """Extract from transcripts, by default from those that were not extracted from."""
        chosen = list(await self._extractor.pending() if paths is None else paths)
        names = None if extractors is None else tuple(extractors)
        self._extractor.require(names)
        draft = NotesDraft(self._notes)
        found = []
        for path in chosen:
            progress(f"extracting from {path}")
            found.append(await self._extractor.extract_from_session(path, names, draft=draft))
        return await self._extracted("extract", draft, found, dry_run=dry_run)

    async def replay(
        self, extractors: Iterable[str] | None = None, *, dry_run: bool = False
    ) -> LifecycleStep:
        """Extract from all transcripts again, in the order of their sessions."""
        draft = NotesDraft(self._notes)
        found = await self._extractor.replay_all(extractors, draft=draft)
        return await self._extracted("replay", draft, found, dry_run=dry_run)

    async def condense(self, period: Period, *, day: date, dry_run: bool = False) -> LifecycleStep:
        """Complete the journal of a day, or roll up its week or month."""
        draft = NotesDraft(self._notes)
        condensed = await self._condense(draft, period, day)
        return await self._finished(
            f"condense {period}",
            draft,
            condensed.done,
            dry_run=dry_run,
            ledger=condensed.ledger,
            rejected=("weekly",) if condensed.rejected else (),
        )

    async def prune(self, *, day: date, dry_run: bool = False) -> LifecycleStep:
        """Bring MEMORY.md below its cap, archive old journals and notes that nobody needs."""
        draft = NotesDraft(self._notes)
        done = self._pruned(draft, day)
        return await self._finished("prune", draft, done, dry_run=dry_run)

    async def archive(self, paths: Iterable[str], *, dry_run: bool = False) -> LifecycleStep:
        """Move notes to the archive: they are searched, and not loaded by themselves."""
        draft = NotesDraft(self._notes)
        done = []
        for path in list(paths)[:PATHS_MAX]:
            if is_archived(path):
                raise Incorrect(f"{path!r:.200} is archived already")
            if needs_approval(path, self.layout):
                raise Incorrect(
                    f"{path!r:.200} is part of identity or topics: move it yourself with git mv"
                )
            draft.move(path, archive_path(path), reason="by request")
            done.append(f"archived: {path}")
        return await self._finished("archive", draft, done, dry_run=dry_run)

    async def reconstruct(
        self, branch: str, extractors: Iterable[str] | None = None, *, progress: Progress = _silent
    ) -> Reconstruction:
        """Build all notes again on the new branch ``extract/BRANCH``."""
        return await reconstruct_knowledge(
            self.layout,
            branches=self._branches(),
            store=self._store,
            branch=branch,
            cap=self._config.memory_line_cap,
            names=extractors,
            model=self._model,
            extractors=self._extractors,
            progress=progress,
        )

    async def merge_reconstruction(self, branch: str) -> MergedBranch:
        """Merge the branch ``extract/BRANCH`` into the current one, and delete it."""
        name = extract_branch(branch)
        branches = self._branches()
        statistics = await branches.statistics(name)
        commit = await branches.merge(name)
        return MergedBranch(branch=name, commit=commit.id, statistics=statistics)

    async def check_project(
        self, project: Path, *, dry_run: bool = False
    ) -> tuple[list[GoneReference], LifecycleStep]:
        """Mark notes that name what a project no longer has, and unmark those that do not."""
        draft = NotesDraft(self._notes)
        gone = await gone_references(list(draft.notes()), project=project)
        changed = mark_gone(draft, gone)
        return gone, await self._finished("check", draft, changed, dry_run=dry_run)

    async def transcript_problems(self) -> list[str]:
        """Return which closed transcripts are missing, altered or unreadable."""
        problems = await asyncio.to_thread(lambda: list(verify_hashes(self.layout.raw)))
        return problems + await asyncio.to_thread(self._extractor.unreadable)

    async def nightly(self, day: date, *, dry_run: bool = False) -> LifecycleStep:
        """Run the nightly flow of a day: journal, on Sundays the rollup, cap, old journals."""
        draft = NotesDraft(self._notes)
        done: list[str] = []
        condensed = await self._condense(draft, "daily", day)
        ledger, done = condensed.ledger, list(condensed.done)
        if day.weekday() == SUNDAY:
            weekly = await self._condense(draft, "weekly", day)
            ledger, done = Ledger((*ledger.costs, *weekly.ledger.costs)), done + list(weekly.done)
        if (day + timedelta(days=1)).day == 1:
            done += (await self._condense(draft, "monthly", day)).done
        pruner = MemoryPruner(draft, today=day)
        done += pruner.prune_memory(cap=self._config.memory_line_cap)
        moved = pruner.prune_journals(retention_days=self._config.journal_retention_days)
        done += [f"archived: {path}" for path, _ in moved]
        return await self._finished("nightly", draft, done, dry_run=dry_run, ledger=ledger)

    async def run_due(self, *, now: Instant, progress: Progress = _silent) -> list[LifecycleStep]:
        """Run what is due. Of several processes that try, one runs each task."""
        last = await self._schedule.last_runs()
        steps = []
        for due, task in self._due(last, now):
            claim = await self._schedule.claim(task, due, now=now)
            if claim is None:
                continue
            progress(f"{task}, due {_shown(due)}")
            try:
                step = await self._run(task, due)
            except CtxmgrError as error:
                await self._schedule.finish(claim, now=now, failed=True, detail=str(error))
                raise
            await self._schedule.finish(claim, now=now, detail=f"{len(step.done)} changes")
            steps.append(step)
        return steps

    async def status(self, *, now: Instant) -> tuple[TaskStatus, ...]:
        """Return when each task last ran, and whether it is due."""
        last = await self._schedule.last_runs()
        due: dict[str, Instant] = {}
        for time, task in self._due(last, now):
            due.setdefault(task, time)
        return tuple(
            TaskStatus(task=task, last=last.get(task), due=due.get(task)) for task in TASKS
        )

    def _due(self, last: Mapping[str, TaskRun], now: Instant) -> list[tuple[Instant, str]]:
        skipped = set()
        if self._git is None or not self._git_config.auto_commit:
            skipped.add(COMMIT)
        if self._git is None or not self._git_config.auto_tag_daily:
            skipped.add(TAG)
        return due_times(self._config, last=last, now=now, skipped=skipped)

    async def pending(self) -> list[str]:
        """Return the transcripts that the current extractors have not read."""
        return await self._extractor.pending()

    def _branches(self) -> Branches:
        if self._git is None:
            raise Incorrect(
                f"{self.layout.root} is not set up for knowledge: run `ctxmgr knowledge init`"
            )
        return Branches(self._git)

    async def _run(self, task: str, due: Instant) -> LifecycleStep:
        day = datetime.fromtimestamp(due / 1_000, UTC).date()
        match task:
            case "commit":
                return await self._commit_batch()
            case "tag":
                return await self._tag(day - timedelta(days=1))
            case "extract":
                return await self.extract()
            case "condense":
                return await self.nightly(day)
            case _:
                return await self.prune(day=day)

    async def _commit_batch(self) -> LifecycleStep:
        assert self._git is not None  # it is not due without
        committed = await self._git.batch_commit()
        done = [committed.message.partition("\n")[0]] if committed else []
        if self._git_config.auto_push:
            try:
                pushed = await self._git.push()
                done.append(f"pushed {pushed.branch} to {pushed.remote}")
            except CtxmgrError as error:  # the commit is safe here, and the next push has it
                _log.warning("the notes were not pushed: %s", error)
                done.append(f"not pushed: {error}")
        spent = self._git.spent or Ledger()
        return LifecycleStep(step=COMMIT, dry_run=False, done=tuple(done), ledger=spent)

    async def _tag(self, day: date) -> LifecycleStep:
        """Tag the last commit of a day, and after a Sunday that of the week."""
        assert self._git is not None  # it is not due without
        tags = [await self._git.tag_daily(day)]
        if day.weekday() == SUNDAY:
            tags.append(await self._git.tag_weekly(day))
        return LifecycleStep(step=TAG, dry_run=False, done=tuple(filter(None, tags)))

    async def _condense(self, draft: NotesDraft, period: Period, day: date) -> Condensed:
        transcripts = await asyncio.to_thread(self._extractor.transcripts)
        condenser = MemoryCondenser(draft, transcripts, today=day, model=self._model)
        cap = self._config.memory_line_cap
        match period:
            case "daily":
                return await condenser.daily_summary()
            case "weekly":
                return await condenser.weekly_rollup(cap=cap)
            case "monthly":
                return await condenser.monthly_distillation(
                    cap=cap, retention_days=self._config.journal_retention_days
                )

    def _pruned(self, draft: NotesDraft, day: date) -> list[str]:
        pruner = MemoryPruner(draft, today=day)
        done = pruner.prune_memory(cap=self._config.memory_line_cap)
        retention = self._config.journal_retention_days
        moved = pruner.prune_journals(retention_days=retention)
        done += [f"archived: {path}" for path, _ in moved]
        done += [
            f"archived: {each.path} (score {each.score:.4f}, {each.age_days} days,"
            f" {each.references} references)"
            for each in pruner.score_and_evict()
        ]
        return done

    async def _extracted(
        self, step: str, draft: NotesDraft, found: Sequence[ExtractedTranscript], *, dry_run: bool
    ) -> LifecycleStep:
        costs = [cost for each in found for cost in each.ledger.costs]
        done = [
            f"{change.origin.extractor}: {change.path}: {change.content[:80]}"
            for each in found
            for change in each.changes
        ]
        rejected = tuple(f"{each.path}: {name}" for each in found for name in each.rejected)
        proposed = [change for each in found for change in each.waiting if not dry_run]
        waiting = [await self._propose(draft, change) for change in proposed]
        finished = await self._finished(
            step,
            draft,
            done if draft.edits else [],
            dry_run=dry_run,
            ledger=Ledger(tuple(costs)),
            rejected=rejected,
            waiting=tuple(waiting),
            kind="memory",
            session=found[0].path if len(found) == 1 else None,
        )
        if not dry_run and not finished.conflicts:
            for each in found:
                await self._extractor.record(each)
        return finished

    async def _propose(self, draft: NotesDraft, change: KnowledgeChange) -> str:
        origin, seen = change.origin, draft.get(change.path)
        proposal = await self.review.propose(
            change.path,
            changed_text(seen, change),
            origin={
                "transcript": origin.transcript,
                "session": origin.session_id,
                "turn": origin.turn,
                "extractor": origin.extractor,
                "version": origin.version,
            },
            reason=f"{origin.extractor}/{origin.version}: {change.content[:200]}",
            at=origin.at,
            seen=seen,
        )
        return proposal.id

    async def _finished(
        self,
        step: str,
        draft: NotesDraft,
        done: Iterable[str],
        *,
        dry_run: bool,
        ledger: Ledger = Ledger(),  # noqa: B008 (frozen)
        rejected: tuple[str, ...] = (),
        waiting: tuple[str, ...] = (),
        kind: str = "maintenance",
        session: str | None = None,
    ) -> LifecycleStep:
        """Apply a draft and commit it, unless this is a dry run."""
        diff = draft.diff
        paths = tuple(edit.path for edit in draft.edits)
        conflicts: tuple[str, ...] = ()
        if not dry_run and paths:
            applied = await asyncio.to_thread(draft.apply)
            paths, conflicts = applied.paths, applied.conflicts
            if self._git is not None and self._git_config.auto_commit and paths:
                message = f"{step}: {len(paths)} {'note' if len(paths) == 1 else 'notes'}"
                await self._git.batch_commit(message, kind=kind, session=session)
        return LifecycleStep(
            step=step,
            dry_run=dry_run,
            done=tuple(done),
            paths=paths,
            conflicts=conflicts,
            waiting=waiting,
            rejected=rejected,
            diff=diff,
            ledger=ledger,
        )


def _shown(at: Instant) -> str:
    return f"{datetime.fromtimestamp(at // 1_000, UTC):%Y-%m-%d %H:%M} UTC"
