"""What of the lifecycle is due, and which process runs it. Stores documents.

    cron expression or interval ─► due times since the last run ─► claim ─► run ─► done

Two processes that try at once compare and set the same document, and one of them gets it. A claim
that is not finished within ``CLAIM_MS`` belongs to a process that died: another may take it.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ctxmgr.core.store.contract import Instant, Match, Put, Store
from ctxmgr.core.store.documents import ID, KIND
from ctxmgr.errors import Conflict, Incorrect, requires_extra
from ctxmgr.knowledge.config import ExtractionTrigger, LifecycleConfig

TASK: Final = "knowledge_task"
"""The kind of the record of a task's last run."""
CLAIM_MS: Final = 15 * 60_000
"""Longer than any task runs: rollups ask a model a few times, each for at most some minutes."""
MISSED_MAX: Final = 31
"""Due times that are made up for after a pause: a month of nights."""

COMMIT: Final = "commit"
EXTRACT: Final = "extract"
CONDENSE: Final = "condense"
PRUNE: Final = "prune"
TAG: Final = "tag"
TASKS: Final = (COMMIT, EXTRACT, CONDENSE, PRUNE, TAG)

DAY_ENDED: Final = "0 0 * * *"
"""When the tag of a day is due: a minute after the last one of 002-R071, 23:59."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """The last run of a task."""

    due: Instant
    """The time for which it ran."""
    state: str
    """``running``, ``done`` or ``failed``."""
    claimed: Instant
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to run a task for one due time."""

    task: str
    due: Instant
    token: str


def due_times(
    config: LifecycleConfig,
    *,
    last: Mapping[str, TaskRun],
    now: Instant,
    skipped: Collection[str] = (),
) -> list[tuple[Instant, str]]:
    """Return what is due, oldest first. A task that never ran is due once."""
    found: list[tuple[Instant, str]] = []
    for task, times in (
        (COMMIT, _intervals(config.commit_interval_minutes * 60_000, now)),
        (EXTRACT, _intervals(3_600_000, now)),
        (CONDENSE, _cron(config.condensation_schedule, now)),
        (PRUNE, _cron(config.pruning_schedule, now)),
        (TAG, _cron(DAY_ENDED, now)),
    ):
        if task == EXTRACT and config.extraction_trigger is not ExtractionTrigger.HOURLY:
            continue
        if task in skipped:
            continue
        run = last.get(task)
        # Nights are made up for one by one; what only catches up needs to run once.
        wanted = times if task in {CONDENSE, TAG} and run is not None else times[:1]
        done = -1 if run is None else run.due if run.state == "done" else run.due - 1
        found += [(due, task) for due in wanted if due > done]
    return sorted(found)


class Schedule:
    """The runs of the tasks of one folder of notes."""

    def __init__(self, store: Store, root: Path) -> None:
        self._store = store
        text = str(root.absolute())
        self._root = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]

    async def last_runs(self) -> dict[str, TaskRun]:
        """Return the last run of each task."""
        ids = {self._object_id(task): task for task in TASKS}
        stored = await self._store.get_many(ids)
        return {
            ids[object_id]: TaskRun(
                due=version.document["due"],
                state=version.document["state"],
                claimed=version.document["claimed"],
                detail=version.document["detail"],
            )
            for object_id, version in stored.items()
        }

    async def claim(self, task: str, due: Instant, *, now: Instant) -> Claim | None:
        """Claim a task for a due time; None if it ran, runs, or another process was faster."""
        object_id = self._object_id(task)
        stored = await self._store.get(object_id)
        if stored is not None:
            run = stored.document
            running = run["state"] == "running" and now < run["claimed"] + CLAIM_MS
            if running or (run["due"] >= due and run["state"] == "done"):
                return None
        try:
            commit = await self._store.commit(
                [
                    Match(object_id, stored.token if stored else None),
                    Put(self._document(task, due, state="running", claimed=now)),
                ]
            )
        except Conflict:
            return None
        return Claim(task=task, due=due, token=commit.token)

    async def finish(
        self, claim: Claim, *, now: Instant, failed: bool = False, detail: str = ""
    ) -> None:
        """Record how a claimed task ended; nothing if another process took it over."""
        object_id = self._object_id(claim.task)
        document = self._document(
            claim.task,
            claim.due,
            state="failed" if failed else "done",
            claimed=now,
            detail=detail[:1_000],
        )
        try:
            await self._store.commit([Match(object_id, claim.token), Put(document)])
        except Conflict:
            return

    def _object_id(self, task: str) -> str:
        return f"{TASK}:{self._root}:{task}"

    def _document(
        self, task: str, due: Instant, *, state: str, claimed: Instant, detail: str = ""
    ) -> dict[str, Any]:
        return {
            ID: self._object_id(task),
            KIND: TASK,
            "task": task,
            "due": due,
            "state": state,
            "claimed": claimed,
            "detail": detail,
        }


def _intervals(interval_ms: int, now: Instant) -> list[Instant]:
    return [now - now % interval_ms]


def _cron(expression: str, now: Instant) -> list[Instant]:
    """Return the last due times of a cron expression, newest first."""
    with requires_extra("knowledge", "cronsim"):
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 (an extra)
    # It yields times before the start: a minute that has begun is due.
    start = datetime.fromtimestamp(now // 1_000, UTC) + timedelta(minutes=1)
    try:
        times = CronSim(expression, start, reverse=True)
        return [round(next(times).timestamp()) * 1_000 for _ in range(MISSED_MAX)]
    except (CronSimError, StopIteration) as error:
        raise Incorrect(
            f"{expression!r:.80} is not a schedule; pass a cron expression such as '0 23 * * *'"
        ) from error
