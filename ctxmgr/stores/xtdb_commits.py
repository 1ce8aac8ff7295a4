"""One transaction, from submission to a known outcome. Touches the network.

submit ──► on the log ──► indexed: committed ──► Commit
   │            │                  aborted ────► its key is there: the first one's Commit
   │            │                                it is not: Conflict, with the ids
   │            │                                no match failed: Replaced, see xtdb_known
   │            └── no answer, or none that can be understood ─► OutcomeUnknown, whatever it is
   └── reply lost: submit again, which is safe: whichever comes second finds the key and aborts
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.store import Commit, Instant, Match
from ctxmgr.errors import Conflict, CtxmgrError, Incorrect, OutcomeUnknown
from ctxmgr.stores.edn import Keyword, dumps
from ctxmgr.stores.xtdb_http import Params, Transport
from ctxmgr.stores.xtdb_layout import TOKEN, guard_id
from ctxmgr.stores.xtdb_points import Point, Points
from ctxmgr.stores.xtdb_queries import entities_query, existing_query
from ctxmgr.stores.xtdb_replies import Behind, Lost, NotSent, Replaced, readable
from ctxmgr.stores.xtdb_transactions import CALL, DIGEST, Submission, tx_id

RESUBMIT_PAUSES_S: Final = (0.1, 0.5, 2.0)
"""Before each resubmission: a proxy's hiccup, another node's turn, a service manager's restart."""

WAITS_MAX: Final = 4
"""For a transaction to be indexed: two minutes with the default timeout. One of 10,000 operations
takes half a minute on two busy cores."""

_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")
_COMMITTED: Final = Keyword("tx-committed?")
_ID, _TOKEN = Keyword("xt/id"), Keyword(TOKEN)


@dataclass(frozen=True, slots=True)
class _Landed:
    """Where a submission stands on the log."""

    sequence: int
    system_time: Instant
    again: bool
    """An earlier try may stand there too."""


class Commits:
    """Lands transactions."""

    def __init__(self, http: Transport, points: Points) -> None:
        self._http = http
        self._points = points

    async def land(self, submission: Submission, *, again: bool = False) -> Commit:
        """Send the transaction and find out what became of it. ``again``: it was sent before."""
        seen = self._points.seen
        landed = await self._submitted(submission, again=again)
        self._points.landed(landed.sequence, seen=seen)
        try:
            judged = await self._judged(submission, landed)
        except CtxmgrError as error:
            raise OutcomeUnknown(submission.key, str(error)) from error
        if isinstance(judged, CtxmgrError):
            raise judged
        return judged

    async def _judged(self, submission: Submission, landed: _Landed) -> Commit | CtxmgrError:
        """What became of it. An error returned is the verdict; one raised says nothing about it."""
        committed = await self._committed(landed.sequence)
        self._points.saw(landed.sequence)
        if not committed:
            return await self._aborted(submission, landed)
        return _commit(submission, landed.sequence, landed.system_time, repeated=False)

    async def _submitted(self, submission: Submission, *, again: bool) -> _Landed:
        lost: Lost | None = None
        for pause_s in (*RESUBMIT_PAUSES_S, None):
            try:
                sequence, time = await self._http.submit(submission.body)
                return _Landed(sequence, time, again=again or lost is not None)
            except Lost as error:
                lost = error
            except CtxmgrError as error:
                if lost is None:
                    raise
                if not isinstance(error, NotSent):
                    raise OutcomeUnknown(submission.key, f"{lost}; then {error}") from error
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        raise OutcomeUnknown(submission.key, str(lost)) from lost

    async def _committed(self, sequence: int) -> bool:
        params = {"tx-id": str(sequence), **self._points.confirming(sequence)}
        for _ in range(WAITS_MAX - 1):
            try:
                return await is_committed(self._http, params)
            except Behind:
                continue  # it is still indexing
        return await is_committed(self._http, params)

    async def _aborted(self, submission: Submission, landed: _Landed) -> Commit | CtxmgrError:
        sequence = landed.sequence
        record = None
        if landed.again or not submission.own_key:
            record = await self._record("entity", submission.key, sequence)
        if record is None:
            point = Point(landed.system_time, sequence)
            failed = await self._failed(submission.matches, point)
            if not failed and submission.relies:
                return Replaced("the database is not the one that pieces were stored in")
            return Conflict(failed)
        with readable(self._http.node):
            named, call = record.get(DIGEST), record.get(CALL)
        if named != submission.digest:
            return Incorrect(f"the key {submission.key!r} was used for other operations")
        entry = await self._record("entity-tx", submission.key, sequence)
        with readable(self._http.node):
            first, time = entry[_TX_ID], entry[_TX_TIME].ms
        return _commit(submission, first, time, repeated=call != submission.call)

    async def _record(self, path: str, key: str, sequence: int) -> Any:
        params = self._points.params(Point(None, sequence))
        return await self._http.get(path, {"eid-edn": dumps(tx_id(key)), **params})

    async def _failed(self, matches: tuple[Match, ...], point: Point) -> tuple[str, ...]:
        """The ids whose match did not hold when the transaction was judged."""
        failed: set[Match] = set()
        for at in dict.fromkeys(each.valid_time for each in matches):
            judged = Point(point.valid_time if at is None else at, point.sequence)
            failed |= await self._failed_at(
                [each for each in matches if each.valid_time == at], judged
            )
        return tuple(dict.fromkeys(each.object_id for each in matches if each in failed))

    async def _failed_at(self, matches: list[Match], point: Point) -> set[Match]:
        params = self._points.params(point)
        absent = [each.object_id for each in matches if each.token is None]
        guards = [guard_id(each.object_id) for each in matches if each.token is not None]
        there = await self._http.query(existing_query(absent), params) if absent else ()
        tokens = await self._http.query(entities_query(guards), params) if guards else ()
        with readable(self._http.node):
            existing = {object_id for (object_id,) in there}
            visible = {guard[_ID]: guard[_TOKEN] for (guard,) in tokens}
        return {each for each in matches if not _holds(each, existing, visible)}


async def is_committed(http: Transport, params: Params) -> bool:
    """Ask whether a transaction that the log took was committed, or aborted."""
    reply = await http.get("tx-committed", params)
    with readable(http.node):
        return bool(reply[_COMMITTED])


def _holds(match: Match, existing: Iterable[str], tokens: dict[str, str]) -> bool:
    if match.token is None:
        return match.object_id not in existing
    return tokens.get(guard_id(match.object_id)) == match.token


def _commit(
    submission: Submission, sequence: int, system_time: Instant, *, repeated: bool
) -> Commit:
    return Commit(
        sequence=sequence,
        system_time=system_time,
        key=submission.key,
        token=submission.key,
        repeated=repeated,
    )
