"""Which windows of an agent's experience are kept, and how: retain, expire, submit, resolve.

Reads the experience log and changes its ``log.sqlite``. Each change is one transaction,
which repeats its check of the windows: another process may have changed them since the timesteps
were read. Tokens leave the log only here, in the transaction that stores what is left of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from ctxmgr.errors import Incorrect, NotFound, QuotaExceeded, Unavailable
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.log.tag_targets import tag_targets
from ctxmgr.experience.records.kinds import CompressionLevel, Fidelity, TagType
from ctxmgr.experience.records.timestep import TimestepRecord, parse_timestep_id
from ctxmgr.experience.windows.compression import (
    TOP_K,
    CompressedRecord,
    most_frequent,
    reply_records,
    strongest,
    token_count,
)
from ctxmgr.experience.windows.evidence import (
    EvidencePackage,
    check_submission_id,
    write_package,
)
from ctxmgr.experience.windows.time_windows import (
    Ticks,
    TimeWindow,
    merge_ticks,
    overlapping,
    uncovered,
    warm_tokens,
)
from ctxmgr.experience.windows.window_rows import (
    annotations_in,
    free_record_ids,
    read_records,
    read_windows,
    save_record,
    save_window,
    tags_in,
)
from ctxmgr.stores.layer_file import SqlConnection

STEPS_PER_CHANGE: Final = 20_000
"""Timesteps that one transaction compresses; a longer range takes several."""

ATTEMPTS_MAX: Final = 5
"""How often a change is tried again because another process changed the same windows."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What ``retain`` did."""

    windows: tuple[TimeWindow, ...]
    """The windows that now keep the range."""
    tokens: int
    """Tokens that count against the quota since."""
    gone: tuple[Ticks, ...]
    """Parts of the range that were compressed before: their tokens are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraftSubmission:
    """What ``submit_graft`` did."""

    submission_id: str
    window_ids: tuple[str, ...]
    """Windows that became SUBMITTED."""
    missing: tuple[str, ...]
    """Examples that are not in the log any more, as ``SESSION:FIRST-LAST`` or ``SESSION:EVENT``."""

    @property
    def partial(self) -> bool:
        return bool(self.missing)


class WindowBook:
    """The windows of one experience log."""

    def __init__(self, log: ExperienceLog, *, warm_quota_tokens: int, top_k: int = TOP_K) -> None:
        self._log, self._file = log, log.file
        self.warm_quota_tokens = warm_quota_tokens
        self._top_k = top_k

    async def windows(self, session_id: str | None = None) -> list[TimeWindow]:
        """Return the windows of a session, or all of them, by session and tick."""
        if session_id is None:
            return await self._file.read(read_windows)
        return await self._file.read(lambda db: read_windows(db, "session_id = ?", (session_id,)))

    async def get_windows_for_submission(self, submission_id: str) -> list[TimeWindow]:
        """Return the windows that are evidence of a submission."""
        return await self._file.read(lambda db: _submitted(db, submission_id))

    async def get_windows_for_tag(self, tag_id: str) -> list[TimeWindow]:
        """Return the windows that have a timestep with this tag."""
        found: dict[str, TimeWindow] = {}
        tagged, _ = await self._tagged_ticks(tag_id)
        for session_id, ranges in tagged.items():
            windows = await self.windows(session_id)
            for ticks in ranges:
                found |= {window.id: window for window in overlapping(ticks, windows)}
        return list(found.values())

    async def retain(self, session_id: str, ticks: Ticks, *, reason: str | None = None) -> Retained:
        """Keep a range token by token until it is released: it becomes WARM.

        ``QuotaExceeded`` if that is more than the quota allows: then nothing is retained. Parts
        that were compressed before are reported as gone; ``NotFound`` if nothing is left.
        """

        async def prepare() -> Callable[[SqlConnection], Retained]:
            known = await self.windows(session_id)
            fresh = [
                replace(window, fidelity=Fidelity.WARM, pinned=True, pinned_reason=reason)
                for window in await self._hot_windows(session_id, ticks, known)
            ]

            def change(db: SqlConnection) -> Retained:
                _require_unchanged(db, {session_id: known})
                return self._retain(db, known, fresh, ticks, reason)

            return change

        return await self._change(prepare)

    async def release(self, window_id: str) -> TimeWindow:
        """Stop retaining a window. It becomes COLD when ``expire`` next runs over it."""

        def change(db: SqlConnection) -> TimeWindow:
            window = _require_window(db, window_id)
            if window.fidelity is not Fidelity.WARM:
                raise Incorrect(
                    f"{window_id} is {window.fidelity.value}; only a warm window can be released"
                )
            released = replace(window, pinned=False, pinned_reason=None)
            save_window(db, released)
            return released

        return await self._file.write(change)

    async def expire(
        self, session_id: str, *, before_tick: int, hot_from: int = 0, summary: str | None = None
    ) -> list[TimeWindow]:
        """Compress to replies what is before a tick and neither retained nor submitted.

        This is what happens to the ticks that a compaction took out of the context: hot ones from
        ``hot_from`` on, and windows that were released. ``summary`` is the one that replaced them.
        An event that the tick divides stays whole, in the log.
        """
        cold: list[TimeWindow] = []
        wanted = Ticks(0, before_tick - 1)
        while wanted.start <= wanted.end:
            window = await self._cool(session_id, wanted, summary, hot_from=hot_from)
            if window is None:
                break
            cold.append(window)
            wanted = Ticks(window.end_tick + 1, wanted.end)
        return cold

    async def submit_graft(self, bud_tag_id: str, submission_id: str) -> GraftSubmission:
        """Keep every window with an example of a bud until the submission is resolved.

        HOT and WARM windows become SUBMITTED; one that is SUBMITTED already gets the second id.
        Examples that were compressed before are reported as missing; ``NotFound`` if there is no
        example at all, or no such bud.
        """
        check_submission_id(submission_id)
        await self._file.read(lambda db: _require_bud(db, bud_tag_id))
        ranges, lost = await self._tagged_ticks(bud_tag_id)
        if not ranges and not lost:
            raise NotFound(f"the bud {bud_tag_id} has no examples: apply it to some first")

        async def prepare() -> Callable[[SqlConnection], GraftSubmission]:
            known = {session_id: await self.windows(session_id) for session_id in ranges}
            fresh = [
                window
                for session_id, wanted in ranges.items()
                for ticks in wanted
                for window in await self._hot_windows(session_id, ticks, known[session_id])
            ]

            def change(db: SqlConnection) -> GraftSubmission:
                _require_unchanged(db, known)
                done = _submit(db, submission_id, known, fresh, ranges)
                return replace(done, missing=(*done.missing, *lost))

            return change

        return await self._change(prepare)

    async def resolve_submission(self, submission_id: str, *, accepted: bool) -> list[TimeWindow]:
        """Release the windows of a submission and return them as they are then.

        A window that other submissions need stays SUBMITTED. The others become COLD if the
        submission was accepted, and otherwise WARM without a pin.
        """

        def change(db: SqlConnection) -> list[TimeWindow]:
            linked = _submitted(db, submission_id)
            if not linked:
                raise NotFound(f"no window is evidence of the submission {submission_id}")
            freed = [_without(window, submission_id) for window in linked]
            for window in freed:
                save_window(db, window)
            return freed

        freed = await self._file.write(change)
        if not accepted:
            return freed
        # A crash before this leaves them WARM without a pin, and ``expire`` compresses them later.
        resolved: list[TimeWindow] = []
        for window in freed:
            if window.fidelity is Fidelity.SUBMITTED:
                resolved.append(window)
                continue
            wanted = window.ticks
            while wanted.start <= wanted.end:
                cooled = await self._cool(window.session_id, wanted, None, divide=True)
                if cooled is None:
                    break
                resolved.append(cooled)
                wanted = Ticks(cooled.end_tick + 1, wanted.end)
        return resolved

    async def export_submission(
        self, submission_id: str, exports: Path, *, be_id: str
    ) -> EvidencePackage:
        """Write the evidence of a submission to ``exports/{submission_id}``.

        The timesteps of its windows, with the tags and the comments on them.
        """
        windows = await self.get_windows_for_submission(submission_id)
        if not windows:
            raise NotFound(f"no window is evidence of the submission {submission_id}")
        steps = [step for window in windows for step in await self._all_steps(window)]
        tables = {
            name: await self._annotations(name, windows)
            for name in ("tag_applications", "comments")
        }
        contents = {
            "timesteps.jsonl": [{"id": step.id, **asdict(step)} for step in steps],
            "windows.jsonl": [asdict(window) for window in windows],
            **{f"{name}.jsonl": rows for name, rows in tables.items()},
        }
        return await asyncio.to_thread(
            write_package, exports, submission_id, be_id=be_id, contents=contents
        )

    async def lineage(self, record_id: str) -> list[CompressedRecord]:
        """Return what stands for a timestep or a compressed record: it, then ever coarser ones.

        Empty for a timestep that is still in the log. ``NotFound`` if the id was never used.
        """
        is_step = record_id.startswith("ts-")
        session_id, tick = parse_timestep_id(record_id) if is_step else ("", 0)

        def query(db: SqlConnection) -> list[CompressedRecord]:
            if is_step:
                chain = read_records(
                    db,
                    "session_id = ? AND start_tick <= ? AND end_tick >= ?",
                    (session_id, tick, tick),
                )
            else:
                chain = read_records(db, "id = ?", (record_id,))
            while chain and chain[-1].superseded_by is not None:
                chain += read_records(db, "id = ?", (chain[-1].superseded_by,))
            return chain

        chain = await self._file.read(query)
        if not chain and (not is_step or await self._log.get_timestep(record_id) is None):
            raise NotFound(f"there is no timestep or compressed record {record_id!r:.200}")
        return chain

    async def _cool(
        self,
        session_id: str,
        wanted: Ticks,
        summary: str | None,
        *,
        hot_from: int = 0,
        divide: bool = False,
    ) -> TimeWindow | None:
        """Compress the first part of a range that may expire; None if there is none.

        With ``divide``, an event that goes on after the range is compressed as far as it is inside.
        """

        async def prepare() -> Callable[[SqlConnection], TimeWindow | None]:
            known = await self.windows(session_id)
            for part in _expiring(known, wanted, hot_from=hot_from):
                steps = await self._whole_events(session_id, part, divide=divide)
                if steps:
                    break
            else:
                return lambda _: None

            def change(db: SqlConnection) -> TimeWindow:
                _require_unchanged(db, {session_id: known})
                return _compress(db, known, steps, summary, self._top_k)

            return change

        return await self._change(prepare)

    async def _whole_events(
        self, session_id: str, part: Ticks, *, divide: bool
    ) -> Sequence[TimestepRecord]:
        """Return the first timesteps of a range, without an event that is not complete."""
        steps = await self._log.query(
            session_id=session_id, tick_range=part, limit=STEPS_PER_CHANGE
        )
        end = steps[-1].tick if len(steps) == STEPS_PER_CHANGE else part.end
        events = {step.event_id for step in steps if step.event_id is not None}
        ticks = await self._log.event_ticks(session_id, sorted(events))
        # Events may overlap, as those of parallel tool calls do: the cut divides none of them.
        cut = end + 1
        for first, last in sorted(ticks.values(), key=lambda each: each[1], reverse=True):
            if last >= cut:
                cut = min(cut, first)
        whole = [step for step in steps if step.tick < cut]
        # An event that is longer than one change is divided, as it would otherwise never expire.
        return whole if whole or not (divide or end < part.end) else steps

    async def _all_steps(self, window: TimeWindow) -> list[TimestepRecord]:
        pages = self._log.pages(window.session_id, window.ticks)
        return [step async for page in pages for step in page]

    async def _annotations(
        self, table: str, windows: Sequence[TimeWindow]
    ) -> list[dict[str, object]]:
        """Return the rows of tags or comments on windows, with the names of the tags."""
        found: dict[str, dict[str, object]] = {}
        for window in windows:
            steps = await self._all_steps(window)
            events = {step.event_id for step in steps if step.event_id is not None}
            rows = await self._file.read(
                partial(annotations_in, table=table, window=window, event_ids=events)
            )
            found |= {str(row["id"]): row for row in rows}
        return list(found.values())

    async def _hot_windows(
        self, session_id: str, ticks: Ticks, known: Sequence[TimeWindow]
    ) -> list[TimeWindow]:
        """Return new windows for the parts of a range that have none; HOT and not stored yet."""
        found: list[TimeWindow] = []
        recorded = Ticks(ticks.start, min(ticks.end, await self._log.last_tick(session_id)))
        for part in uncovered(recorded, (window.ticks for window in known)):
            tokens, first, last = 0, None, None
            async for steps in self._log.pages(session_id, part):
                first, last = first or steps[0], steps[-1]
                tokens += sum(map(token_count, steps))
            if first is not None and last is not None:
                found.append(_window_of(first, last, tokens))
        return found

    def _retain(
        self,
        db: SqlConnection,
        known: Sequence[TimeWindow],
        fresh: Sequence[TimeWindow],
        ticks: Ticks,
        reason: str | None,
    ) -> Retained:
        inside = overlapping(ticks, known)
        again = [
            replace(window, pinned=True, pinned_reason=reason or window.pinned_reason)
            for window in inside
            if window.fidelity is Fidelity.WARM
        ]
        submitted = [window for window in inside if window.fidelity is Fidelity.SUBMITTED]
        kept = [*fresh, *again, *submitted]
        if not kept:
            raise NotFound(f"nothing is left of the ticks {ticks.start} to {ticks.end}")
        unpinned = [window for window in inside if not window.pinned]
        wanted = sum(
            window.token_count
            for window in (*fresh, *again)
            if window.id in {each.id for each in (*fresh, *unpinned)}
        )
        used = warm_tokens(read_windows(db, "fidelity = 'warm'"))
        if used + wanted > self.warm_quota_tokens:
            raise QuotaExceeded(wanted=wanted, used=used, quota=self.warm_quota_tokens)
        for window in (*fresh, *again):
            save_window(db, window)
        return Retained(
            windows=tuple(sorted(kept, key=lambda window: window.start_tick)),
            tokens=wanted,
            gone=tuple(window.ticks for window in inside if window.fidelity is Fidelity.COLD),
        )

    async def _tagged_ticks(self, tag_id: str) -> tuple[dict[str, list[Ticks]], list[str]]:
        """Return the ticks with a tag by session, and the tagged events that are not in the log."""
        lost: list[str] = []
        targets = await self._file.read(lambda db: tag_targets(db, [tag_id]))
        found: dict[str, list[Ticks]] = {}
        for session_id, start, end in targets.ranges:
            found.setdefault(session_id, []).append(Ticks(start, end))
        events: dict[str, list[str]] = {}
        for session_id, event_id in targets.events:
            events.setdefault(session_id, []).append(event_id)
        for session_id, event_ids in events.items():
            ticks = await self._log.event_ticks(session_id, event_ids)
            found.setdefault(session_id, []).extend(Ticks(*each) for each in ticks.values())
            lost += [f"{session_id}:{name}" for name in event_ids if name not in ticks]
        return {name: merge_ticks(ranges) for name, ranges in found.items()}, lost

    async def _change(self, prepare: Callable[[], Awaitable[Callable[[SqlConnection], T]]]) -> T:
        """Read, then write; again if another process changed the windows in between."""
        for _ in range(ATTEMPTS_MAX):
            change = await prepare()
            try:
                return await self._file.write(change)
            except _WindowsChanged:
                continue
        raise Unavailable("other processes keep changing the windows of this session: try again")


class _WindowsChanged(Exception):  # noqa: N818 — never leaves this module
    """The windows of a session are not those that were read."""


def _require_unchanged(db: SqlConnection, known: Mapping[str, Sequence[TimeWindow]]) -> None:
    for session_id, windows in known.items():
        if read_windows(db, "session_id = ?", (session_id,)) != list(windows):
            raise _WindowsChanged


def _require_window(db: SqlConnection, window_id: str) -> TimeWindow:
    windows = read_windows(db, "id = ?", (window_id,))
    if not windows:
        raise NotFound(f"there is no window {window_id!r:.200}")
    return windows[0]


def _require_bud(db: SqlConnection, tag_id: str) -> None:
    rows = db.execute("SELECT tag_type FROM tags WHERE id = ?", (tag_id,)).fetchall()
    if not rows:
        raise NotFound(f"there is no tag {tag_id!r:.80}")
    if rows[0][0] != TagType.BUD:
        raise Incorrect(f"the tag {tag_id} is not a bud, which collects examples to submit")


def _submitted(db: SqlConnection, submission_id: str) -> list[TimeWindow]:
    return read_windows(
        db,
        "fidelity = 'submitted' AND EXISTS"
        " (SELECT 1 FROM json_each(submission_ids) WHERE value = ?)",
        (submission_id,),
    )


def _submit(
    db: SqlConnection,
    submission_id: str,
    known: Mapping[str, Sequence[TimeWindow]],
    fresh: Sequence[TimeWindow],
    ranges: Mapping[str, Sequence[Ticks]],
) -> GraftSubmission:
    inside = {
        window.id: window
        for session_id, wanted in ranges.items()
        for ticks in wanted
        for window in overlapping(ticks, known[session_id])
    }
    became = [window for window in (*inside.values(), *fresh) if window.fidelity in _KEPT]
    linked = [window for window in inside.values() if window.fidelity is Fidelity.SUBMITTED]
    for window in (*became, *linked):
        if submission_id not in window.submission_ids:
            ids = (*window.submission_ids, submission_id)
            save_window(db, replace(window, fidelity=Fidelity.SUBMITTED, submission_ids=ids))
    missing = [
        f"{window.session_id}:{window.start_tick}-{window.end_tick}"
        for window in inside.values()
        if window.fidelity is Fidelity.COLD
    ]
    return GraftSubmission(
        submission_id=submission_id,
        window_ids=tuple(window.id for window in became),
        missing=tuple(missing),
    )


_KEPT: Final = (Fidelity.HOT, Fidelity.WARM)


def _without(window: TimeWindow, submission_id: str) -> TimeWindow:
    left = tuple(each for each in window.submission_ids if each != submission_id)
    if left:
        return replace(window, submission_ids=left)
    return replace(
        window, submission_ids=(), fidelity=Fidelity.WARM, pinned=False, pinned_reason=None
    )


def _expiring(known: Sequence[TimeWindow], wanted: Ticks, *, hot_from: int) -> list[Ticks]:
    """Return the parts of a range that nothing keeps, in order."""
    released = [
        Ticks(max(window.start_tick, wanted.start), min(window.end_tick, wanted.end))
        for window in overlapping(wanted, known)
        if window.fidelity is Fidelity.WARM and not window.pinned
    ]
    recent = Ticks(max(wanted.start, hot_from), wanted.end)
    hot = uncovered(recent, (window.ticks for window in known))
    return merge_ticks([*hot, *released])


def _compress(
    db: SqlConnection,
    known: Sequence[TimeWindow],
    steps: Sequence[TimestepRecord],
    summary: str | None,
    top_k: int,
) -> TimeWindow:
    """Replace timesteps by their replies and a COLD window."""
    first, last = steps[0], steps[-1]
    ticks = Ticks(first.tick, last.tick)
    events = {step.event_id for step in steps if step.event_id is not None}
    applied = tags_in(db, first.session_id, ticks, events)
    event_at = {step.tick: step.event_id for step in steps}

    def tags_of(start: int, end: int) -> list[str]:
        return [
            tag_id
            for tag_id, target in applied
            if (
                target == event_at[start]
                if isinstance(target, str)
                else target.start <= end and start <= target.end
            )
        ]

    ids = free_record_ids(db, CompressionLevel.REPLY, f"{first.session_id}:{first.tick}")
    replies = reply_records(steps, record_ids=ids, tags_of=tags_of, k=top_k)
    for reply in replies:
        save_record(db, reply)
    _cut(db, known, ticks)
    cold = replace(
        _window_of(first, last, sum(reply.token_count for reply in replies)),
        fidelity=Fidelity.COLD,
        compression_level=CompressionLevel.REPLY,
        summary=summary,
        top_k_activations=strongest((reply.top_k_activations for reply in replies), top_k),
        significant_tags=most_frequent((reply.significant_tags for reply in replies), top_k),
        source_record_ids=tuple(reply.id for reply in replies),
    )
    save_window(db, cold)
    db.execute(
        "INSERT OR IGNORE INTO gone VALUES (?, ?, ?)", (first.session_id, ticks.start, ticks.end)
    )
    return cold


def _cut(db: SqlConnection, known: Sequence[TimeWindow], ticks: Ticks) -> None:
    """Take a range out of the WARM windows that it overlaps; tokens are divided by ticks."""
    for window in overlapping(ticks, known):
        if window.fidelity is not Fidelity.WARM:
            continue
        db.execute("DELETE FROM time_windows WHERE id = ?", (window.id,))
        length = window.end_tick - window.start_tick + 1
        for rest in uncovered(window.ticks, [ticks]):
            left = replace(
                window,
                id=_window_id(),
                start_tick=rest.start,
                end_tick=rest.end,
                token_count=window.token_count * (rest.end - rest.start + 1) // length,
            )
            save_window(db, left)


def _window_of(first: TimestepRecord, last: TimestepRecord, tokens: int) -> TimeWindow:
    return TimeWindow(
        id=_window_id(),
        session_id=first.session_id,
        start_tick=first.tick,
        end_tick=last.tick,
        start_time=first.timestamp,
        end_time=max(first.timestamp, last.timestamp),
        fidelity=Fidelity.HOT,
        token_count=tokens,
    )


def _window_id() -> str:
    return f"window-{uuid4().hex[:12]}"
