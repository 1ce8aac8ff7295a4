"""One store retells a history: it is told every step, and then asked.

Touches the store. Sequences, tokens and instants are the store's own, so answers come in the words
of the history: what step 3 committed is 'step 3' in every store. What the rules make of the same
steps at the same instants is asked of the oracle, in the same words.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from ctxmgr.bench.histories import Change, Guard, History, Moment, Point, Question, Step, When
from ctxmgr.bench.oracle import Entry, Oracle
from ctxmgr.core.store import (
    AsOf,
    Commit,
    Delete,
    HistoryEntry,
    Instant,
    Match,
    Operation,
    Put,
    Store,
    Version,
)
from ctxmgr.errors import Conflict

QUIET_MS: Final = 2
"""Between steps, so that a moment and the millisecond beside it are apart from every other."""

_NO_TOKEN: Final = "no-such-token"  # noqa: S105 - of a step that was refused

Answer: TypeAlias = list[tuple[Any, ...]]


@dataclass
class Retelling:
    """One store, and what the history became in it."""

    store: Store
    oracle: Oracle = field(default_factory=Oracle)
    commits: list[Commit | None] = field(default_factory=list)
    outcomes: list[tuple[str, ...]] = field(default_factory=list)
    """Of each step: nothing, or the ids that were in conflict."""
    names: dict[Instant, str] = field(default_factory=dict)
    """Instants of this store by what the history calls them."""

    async def tell(self, history: History) -> Self:
        """Commit step after step."""
        for step in history.steps:
            operations = await self._operations(step)
            try:
                commit = await self.store.commit(operations)
            except Conflict as conflict:
                self.outcomes.append(conflict.object_ids)
                self.commits.append(None)
                continue
            self.outcomes.append(())
            self._learn(commit, operations)
            if not history.burst:
                await _quiet_after(commit.system_time)
        return self

    def _instant(self, when: When) -> Instant | None:
        if not isinstance(when, Moment):
            return when
        commit = self._commit(when.step)
        if commit is None:
            return 0
        instant = commit.system_time + when.offset_ms
        self.names.setdefault(instant, f"step {when.step} {when.offset_ms:+} ms")
        return instant

    def _commit(self, step: int) -> Commit | None:
        """The step's, or the one before it that was let through."""
        made = (each for each in reversed(self.commits[: step + 1]) if each is not None)
        return next(made, None)

    def _as_of(self, point: Point) -> AsOf:
        valid = self._instant(point.valid)
        commit = None if point.known is None else self._commit(point.known)
        if commit is None:
            return AsOf(valid_time=valid)
        if point.by_clock:
            return AsOf(valid_time=valid, system_time=commit.system_time)
        return AsOf(valid_time=valid, sequence=commit.sequence)

    async def ask(self, question: Question) -> Answer:
        as_of = self._as_of(question.point)
        match question.call:
            case "get":
                version = await self.store.get(question.object_ids[0], as_of=as_of)
                return [] if version is None else [self._version(version)]
            case "get_many":
                versions = await self.store.get_many(question.object_ids, as_of=as_of)
                return [self._version(each) for each in versions.values()]
            case "find":
                return [self._version(each) for each in await self._find(question, as_of)]
            case "history":
                return [self._entry(each) for each in await self._history(question, as_of)]

    def expect(self, question: Question) -> Answer:
        """What the rules say."""
        known, valid = self._known(question.point), self._instant(question.point.valid)
        if question.call == "history":
            return self._expect_history(question, known=known, until=valid)
        at = _now() if valid is None else valid
        if question.call == "find":
            return [
                self._expected(object_id, entry)
                for object_id, entry in self.oracle.find(question.query, valid=at, known=known)
            ]
        visible = (
            (each, self.oracle.visible(each, valid=at, known=known)) for each in question.object_ids
        )
        return [self._expected(each, entry) for each, entry in visible if entry is not None]

    async def _operations(self, step: Step) -> list[Operation]:
        guards = [await self._match(each) for each in step.guards]
        return [*guards, *(self._write(each) for each in step.changes)]

    async def _match(self, guard: Guard) -> Match:
        at = self._instant(guard.at)
        if guard.expect == "absent":
            return Match(guard.object_id, None, at)
        if guard.expect == "visible":
            version = await self.store.get(guard.object_id, as_of=AsOf(valid_time=at))
            return Match(guard.object_id, None if version is None else version.token, at)
        commit = self.commits[guard.expect]
        return Match(guard.object_id, _NO_TOKEN if commit is None else commit.token, at)

    def _write(self, change: Change) -> Put | Delete:
        start, end = self._instant(change.start), self._instant(change.end)
        if change.document is None:
            return Delete(change.object_id, start, end)
        return Put(change.document, start, end)

    def _learn(self, commit: Commit, operations: list[Operation]) -> None:
        self.names.setdefault(commit.system_time, f"step {len(self.commits)}")
        self.commits.append(commit)
        self.oracle.learn(commit, [each for each in operations if not isinstance(each, Match)])

    def _expect_history(
        self, question: Question, *, known: int | None, until: Instant | None
    ) -> Answer:
        entries = self.oracle.history(
            question.object_ids[0],
            since=self._instant(question.since),
            until=until,
            known=known,
            corrections=question.corrections,
        )
        told = [
            (
                self._name(each.valid_time),
                self._step(each.sequence),
                self._name(each.system_time),
                each.document is None,
                each.document if question.documents else None,
            )
            for each in entries
        ]
        return told[::-1] if question.newest_first else told

    def _known(self, point: Point) -> int | None:
        as_of = self._as_of(point)
        if as_of.system_time is None:
            return as_of.sequence
        made = [each for each in self.commits if each and each.system_time <= as_of.system_time]
        return max(each.sequence for each in made)

    async def _history(self, question: Question, as_of: AsOf) -> list[HistoryEntry]:
        entries: list[HistoryEntry] = []
        cursor: str | None = None
        while True:
            page = await self.store.history(
                question.object_ids[0],
                as_of=as_of,
                since=self._instant(question.since),
                newest_first=question.newest_first,
                corrections=question.corrections,
                documents=question.documents,
                limit=question.limit,
                cursor=cursor,
            )
            entries.extend(page.entries)
            cursor = page.cursor
            if cursor is None:
                return entries

    async def _find(self, question: Question, as_of: AsOf) -> list[Version]:
        versions: list[Version] = []
        cursor: str | None = None
        while True:
            page = await self.store.find(
                question.query, as_of=as_of, limit=question.limit, cursor=cursor
            )
            versions.extend(page.versions)
            cursor = page.cursor
            if cursor is None:
                return versions

    def _version(self, version: Version) -> tuple[Any, ...]:
        steps = [n for n, each in enumerate(self.commits) if each and each.token == version.token]
        return (version.object_id, self._name(version.valid_time), steps, version.document)

    def _expected(self, object_id: str, entry: Entry) -> tuple[Any, ...]:
        name = self._name(entry.valid_time)
        return (object_id, name, [self._step(entry.sequence)], entry.document)

    def _entry(self, entry: HistoryEntry) -> tuple[Any, ...]:
        return (
            self._name(entry.valid_time),
            self._step(entry.sequence),
            self._name(entry.system_time),
            entry.deleted,
            entry.document,
        )

    def _name(self, instant: Instant) -> str | Instant:
        return self.names.get(instant, instant)

    def _step(self, sequence: int) -> int:
        made = (n for n, each in enumerate(self.commits) if each and each.sequence == sequence)
        return next(made, -1)


async def _quiet_after(instant: Instant) -> None:
    wait_ms = instant + QUIET_MS + 1 - _now()
    if wait_ms > 0:
        await asyncio.sleep(wait_ms / 1_000)


def _now() -> Instant:
    return time.time_ns() // 1_000_000
