"""Sightings become plans, and plans transactions. Reads the store and the host's disk, and writes.

The store is read first and the source second, and every put is guarded by what the store said. So
of two clients that index one file, the one with the older bytes conflicts, and reads again.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from ctxmgr.core.file_outcomes import Gone
from ctxmgr.core.file_times import NS_PER_MS
from ctxmgr.core.index_plans import Moment, Observation, Outcome, Plan, plan
from ctxmgr.core.observing import Observing, Sighting, Target
from ctxmgr.core.store import Commit, Instant, Store, Version
from ctxmgr.errors import Conflict

READERS_MAX: Final = 4
"""Threads that read at once. Python runs one at a time; more only help where the disk is slow."""

ATTEMPTS_MAX: Final = 5
"""Plans for one transaction. Each conflict is a success of another client on the same file."""

CLOCK_WAIT_MS_MAX: Final = 20
"""How long the millisecond of a version is waited out. Longer, and the clocks differ."""

_T = TypeVar("_T")
_U = TypeVar("_U")


class IndexCommits:
    """What one client commits of what it observes."""

    def __init__(
        self, store: Store, observing: Observing, *, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._store = store
        self._observing = observing
        self._clock_ns = clock_ns
        self._last_transaction: Instant | None = None

    def note(self, commit: Commit) -> None:
        """Learn the store's time from any transaction, so that mtimes before it can be used."""
        self._last_transaction = max(self._last_transaction or 0, commit.system_time)

    async def plan(
        self, sightings: Sequence[Sighting], *, kept: Sequence[Observation] = ()
    ) -> Plan:
        """Read the store, then the sources, and plan one transaction."""
        ids = [*(each.object_id for each in kept), *(each.object_id for each in sightings)]
        stored = await self._store.get_many(ids)
        return await self._planned([*kept, *await self._read_all(sightings)], stored)

    async def plan_read(self, observed: Sequence[Observation]) -> Plan:
        """Plan for sources that were read before the store was.

        That is sound for what is not stored yet, whose put is guarded by its absence, and for what
        is stored as it was read. Anything else may have been read, and stored, by another client
        in between: it is read again.
        """
        stored = await self._store.get_many(each.object_id for each in observed)
        late = [each for each in observed if _differs(each, stored.get(each.object_id))]
        if late:
            known = {each.object_id for each in late}
            stored.update(await self._store.get_many(known))
            sightings = await asyncio.to_thread(
                _all(self._observing.look_again), [_target(each) for each in late]
            )
            kept = [each for each in observed if each.object_id not in known]
            observed = [*kept, *await self._read_all(sightings)]
        return await self._planned(observed, stored)

    async def plan_again(self, conflicted: Plan) -> Plan:
        """Plan anew what conflicted: the store and the sources are read again."""
        kept = [each for each in conflicted.observations if not _is_of_disk(each)]
        changing = [_target(each) for each in conflicted.observations if _is_of_disk(each)]
        sightings = await asyncio.to_thread(_all(self._observing.look_again), changing)
        return await self.plan(sightings, kept=kept)

    async def apply(self, planned: Plan) -> tuple[Outcome, ...]:
        """Commit a plan by itself, planning again where others were faster."""
        for _ in range(ATTEMPTS_MAX):
            if not planned.operations:
                return planned.outcomes
            try:
                self.note(await self._store.commit(planned.operations))
            except Conflict:
                planned = await self.plan_again(planned)
            else:
                return planned.outcomes
        raise Conflict(tuple(each.object_id for each in planned.written))

    async def moment(self) -> Moment:
        """Return the clocks that valid times are decided by."""
        if self._last_transaction is None:
            self._last_transaction = (await self._store.status()).system_time
        return Moment(now=self._now(), last_transaction=self._last_transaction)

    async def _planned(
        self, observed: Sequence[Observation], stored: Mapping[str, Version]
    ) -> Plan:
        moment = await self.moment()
        planned = await asyncio.to_thread(plan, observed, stored=stored, moment=moment)
        await self._wait_out(planned.not_before)
        return planned

    async def _read_all(self, sightings: Sequence[Sighting]) -> list[Observation]:
        share = max(-(-len(sightings) // READERS_MAX), 1)
        parts = [sightings[start : start + share] for start in range(0, len(sightings), share)]
        read_part = _all(self._observing.read)
        read = await asyncio.gather(*(asyncio.to_thread(read_part, part) for part in parts))
        return [observation for part in read for observation in part]

    async def _wait_out(self, instant: Instant | None) -> None:
        if instant is None:
            return
        left_ms = instant + 1 - self._now()
        if 0 < left_ms <= CLOCK_WAIT_MS_MAX:
            await asyncio.sleep(left_ms / 1_000)

    def _now(self) -> Instant:
        return self._clock_ns() // NS_PER_MS


def _differs(observed: Observation, before: Version | None) -> bool:
    if before is None:
        return False
    return observed.file is None or before.document["object_hash"] != observed.file.object_hash


def _is_of_disk(observed: Observation) -> bool:
    """Tell whether looking again can give another answer: not for stubs and tools' output."""
    if observed.file is None:
        return isinstance(observed.unread, Gone)
    return observed.mtime_ns is not None


def _target(observed: Observation) -> Target:
    return Target(
        source=observed.source, object_id=observed.object_id, object_hash=None, is_stub=False
    )


def _all(act: Callable[[_T], _U]) -> Callable[[Iterable[_T]], list[_U]]:
    return lambda items: [act(each) for each in items]
