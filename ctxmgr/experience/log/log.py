"""The experience log: record timesteps, annotate them, and find them again. Touches its folder.

    append ─► tail (durable) ─► fold, in the background ─► segments ─► merge

Everything runs in threads. Several processes may have the same log open; each sees what the others
have recorded. Nothing is swallowed: a query that fails raises.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.experience.log.batches import TOP_K
from ctxmgr.experience.log.concept_codes import ConceptCodes
from ctxmgr.experience.log.filters import LIMIT, StepFilters
from ctxmgr.experience.log.fold import TAIL_FOLDS_MAX, Folding, TailSize
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.open_file import open_log_file
from ctxmgr.experience.log.reader import LogReader, ScoredStep, StepPlace
from ctxmgr.experience.log.segments import segment_rows
from ctxmgr.experience.log.sql import ROWS_MAX, SECONDS_MAX, LogSql
from ctxmgr.experience.log.tag_targets import (
    add_application,
    add_comment,
    applications_of_range,
    comments_of_range,
    tags_of_timestep,
)
from ctxmgr.experience.log.tail import AppendedSteps, Tail, last_tick
from ctxmgr.experience.records.annotations import Comment, Tag, TagApplication
from ctxmgr.experience.records.timestep import NewTimestep, TimestepRecord, parse_timestep_id
from ctxmgr.stores.duckdb_engine import SelectResult
from ctxmgr.stores.layer_file import LayerFile, SqlConnection, rows_of

TOP_K_MAX: Final = 1_000
"""Activations of one step that can be stored."""

PAGE_STEPS: Final = 20_000
"""Timesteps that are read at once of a long range, some 20 MB."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """How much a log holds."""

    folder: str
    sessions: int
    steps: int
    """In the tail and in segments; without what is gone from the files."""
    tail_steps: int
    segments: int
    segment_bytes: int
    activations: int
    """In segments."""
    concepts: int
    tags: int
    comments: int
    windows: int


class ExperienceLog:
    """One log. Use it with ``async with await ExperienceLog.open(folder)``."""

    def __init__(self, folder: LogFolder, file: LayerFile, *, top_k: int) -> None:
        self.file = file
        """``log.sqlite``: tags, windows and compressed records are in it too."""
        self._folder = folder
        codes = ConceptCodes(file)
        self._tail = Tail(file, codes, top_k=top_k)
        self._reader = LogReader(folder, file, self._tail, codes)
        self._folding = Folding(folder, file, codes)
        self._sql = LogSql(folder, file, codes)
        self._size = TailSize(0, 0)
        """Of the tail after our last append; other processes' batches count too."""
        self._fold_task: asyncio.Task[int] | None = None

    @classmethod
    async def open(cls, root: Path, *, top_k: int = TOP_K, create: bool = True) -> "ExperienceLog":
        """Open the log in a folder; ``NotFound`` if there is none and it may not be created."""
        if not 0 <= top_k <= TOP_K_MAX:
            raise Incorrect(f"top_k is 0 to {TOP_K_MAX:,}, not {top_k}")

        def open_files() -> "ExperienceLog":
            folder, file = LogFolder(root.absolute()), open_log_file(root, create=create)
            try:
                folder.create()
                log = cls(folder, file, top_k=top_k)
                log._folding.sweep()
            except BaseException:
                file.close()
                raise
            return log

        return await asyncio.to_thread(open_files)

    # Record.

    async def record_timestep(self, record: TimestepRecord) -> str:
        """Store a timestep durably and return its id.

        Its tick has to be larger than the session's last one; otherwise this is a ``Conflict``.
        """
        await self.append(record.session_id, [record], first_tick=record.tick)
        return record.id

    async def append(
        self,
        session_id: str,
        steps: Sequence[NewTimestep],
        *,
        first_tick: int | None = None,
        origin: EventOrigin | None = None,
        origin_time: int = 0,
    ) -> AppendedSteps | None:
        """Store steps of a session in one durable transaction, at its next ticks.

        None if they were made from an event, ``origin``, that was recorded before.
        """

        def append() -> AppendedSteps | None:
            if self._size.folds >= TAIL_FOLDS_MAX:
                self._folding.make_room()
            return self._tail.append(
                session_id, steps, first_tick=first_tick, origin=origin, origin_time=origin_time
            )

        appended = await asyncio.to_thread(append)
        if appended is not None:
            self._size = TailSize(appended.tail_batches, appended.tail_steps)
            if self._size.folds:
                self._fold_in_background()
        return appended

    async def last_tick(self, session_id: str) -> int:
        """Return the last tick of a session; 0 if nothing was recorded."""
        return await self.file.read(lambda connection: last_tick(connection, session_id))

    async def last_event(self, store: str) -> tuple[EventOrigin, int] | None:
        """Return the last event of a store that was recorded, and when it happened."""
        rows = await self.file.read(
            lambda connection: rows_of(
                connection,
                "SELECT sequence, position, time FROM listened WHERE store = ?",
                (store,),
            )
        )
        if not rows:
            return None
        sequence, position, time = rows[0]
        return EventOrigin(store, sequence, position, 0), time

    async def has_ended_event(self, session_id: str, event_id: str) -> bool:
        """Return whether an event of a session was recorded to its end."""
        return await asyncio.to_thread(self._reader.has_ended_event, session_id, event_id)

    # Find.

    async def get_timestep(self, timestep_id: str) -> TimestepRecord | None:
        """Return a timestep; None if there is none with this id."""
        place = StepPlace(*parse_timestep_id(timestep_id))
        return await asyncio.to_thread(self._reader.get, place)

    async def query(
        self,
        *,
        session_id: str | None = None,
        tick_range: tuple[int, int] | None = None,
        time_range: tuple[int, int] | None = None,
        event_types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        tags_all: Sequence[str] | None = None,
        concept_activations: Mapping[str, tuple[float, float]] | None = None,
        text_search: str | None = None,
        limit: int = LIMIT,
        offset: int = 0,
    ) -> list[TimestepRecord]:
        """Return the timesteps that match all filters, by session and tick.

        ``tags`` are ids, of which one is enough; of ``tags_all`` each is needed. Ranges include
        both ends, and times are UTC milliseconds. ``text_search`` ignores case.
        """
        filters = StepFilters(
            session_id=session_id,
            tick_range=tick_range,
            time_range=time_range,
            event_types=None if event_types is None else tuple(event_types),
            tags=None if tags is None else tuple(tags),
            tags_all=None if tags_all is None else tuple(tags_all),
            concept_activations=dict(concept_activations or {}),
            text_search=text_search,
            limit=limit,
            offset=offset,
        )
        return await asyncio.to_thread(self._reader.query, filters)

    async def pages(
        self, session_id: str, tick_range: tuple[int, int], *, steps: int = PAGE_STEPS
    ) -> AsyncIterator[list[TimestepRecord]]:
        """Yield the timesteps of a range in order, in lists of at most so many ``steps``.

        Their ticks need not be contiguous, and a range may be far longer than what is in it.
        """
        start, end = tick_range
        while start <= end:
            page = await self.query(session_id=session_id, tick_range=(start, end), limit=steps)
            if page:
                yield page
            if len(page) < steps:
                return
            start = page[-1].tick + 1

    async def event_ticks(
        self, session_id: str, event_ids: Sequence[str]
    ) -> Mapping[str, tuple[int, int]]:
        """Return the first and the last tick of events, without those that are not in the log."""
        return await asyncio.to_thread(self._reader.event_ticks, session_id, event_ids)

    async def top_by_concept(
        self,
        concept_id: str,
        *,
        session_id: str | None = None,
        minimum: float = 0.0,
        maximum: float = 1.0,
        limit: int = 20,
    ) -> list[ScoredStep]:
        """Return the timesteps with the highest scores of a concept, highest first."""
        StepFilters(concept_activations={concept_id: (minimum, maximum)}, limit=limit)
        return await asyncio.to_thread(
            self._reader.top,
            concept_id,
            session_id=session_id,
            minimum=minimum,
            maximum=maximum,
            limit=limit,
        )

    async def sql(
        self, statement: str, *, rows_max: int = ROWS_MAX, seconds_max: float = SECONDS_MAX
    ) -> SelectResult:
        """Run one SELECT over the tables of the log, as of this moment."""
        return await asyncio.to_thread(
            self._sql.select,
            statement,
            rows_max=rows_max,
            seconds_max=seconds_max,
            check=self._reader.check_files,
        )

    # Annotate.

    async def add_tag(self, application: TagApplication) -> str:
        """Apply a tag that exists; return the id of the application."""
        return await self.file.write(lambda connection: add_application(connection, application))

    async def add_comment(self, comment: Comment) -> str:
        """Store a comment; return its id."""
        return await self.file.write(lambda connection: add_comment(connection, comment))

    async def get_tags_for_timestep(self, timestep_id: str) -> list[Tag]:
        """Return the tags on a timestep, on its event and on ranges that hold it."""
        session_id, tick = parse_timestep_id(timestep_id)
        record = await self.get_timestep(timestep_id)
        return await self.file.read(
            lambda connection: tags_of_timestep(
                connection,
                session_id=session_id,
                tick=tick,
                timestep_id=timestep_id,
                event_id=record.event_id if record else None,
            )
        )

    async def get_tags_for_range(
        self, session_id: str, ticks: tuple[int, int], *, event_ids: Sequence[str], limit: int
    ) -> list[tuple[str, TagApplication]]:
        """Return the newest applications on these events, or that meet the ticks, by tag name."""
        return await self.file.read(
            lambda connection: applications_of_range(
                connection, session_id=session_id, ticks=ticks, event_ids=event_ids, limit=limit
            )
        )

    async def get_comments_for_range(
        self, session_id: str, start_tick: int, end_tick: int
    ) -> list[Comment]:
        """Return the comments on what happened between two ticks, oldest first."""
        commented = await self.file.read(
            lambda connection: rows_of(
                connection,
                "SELECT DISTINCT event_id FROM comments WHERE session_id = ?"
                " AND event_id IS NOT NULL",
                (session_id,),
            )
        )
        event_ids = await asyncio.to_thread(
            self._reader.events_in_range,
            session_id,
            (start_tick, end_tick),
            [event_id for (event_id,) in commented],
        )
        return await self.file.read(
            lambda connection: comments_of_range(
                connection,
                session_id=session_id,
                start=start_tick,
                end=end_tick,
                event_ids=event_ids,
            )
        )

    # Maintain.

    async def drop(self, session_id: str, start_tick: int, end_tick: int) -> None:
        """Take a range of ticks out of the log; a later merge removes it from the files.

        Ticks that were not recorded yet are not affected.
        """

        def drop(connection: SqlConnection) -> None:
            end = min(end_tick, last_tick(connection, session_id))
            if start_tick <= end:
                connection.execute(
                    "INSERT OR IGNORE INTO gone VALUES (?, ?, ?)", (session_id, start_tick, end)
                )

        await self.file.write(drop)

    async def fold(self) -> int:
        """Fold the whole tail now; return how many steps were folded."""

        def fold() -> int:
            folded = 0
            while steps := self._folding.fold():
                folded += steps
            self._folding.merge()
            return folded

        return await asyncio.to_thread(fold)

    async def check(self, *, hashes: bool = False) -> int:
        """Check the files of all segments and return their number; ``Corrupt`` names a bad one."""
        return await asyncio.to_thread(self._reader.check_files, hashes=hashes)

    async def export(self, folder: Path) -> Mapping[str, int]:
        """Write each table as a Parquet file into a new folder; return their rows by name."""
        return await asyncio.to_thread(self._sql.export, folder, check=self._reader.check_files)

    async def status(self) -> LogStatus:
        def read() -> LogStatus:
            with self.file.reading() as connection:
                segments = segment_rows(connection)
                counts = {
                    table: int(connection.execute(f"SELECT count(*) FROM {table}").get)
                    for table in ("session", "concept", "tags", "comments", "time_windows")
                }
                tail = int(connection.execute("SELECT steps FROM tail_size").get)
            return LogStatus(
                folder=str(self._folder.root),
                sessions=counts["session"],
                steps=tail + sum(segment.steps for segment in segments),
                tail_steps=tail,
                segments=len(segments),
                segment_bytes=sum(
                    segment.timesteps_bytes + segment.activations_bytes for segment in segments
                ),
                activations=sum(segment.acts for segment in segments),
                concepts=counts["concept"],
                tags=counts["tags"],
                comments=counts["comments"],
                windows=counts["time_windows"],
            )

        return await asyncio.to_thread(read)

    async def close(self) -> None:
        """Wait for a fold that is running, and close the files."""
        if self._fold_task is not None:
            await asyncio.gather(self._fold_task, return_exceptions=True)
        await asyncio.to_thread(self._reader.close)
        await asyncio.to_thread(self.file.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _fold_in_background(self) -> None:
        if self._fold_task is None or self._fold_task.done():
            self._fold_task = asyncio.create_task(
                asyncio.to_thread(self._folding.fold_if_due, wait=False)
            )
            self._fold_task.add_done_callback(_report)


def _report(task: asyncio.Task[int]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, CtxmgrError):
        _log.error("folding the experience log failed; it is tried again: %s", error)
    elif error is not None:
        _log.error("folding the experience log failed", exc_info=error)
