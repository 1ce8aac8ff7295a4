"""Compares two stores: applies one history to both and reports where their reads differ.

Touches the two stores it is given. Sequences, tokens and instants differ between stores, so answers
are expressed in terms of the history: what step 3 committed is 'step 3' in every store. Every
answer is also compared with the oracle's; in a burst, where two stores share milliseconds
differently, only with that. Where the stores differ on the meaning of valid time, XTDB is right.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ctxmgr.bench.stores.histories import (
    RandomChange,
    RandomGuard,
    RandomHistory,
    RandomRead,
    StepPoint,
    StepTime,
    When,
)
from ctxmgr.bench.stores.oracle import Oracle, OracleEntry
from ctxmgr.core.store.contract import (
    AsOf,
    Commit,
    Delete,
    HistoryEntry,
    Instant,
    Match,
    Put,
    Store,
    Version,
)
from ctxmgr.errors import Conflict

QUIET_MS: Final = 2
"""Pause between steps: an instant and its neighbouring milliseconds then belong to one step."""

ANSWER_LENGTH_MAX: Final = 2_000
"""Characters of one answer in a report."""

_NO_TOKEN: Final = "no-such-token"  # noqa: S105 (of a step that was rejected)

Answer: TypeAlias = list[tuple[Any, ...]]


async def disagreements(a: Store, b: Store, history: RandomHistory) -> list[str]:
    """Return a description of each difference; empty if the stores agree."""
    one, other = AppliedHistory(a), AppliedHistory(b)
    await asyncio.gather(one.apply(history), other.apply(history))
    for number, outcomes in enumerate(zip(one.outcomes, other.outcomes, strict=True)):
        if outcomes[0] != outcomes[1]:
            return [_report(history, f"conflicts of step {number}", *map(list, outcomes))]
    differences: list[str] = []
    for question in history.questions:
        answers = await asyncio.gather(one.ask(question), other.ask(question))
        expected = one.expect(question), other.expect(question)
        if (not history.burst and answers[0] != answers[1]) or tuple(answers) != expected:
            differences.append(_report(history, str(question), *answers, *expected))
    return differences


@dataclass
class AppliedHistory:
    """One store, and the commits that a history became in it."""

    store: Store
    oracle: Oracle = field(default_factory=Oracle)
    commits: list[Commit | None] = field(default_factory=list)
    outcomes: list[tuple[str, ...]] = field(default_factory=list)
    """For each step, the ids that were in conflict."""
    names: dict[Instant, str] = field(default_factory=dict)
    """The history's names for instants of this store."""

    async def apply(self, history: RandomHistory) -> None:
        """Commit every step."""
        for step in history.steps:
            matches = [await self._match(guard) for guard in step.guards]
            writes = [self._write(change) for change in step.changes]
            try:
                commit = await self.store.commit([*matches, *writes])
            except Conflict as conflict:
                self.outcomes.append(conflict.object_ids)
                self.commits.append(None)
                continue
            self.outcomes.append(())
            self.names.setdefault(commit.system_time, f"step {len(self.commits)}")
            self.commits.append(commit)
            self.oracle.add(commit, writes)
            if not history.burst:
                wait_ms = commit.system_time + QUIET_MS + 1 - _now()
                await asyncio.sleep(max(wait_ms, 0) / 1_000)

    async def ask(self, question: RandomRead) -> Answer:
        """Return the store's answer."""
        as_of = self._as_of(question.point)
        match question.call:
            case "get":
                version = await self.store.get(question.object_ids[0], as_of=as_of)
                return [] if version is None else [self._version(version)]
            case "get_many":
                versions = await self.store.get_many(question.object_ids, as_of=as_of)
                return [self._version(version) for version in versions.values()]
            case "find":
                return [self._version(version) for version in await self._find(question, as_of)]
            case "history":
                return [
                    (
                        self._name(entry.valid_time),
                        self._step(entry.sequence),
                        self._name(entry.system_time),
                        entry.deleted,
                        entry.document,
                    )
                    for entry in await self._history(question, as_of)
                ]

    def expect(self, question: RandomRead) -> Answer:
        """Return the oracle's answer."""
        as_of = self._as_of(question.point)
        known = as_of.sequence
        if as_of.system_time is not None:
            known = max(
                commit.sequence
                for commit in self.commits
                if commit and commit.system_time <= as_of.system_time
            )
        valid = self._instant(question.point.valid)
        if question.call == "history":
            return self._expect_history(question, known=known, until=valid)
        at = _now() if valid is None else valid
        if question.call == "find":
            return [
                self._expected(object_id, entry)
                for object_id, entry in self.oracle.find(question.query, valid=at, known=known)
            ]
        visible = (
            (object_id, self.oracle.visible(object_id, valid=at, known=known))
            for object_id in question.object_ids
        )
        return [
            self._expected(object_id, entry) for object_id, entry in visible if entry is not None
        ]

    def _instant(self, when: When) -> Instant | None:
        if not isinstance(when, StepTime):
            return when
        commit = self._commit(when.step)
        if commit is None:
            return 0
        instant = commit.system_time + when.offset_ms
        self.names.setdefault(instant, f"step {when.step} {when.offset_ms:+} ms")
        return instant

    def _commit(self, step: int) -> Commit | None:
        """Return the commit of a step or, if it was rejected, the last commit before it."""
        commits = (commit for commit in reversed(self.commits[: step + 1]) if commit is not None)
        return next(commits, None)

    def _as_of(self, point: StepPoint) -> AsOf:
        valid = self._instant(point.valid)
        commit = None if point.known is None else self._commit(point.known)
        if commit is None:
            return AsOf(valid_time=valid)
        if point.by_clock:
            return AsOf(valid_time=valid, system_time=commit.system_time)
        return AsOf(valid_time=valid, sequence=commit.sequence)

    async def _match(self, guard: RandomGuard) -> Match:
        at = self._instant(guard.at)
        if guard.expect == "absent":
            return Match(guard.object_id, None, at)
        if guard.expect == "visible":
            version = await self.store.get(guard.object_id, as_of=AsOf(valid_time=at))
            return Match(guard.object_id, None if version is None else version.token, at)
        commit = self.commits[guard.expect]
        return Match(guard.object_id, _NO_TOKEN if commit is None else commit.token, at)

    def _write(self, change: RandomChange) -> Put | Delete:
        start, end = self._instant(change.start), self._instant(change.end)
        if change.document is None:
            return Delete(change.object_id, start, end)
        return Put(change.document, start, end)

    def _expect_history(
        self, question: RandomRead, *, known: int | None, until: Instant | None
    ) -> Answer:
        entries = self.oracle.history(
            question.object_ids[0],
            since=self._instant(question.since),
            until=until,
            known=known,
            corrections=question.corrections,
        )
        rows = [
            (
                self._name(entry.valid_time),
                self._step(entry.sequence),
                self._name(entry.system_time),
                entry.document is None,
                entry.document if question.documents else None,
            )
            for entry in entries
        ]
        return rows[::-1] if question.newest_first else rows

    async def _history(self, question: RandomRead, as_of: AsOf) -> list[HistoryEntry]:
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

    async def _find(self, question: RandomRead, as_of: AsOf) -> list[Version]:
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
        steps = [
            n for n, commit in enumerate(self.commits) if commit and commit.token == version.token
        ]
        return (version.object_id, self._name(version.valid_time), steps, version.document)

    def _expected(self, object_id: str, entry: OracleEntry) -> tuple[Any, ...]:
        name = self._name(entry.valid_time)
        return (object_id, name, [self._step(entry.sequence)], entry.document)

    def _name(self, instant: Instant) -> str | Instant:
        return self.names.get(instant, instant)

    def _step(self, sequence: int) -> int:
        steps = (
            n for n, commit in enumerate(self.commits) if commit and commit.sequence == sequence
        )
        return next(steps, -1)


def _report(history: RandomHistory, subject: str, *answers: Answer | list[str]) -> str:
    lines = [f"seed {history.seed}: {subject}"]
    names = ("one store", "other store", "by the rules", "by the rules (other store)")
    for name, answer in zip(names, answers, strict=False):
        text = repr(answer)
        if len(text) > ANSWER_LENGTH_MAX:
            text = f"{text[:ANSWER_LENGTH_MAX]}… ({len(text)} characters)"
        lines.append(f"  {name:12} {text}")
    for number, step in enumerate(history.steps):
        operations = [
            f"match {guard.object_id} {guard.expect} at {guard.at}" for guard in step.guards
        ]
        for change in step.changes:
            verb = "delete" if change.document is None else "put"
            operations.append(f"{verb} {change.object_id} from {change.start} until {change.end}")
        lines.append(f"  step {number}: {'; '.join(operations)}")
    return "\n".join(lines)


def _now() -> Instant:
    return time.time_ns() // 1_000_000
